"""Contract suites, fixtures and small worlds, for Navarch's tests and for extension authors."""
