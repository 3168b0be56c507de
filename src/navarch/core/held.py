"""Deferred actions: what automation would do about a node, and why it does not."""

from datetime import datetime
from enum import StrEnum

import msgspec


class DeferredBy(StrEnum):
    """The limit that defers an action."""

    BUDGET = "budget"
    """The budget of some domain is spent for now."""
    CHANGE = "change"
    """Many nodes with the same change show the same fault: the machines are hardly the cause."""
    SILENCE = "silence"
    """Many nodes stopped reporting: the network or the control plane may be at fault."""
    REPLACEMENT_LOOP = "replacement_loop"
    """The machines that replaced others in the pool fell ill as well."""
    DRY_RUN = "dry_run"
    """The pool only records what would be done."""
    REMEDIATOR = "remediator"
    """The pool's remediator failed: nothing is decided until it works again."""


class Deferred(msgspec.Struct, frozen=True, kw_only=True):
    """One deferred action, decided again in every round until it is no longer wanted."""

    action: str
    """The deferred action: cordon, replace or recover; remediate if it is not decided."""
    reason: str
    """Why it would have been done."""
    because: str
    """Why it was not."""
    by: DeferredBy
    since: datetime
    faults: tuple[str, ...] = ()
    """For a change: the faults it is suspected of. Another fault of the node is its own."""
    released: str = ""
    """Why an operator released it; empty while it is deferred."""

    @property
    def releasable(self) -> bool:
        """Whether an operator can release it: there is an action, and it is wanted."""
        return self.by not in (DeferredBy.DRY_RUN, DeferredBy.REMEDIATOR)
