"""Benchmarks: every figure we claim, as JSON."""
