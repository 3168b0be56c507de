"""Opinions on how big a pool should be, each a pure function of what is known about it."""
