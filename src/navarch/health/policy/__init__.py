"""What the findings of checks mean here: rules in CEL, first match per event, worst wins."""
