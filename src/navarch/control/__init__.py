"""Reconcilers: observe, plan, check, write down, carry out."""
