"""Navarch keeps GPU fleets healthy."""
