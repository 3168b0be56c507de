"""Clients for the control plane's API, over HTTP and gRPC."""
