"""Scenario files: a simulated fleet, the failures injected into it and the required outcome."""
