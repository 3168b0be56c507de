"""The node agent: registers the machine, reports its health and runs commands."""
