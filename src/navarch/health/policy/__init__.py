"""Policies: rules in CEL that decide what a finding means. The first match decides."""
