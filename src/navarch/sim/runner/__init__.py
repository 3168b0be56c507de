"""Running scenarios: the runner, its fleet, the event player, and chaos."""
