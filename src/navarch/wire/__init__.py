"""Messages and errors as they travel: what doors and clients must agree on."""
