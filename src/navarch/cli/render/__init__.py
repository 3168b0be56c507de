"""Answers for people: pure functions from views to text."""
