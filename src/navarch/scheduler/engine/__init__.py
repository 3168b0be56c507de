"""Code that exists only for speed: the same decisions as the reference, without its cost."""
