"""Real time, real chance and real threads: the only places that may use them."""
