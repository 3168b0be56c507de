"""Hosts: Linux, and a simulated one."""
