"""The servers: parse a request, call the ports, render the response."""
