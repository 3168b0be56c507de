"""Traces of real clusters, as scenarios."""
