"""The node agent: registers, beats, checks, obeys, and forgets nothing on the way."""
