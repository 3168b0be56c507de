"""Strategies that choose where machines are bought."""
