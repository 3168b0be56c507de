"""The API for health policies: what the policies of the fleet do about an error."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from navarch.core.health import Health


@dataclass(frozen=True, slots=True, kw_only=True)
class XidRuling:
    """The verdict of one policy about an XID error, in some phase and from some repetition on."""

    policy: str
    pools: tuple[str, ...] = ()
    """The pools that have this policy; empty for the policy of the fleet."""
    phase: str
    times: int = 1
    """From how many occurrences on, in quick succession."""
    health: Health
    fatal: bool
    action: str
    rule: str
    """Empty if no rule matches, and the check decides."""


@runtime_checkable
class PolicyApi(Protocol):
    """The API for health policies, served in-process and over HTTP."""

    async def judge_xid(self, code: int, text: str = "") -> Sequence[XidRuling]:
        """Return what each policy does: first on a busy machine, then where that differs."""
