"""The blast-radius governor: limits on automatic actions before operators must decide.

`domains` names what nodes have in common, `domain_stats` counts, `suspicion` finds the change
behind a common fault, `outage` finds common silence, and `governor` decides.
"""
