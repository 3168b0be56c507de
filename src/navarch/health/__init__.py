"""Pure decisions about hardware health, made from what agents report."""
