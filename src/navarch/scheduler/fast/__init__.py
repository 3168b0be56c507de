"""Placing many equal tasks quickly, exactly where one at a time would have put them."""
