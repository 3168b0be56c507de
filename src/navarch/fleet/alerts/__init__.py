"""Alerts: what deserves one, when it begins and ends, and which messages follow from it."""
