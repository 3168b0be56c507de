"""Controllers of health: evaluation of reports, remediation, recovery, incidents."""
