"""Adapters that notify workload systems of changes, and operators of events."""
