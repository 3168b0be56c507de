"""Autoscalers: pure functions from the state of a pool to a recommended size."""
