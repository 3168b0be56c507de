"""Decisions about machines: pure functions from a snapshot to a plan with reasons."""
