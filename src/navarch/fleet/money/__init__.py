"""Money: past cost, forecasts, and purchases that a budget does not allow."""
