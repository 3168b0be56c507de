"""Scenarios from live fleets and from published traces."""
