"""The fleet from afar: the same use cases over HTTP and gRPC."""
