"""Packing benchmarks: policies next to FGD, and next to published figures."""
