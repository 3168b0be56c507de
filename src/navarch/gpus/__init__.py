"""Readers of GPUs: the driver of real ones, and a simulated set."""
