"""Composition: the server and the control plane, built from their parts."""
