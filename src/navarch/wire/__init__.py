"""Messages and errors on the wire, shared by servers and clients."""
