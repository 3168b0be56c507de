"""What is known of a node's hardware: results in, conditions kept, one word out."""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

import msgspec


class Health(StrEnum):
    """The one word for a node's hardware."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


HEARTBEAT = "heartbeat"
"""The check that the control plane makes itself: has the agent been heard of lately?"""

BOOT = "boot"
"""The check that vouches for the hardware after a start: passing it after a reboot clears
what the boot before it left behind."""


TESTING = "testing"
"""Said while an agent uses the GPUs for its tests: no work may start on the node meanwhile."""


POLICY = "policy/"
"""How the name of a check begins that the control plane makes itself: could the health policy judge
what the check after it found? Where it could not, the health is unknown, and no remedy follows."""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one check on one node had to say."""

    check: str
    health: Health
    reason: str = ""
    fatal: bool = False
    """Acted on at once, without waiting for it to be seen again."""
    lasting: bool = False
    """A thing that happened rather than a thing that is, such as an XID: the next quiet round
    of the same check does not take it back."""
    action: str = ""
    """What the catalogue would do about it, where it says: `reset_gpu`, `reboot_node`, ..."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """What else was seen, for policies and incidents: `code`, `gpu`, `pid`, `sources`, ..."""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a round of checks found, with its place among the reports of one agent.

    Reports are numbered from one within a `stream`, which lasts as long as the agent's
    buffer on disk. A report that comes a second time is recognised by its number.
    """

    results: tuple[CheckResult, ...]
    stream: str = ""
    number: int = 0
    at: datetime | None = None
    """When the checks were made, which may be long before the report arrives."""
    boot_id: str = ""
    """The boot during which they were made; empty from agents that do not say."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """Something wrong with a node, kept until it is taken back."""

    check: str
    health: Health
    reason: str
    since: datetime
    times: int = 1
    """How many reports in a row said so."""
    fatal: bool = False
    lasting: bool = False
    boot_id: str = ""
    """The boot during which it was seen."""
    action: str = ""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
