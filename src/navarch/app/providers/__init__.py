"""Configured providers as running ones: a module per type, with one function, `build`."""
