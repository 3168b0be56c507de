"""Metadata services: what a machine's provider tells the machine itself."""
