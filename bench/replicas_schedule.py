"""Random schedules of faults for replicas: a schedule is made from a seed."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random

FIRST_S = 1.0
UNTIL_S = 14.0
"""When the last fault of a schedule begins, at the latest."""


class Kind(StrEnum):
    """What fails."""

    KILL = "kill"
    """A server process gets SIGKILL; it is started again."""
    STOP = "stop"
    """A server process gets SIGSTOP, and SIGCONT some time later."""
    TERM = "term"
    """A server process gets SIGTERM; it is started again."""
    DATABASE_CUT = "database-cut"
    """The connections of a server to its database end, and new ones are refused."""
    DATABASE_FREEZE = "database-freeze"
    """Nothing passes between a server and its database; connections stay open."""
    CLIENT_CUT = "client-cut"
    """The connections of clients and agents to a server end, and new ones are refused."""
    CLIENT_FREEZE = "client-freeze"
    """Nothing passes between clients and a server; connections stay open."""
    PEER_CUT = "peer-cut"
    """The connections of other replicas to a server end, and new ones are refused."""
    PEER_FREEZE = "peer-freeze"
    """Nothing passes from other replicas to a server; connections stay open."""
    RESTART_FAST = "restart-fast"
    """The database is restarted."""
    RESTART_IMMEDIATE = "restart-immediate"
    """The database crashes and is started again."""
    FAILOVER = "failover"
    """The primary database is lost for good, and its standby is promoted."""
    CLOUD_LOST = "cloud-lost"
    """The response to the next call that starts or ends a machine is lost."""
    CLOUD_UNSENT = "cloud-unsent"
    """The next call that starts or ends a machine is lost before it has an effect."""
    CLOUD_LATE = "cloud-late"
    """The response to the next call that starts or ends a machine is late."""


ON_PROCESSES = frozenset({Kind.KILL, Kind.STOP, Kind.TERM})
ON_DATABASE_LINKS = frozenset({Kind.DATABASE_CUT, Kind.DATABASE_FREEZE})
ON_CLIENT_LINKS = frozenset({Kind.CLIENT_CUT, Kind.CLIENT_FREEZE})
ON_PEER_LINKS = frozenset({Kind.PEER_CUT, Kind.PEER_FREEZE})
ON_SERVERS = ON_PROCESSES | ON_DATABASE_LINKS | ON_CLIENT_LINKS | ON_PEER_LINKS
ON_DATABASES = frozenset({Kind.RESTART_FAST, Kind.RESTART_IMMEDIATE, Kind.FAILOVER})

_WEIGHTS = {
    Kind.KILL: 5,
    Kind.STOP: 5,
    Kind.TERM: 3,
    Kind.DATABASE_CUT: 3,
    Kind.DATABASE_FREEZE: 3,
    Kind.CLIENT_CUT: 2,
    Kind.CLIENT_FREEZE: 2,
    Kind.PEER_CUT: 2,
    Kind.PEER_FREEZE: 2,
    Kind.RESTART_FAST: 2,
    Kind.RESTART_IMMEDIATE: 2,
    Kind.FAILOVER: 3,
    Kind.CLOUD_LOST: 2,
    Kind.CLOUD_UNSENT: 1,
    Kind.CLOUD_LATE: 2,
}
_LASTS_S = {
    Kind.KILL: (0.2, 3.0),
    Kind.STOP: (0.5, 7.0),
    Kind.TERM: (0.2, 2.0),
    Kind.DATABASE_CUT: (0.5, 6.0),
    Kind.DATABASE_FREEZE: (0.5, 6.0),
    Kind.CLIENT_CUT: (0.5, 3.0),
    Kind.CLIENT_FREEZE: (0.5, 3.0),
    Kind.PEER_CUT: (0.5, 6.0),
    Kind.PEER_FREEZE: (0.5, 6.0),
    Kind.CLOUD_LATE: (0.5, 4.0),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault of a schedule."""

    at_s: float
    """When it begins, in seconds from the start; later if no other server would work."""
    kind: Kind
    on_leader: bool = True
    """Whether it hits the leader, if it hits a server."""
    lasts_s: float = 0.0

    def __str__(self) -> str:
        """Return it as one line."""
        where = (" of the leader" if self.on_leader else " of another") * (self.kind in ON_SERVERS)
        lasts = f" for {self.lasts_s:.1f} s" if self.lasts_s else ""
        return f"{self.at_s:.1f} s: {self.kind}{where}{lasts}"


def make_schedule(seed: int) -> Sequence[Fault]:
    """Return the schedule of a seed: three to seven faults, of which some overlap."""
    random = Random(f"schedule {seed}")
    faults: list[Fault] = []
    at_s = FIRST_S + random.uniform(0.0, 1.0)
    left = dict(_WEIGHTS)
    while at_s < UNTIL_S:
        kind = random.choices(list(left), list(left.values()))[0]
        if kind is Kind.FAILOVER:
            # A second one would need another standby.
            del left[kind]
        low, high = _LASTS_S.get(kind, (0.0, 0.0))
        faults.append(
            Fault(
                at_s=round(at_s, 2),
                kind=kind,
                on_leader=random.random() < 0.75,
                lasts_s=round(random.uniform(low, high), 2),
            )
        )
        at_s += random.uniform(0.3, 5.0)
    return faults
