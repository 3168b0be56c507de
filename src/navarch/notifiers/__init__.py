"""Adapters that tell others: workload systems to step aside, people what happened."""
