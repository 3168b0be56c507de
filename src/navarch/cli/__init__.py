"""The command line: parse options, call the control plane, render the response."""
