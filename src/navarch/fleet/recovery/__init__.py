"""Repair of machines in place: the next step, and whether it worked."""
