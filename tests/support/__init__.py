"""Local clouds, machines and drivers that tests and benchmarks run against."""
