"""Whether a queue may have more, and if not, by how much it falls short."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityVerdict:
    """The answer to 'may these tasks be placed as far as quotas and limits go'."""

    schedulable: bool = True
    reason: str = ""
    """`OverLimit` or `NonPreemptibleOverQuota`."""
    message: str = ""
    queue: str = ""
    resource: str = ""
    requested: float = 0.0
    used: float = 0.0
    bound: float = 0.0


SCHEDULABLE = CapacityVerdict()
