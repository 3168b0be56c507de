"""Incidents, not events: what belongs together, what caused it, and when it is over."""
