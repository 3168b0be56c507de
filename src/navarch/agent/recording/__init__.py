"""Recordings of machines, and replays of them into the real agent."""
