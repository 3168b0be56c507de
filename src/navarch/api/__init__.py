"""The doors: parse, call the ports, render."""
