"""Contract suites and fakes, for us and for the authors of extensions."""
