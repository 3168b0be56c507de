"""Stores of the fleet, of telemetry and of records of machines."""
