"""Health of a node's hardware: check results, the conditions kept from them, counter history."""

from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec


class Health(StrEnum):
    """The verdict on a node's hardware."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


SEVERITY = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.DEGRADED: 2, Health.UNHEALTHY: 3}
"""The rank of each verdict; the worst has the highest."""


HEARTBEAT = "heartbeat"
"""The check that the control plane makes itself: whether the agent reported lately."""

BOOT = "boot"
"""The check that tests the hardware after a start: passing it after a reboot clears the
conditions of the previous boot."""


EVENTS = "health_events"
"""The check of the Go system's agents that passes in every round, with or without events.

They report an event in one round only.
"""


TESTING = "testing"
"""The check that fails while an agent uses the GPUs for tests: no work may start meanwhile."""


CRASH_LOOP = "crash_loop"
"""The check of the control plane that fails for a node on which jobs die again and again."""


CHECK_VERSION = "check_version"
"""The fact with the version of the check that produced a result, if it is not the agent's."""


POLICY = "policy/"
"""The prefix of checks that report whether the health policy could evaluate the named check.

If it could not, the health is unknown and nothing is remedied.
"""


class CheckResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one check on one node."""

    check: str
    health: Health
    reason: str = ""
    fatal: bool = False
    """Whether to act at once, without a second report."""
    lasting: bool = False
    """Whether it is an event rather than a state, such as an XID: a passing result of the same
    check does not clear it."""
    action: str = ""
    """The action of the catalogue, if it has one: `reset_gpu`, `reboot_node`, ..."""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Further facts for policies and incidents: `code`, `gpu`, `pid`, `sources`, ..."""


class HealthReport(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a round of checks, numbered among the reports of one agent.

    Reports are numbered from one within a `stream`, which lasts as long as the agent's
    buffer on disk. A report that arrives twice is recognised by its number.
    """

    results: tuple[CheckResult, ...]
    stream: str = ""
    number: int = 0
    at: datetime | None = None
    """When the checks were made, which may be long before the report arrives."""
    boot_id: str = ""
    """The boot during which the checks were made; empty if the agent does not report it."""


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of a node, kept until it is cleared."""

    check: str
    health: Health
    reason: str
    since: datetime
    times: int = 1
    """The number of reports in a row that contained it."""
    fatal: bool = False
    lasting: bool = False
    boot_id: str = ""
    """The boot during which it was seen."""
    action: str = ""
    facts: Mapping[str, str] = msgspec.field(default_factory=dict)


SAMPLES_MAX = 128
"""The samples kept per counter. Only changes are kept: a constant counter costs one."""


class History:
    """The latest values of counters.

    A check that reads a counter once cannot distinguish ten errors of last year from ten errors
    of this minute. The history adds the values before and returns how many are new.
    """

    def __init__(self) -> None:
        self._samples: dict[str, deque[tuple[datetime, int]]] = {}

    def rise(self, counter: str, value: int, *, at: datetime, within: timedelta) -> int:
        """Record `value` of `counter` and return by how much it has risen `within` that time.

        The first result of a counter is zero, because no earlier value is known. A counter that
        falls has restarted, with the driver or the machine.
        """
        samples = self._samples.setdefault(counter, deque(maxlen=SAMPLES_MAX))
        if not samples or value < samples[-1][1]:
            samples.clear()
            samples.append((at, value))
        elif value != samples[-1][1]:
            samples.append((at, value))
        # The last sample before the window holds the value at the beginning of the window.
        while len(samples) > 1 and samples[1][0] <= at - within:
            samples.popleft()
        return value - samples[0][1]


def describe_outcome(health: Health, *, fatal: bool, action: str) -> str:
    """Return a verdict for operators, such as `unhealthy, fatal, reset gpu`."""
    word = f"{health}, fatal" if fatal else str(health)
    return word if action in ("", "none") else f"{word}, {action.replace('_', ' ')}"
