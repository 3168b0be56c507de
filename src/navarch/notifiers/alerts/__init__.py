"""Channels by which alerts reach people. Each is an `AlertChannel`."""
