"""Mending machines in place: which step next, and whether it has worked."""
