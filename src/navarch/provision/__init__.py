"""Where to buy: one file per strategy, each a `ProvisionScheduler`."""
