"""Figures of a run: pure functions of the journal, the bills and what was done to the world."""
