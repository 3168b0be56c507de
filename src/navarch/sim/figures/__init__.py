"""Figures of a run: pure functions of the journal, the bills and the injected faults."""
