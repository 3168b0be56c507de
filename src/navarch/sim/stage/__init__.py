"""Scenarios played: machines come up, break and are mended while the control plane works."""
