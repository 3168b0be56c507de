"""Composition: what is built out of the parts, and how it is run."""
