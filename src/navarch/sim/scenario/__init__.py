"""Scenario files: what a simulated fleet is, what befalls it and what must come of it."""
