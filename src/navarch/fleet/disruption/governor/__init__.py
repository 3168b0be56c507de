"""The blast-radius governor: how much automation may do before people are asked.

`domains` says what nodes have in common, `census` counts, `suspicion` finds the change behind
a fault that many share, and `governor` decides.
"""
