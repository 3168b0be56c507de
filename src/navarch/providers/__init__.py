"""Adapters to clouds. Each translates for one cloud and is independent of the others."""
