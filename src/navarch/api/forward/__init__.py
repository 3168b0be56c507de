"""A replica that does not lead: it forwards what it receives to the leader."""
