"""Conformance cases: clusters with the decisions that a scheduler must make."""
