"""Navarch keeps GPU fleets healthy."""

__version__ = "0.1.0"
