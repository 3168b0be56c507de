"""Finding jobs to move or stop so that a pending one can run."""
