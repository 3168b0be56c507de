"""Counters of what is committed, from the start of the process: commands and XIDs."""

from navarch.core.event import Event
from navarch.core.recovery import CommandKind
from navarch.health.policy.history import FINDING
from navarch.health.xid.catalogue import sxids, xids
from navarch.ports.metrics import Metrics
from navarch.ports.store import Committed

OTHER = "other"
"""The label of codes that are in no catalogue: agents could otherwise create any number of them."""

TIMES_MAX = 1000
"""The most errors that one finding counts for, whatever the agent reports."""

XID = "xid"


class CommitMetrics:
    """Counts commands and XIDs as they are committed. Repeated reports are not in the journal."""

    def __init__(self, metrics: Metrics) -> None:
        self.commands = metrics.counter(
            "navarch_commands_issued_total",
            "Commands issued to agents since the server started.",
            labels=("kind",),
        )
        self.xids = metrics.counter(
            "navarch_xid_errors_total",
            "XIDs and SXids in the journal since the server started.",
            labels=("code",),
        )
        # A series that begins at one hides its first increase from Prometheus.
        for kind in CommandKind:
            if kind is not CommandKind.PROBE:
                self.commands.add(0, kind=kind)
        for code in (*xids(), OTHER):
            self.xids.add(0, code=str(code))

    def on_commit(self, committed: Committed) -> None:
        """Count what a change adds."""
        known = committed.before.commands
        for command in committed.change.commands:
            if command.id not in known:
                self.commands.add(kind=command.kind)
        for event in committed.change.events:
            if is_xid(event):
                self.xids.add(_times(event), code=_code(event))


def is_xid(event: Event) -> bool:
    """Return whether an event is the finding of an XID or an SXid."""
    facts = event.facts
    return event.kind == FINDING and (
        facts.get("check", "").partition("/")[0] == XID or facts.get("fact.event_type") == XID
    )


def _code(event: Event) -> str:
    code = event.facts.get("fact.code", "")
    # Numbers of more digits are in no catalogue.
    number = int(code) if code.isascii() and code.isdecimal() and len(code) < 6 else 0
    return str(number) if number in xids() or number in sxids() else OTHER


def _times(event: Event) -> int:
    """Return how many errors a finding counts for: a storm of one code is one finding."""
    times = event.facts.get("fact.times", "")
    if not (times.isascii() and times.isdecimal() and len(times) < 10):
        return 1
    return max(1, min(int(times), TIMES_MAX))
