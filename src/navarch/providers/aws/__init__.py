"""Amazon EC2, spoken to through the vendor's own client."""
