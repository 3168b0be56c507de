"""A world in virtual time that runs the product itself."""
