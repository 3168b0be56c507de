"""Adapters to clouds: each translates for one, and knows of no other."""
