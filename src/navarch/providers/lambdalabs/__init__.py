"""Machines at Lambda, over its public REST API."""
