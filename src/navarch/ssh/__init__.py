"""Shells on other machines: over real SSH, and simulated."""
