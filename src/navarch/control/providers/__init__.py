"""Controllers of providers: inventory, notices, topology."""
