"""Jobs of the fleet's own queue: the fleet as the scheduler sees it, and what it decides."""
