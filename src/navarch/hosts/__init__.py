"""Machines to run on: Linux, and a simulated one."""
