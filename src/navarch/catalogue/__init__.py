"""The catalogue: what machines with GPUs are sold, what they hold and what they cost."""
