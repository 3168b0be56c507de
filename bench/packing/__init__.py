"""Packing experiments: how much of a cluster a placement policy fills when pods arrive one by one.

    result = pack(trace, policy="foresight", load=1.3, seed=42)

The protocol is that of the public openb experiments; see docs/scheduler/packing.md.
"""
