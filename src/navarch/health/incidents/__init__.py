"""Incidents: related findings grouped, with their cause, their state and their end."""
