"""Deferred actions: decisions of automation about a node that a limit holds back."""

from datetime import datetime
from enum import StrEnum

import msgspec


class DeferredBy(StrEnum):
    """The limit that defers an action."""

    BUDGET = "budget"
    """The budget of some domain is spent for now."""
    CHANGE = "change"
    """Many nodes with the same change show the same fault: the change is the likely cause."""
    SILENCE = "silence"
    """Many nodes stopped reporting: the network or the control plane may be at fault."""
    REPLACEMENT_LOOP = "replacement_loop"
    """The machines that replaced others in the pool became unhealthy as well."""
    DRY_RUN = "dry_run"
    """The pool only records what would be done."""
    REMEDIATOR = "remediator"
    """The pool's remediator failed: nothing is decided until it works again."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True):
    """One deferred action, decided again in every round until it is no longer wanted."""

    action: str
    """The deferred action: cordon, replace or recover; remediate if it is not decided."""
    reason: str
    """The reason for the action."""
    because: str
    """The reason for the deferral."""
    by: DeferredBy
    since: datetime
    faults: tuple[str, ...] = ()
    """For a change: the faults it may have caused. Other faults of the node are its own."""
    released: str = ""
    """Why an operator released it; empty while it is deferred."""

    @property
    def releasable(self) -> bool:
        """Whether an operator can release it: an action is decided and is not a dry run."""
        return self.by not in (DeferredBy.DRY_RUN, DeferredBy.REMEDIATOR)
