"""Scenarios over the wire: simulated agents against a control plane that really runs."""
