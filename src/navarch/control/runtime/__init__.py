"""How controllers run: one work queue for each, one runtime for all."""
