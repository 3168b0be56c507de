"""Adapters that notify workload systems of changes, and people of alerts."""
