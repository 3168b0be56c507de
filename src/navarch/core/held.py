"""Held back: what would have been done about a node, and why it was not."""

from datetime import datetime
from enum import StrEnum

import msgspec


class HeldBy(StrEnum):
    """Who says no."""

    BUDGET = "budget"
    """Enough has been done in some domain for now."""
    CHANGE = "change"
    """Many nodes that had the same change show the same fault: it is hardly the machines."""
    SILENCE = "silence"
    """Many nodes stopped reporting: the network or the control plane may be at fault."""
    REPLACEMENT_LOOP = "replacement_loop"
    """The machines that replaced others in the pool fell ill as well."""
    DRY_RUN = "dry_run"
    """The pool only wants to know what would be done."""
    REMEDIATOR = "remediator"
    """The pool's remediator failed: nothing is decided until it works again."""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """One action that waits. It is decided anew at every round, and goes when it is not wanted."""

    action: str
    """What would have been done: cordon, replace, recover; remediate, where that is not decided."""
    reason: str
    """Why it would have been done."""
    because: str
    """Why it was not."""
    by: HeldBy
    since: datetime
    faults: tuple[str, ...] = ()
    """For a change: what it is suspected of. Another fault of the node is its own."""
    released: str = ""
    """Why somebody let it go ahead after all; empty while it is held."""

    @property
    def releasable(self) -> bool:
        """Whether an operator can let it go ahead: there is an action, and it is wanted."""
        return self.by not in (HeldBy.DRY_RUN, HeldBy.REMEDIATOR)
