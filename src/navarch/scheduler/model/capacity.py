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
    also: "tuple[CapacityVerdict, ...]" = ()
    """What else is in the way: raising one bound does not help where another refuses, too."""

    @property
    def bound_kind(self) -> str:
        """What it is beyond: a `limit`, or a `quota`, for work that may not be interrupted."""
        return "limit" if self.reason == "OverLimit" else "quota"


SCHEDULABLE = CapacityVerdict()
