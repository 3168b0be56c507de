"""Money: what machines have cost, what they will, and what may not be bought any more."""
