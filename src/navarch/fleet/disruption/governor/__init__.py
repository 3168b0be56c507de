"""The blast-radius governor: limits on automatic actions before operators must decide.

`attributes` names what nodes share, `domain_stats` counts, `common_cause` compares nodes with and
without a fault, `outage` finds common silence, and `governor` decides.
"""
