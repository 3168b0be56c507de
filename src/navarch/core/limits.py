"""The limits on sizes: one table for the configuration file, every API and the stored state.

Each number bounds what one request may cost, or what all requests together may leave behind.
"""

from typing import Final

import msgspec

from navarch.core.errors import InvalidError, NotPossibleError


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """The most of one thing, and what becomes of more."""

    most: int
    what: str
    """What is counted: `nodes per pool`."""
    beyond: str
    """What becomes of more: `refused`, or what is kept."""
    remedy: str = ""
    """What the sender of more should do."""

    def check(self, number: int, place: str) -> None:
        """Raise InvalidError, naming the place, if a request holds more."""
        if number > self.most:
            raise InvalidError(f"{place}: {number} {self._is_above}")

    def check_room(self, number: int) -> None:
        """Raise NotPossibleError if there would be more than that many together."""
        if number > self.most:
            raise NotPossibleError(f"{number} {self._is_above}")

    @property
    def _is_above(self) -> str:
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"is above the limit of {self.most} {self.what}{remedy}"

    def cut(self, text: str) -> str:
        """Return `text` in at most that many characters, with an ellipsis if it is cut."""
        return text if len(text) <= self.most else text[: self.most - 1] + "…"


NODES_PER_POOL_MAX: Final = 100_000
"""The largest size, minimum or maximum of one pool, in nodes.

The planner visits each node that a pool lacks, so its time and memory grow with the size. A larger
fleet takes several pools.
"""

TASKS_PER_JOB_MAX: Final = 10_000
"""The most tasks of one job. The scheduler visits each of them in every cycle."""

PAUSED: Final = "paused: "
"""The prefix of the note of a pool above the limit; nothing is planned for such a pool."""

NODES_PER_POOL: Final = Limit(
    most=NODES_PER_POOL_MAX,
    what="nodes per pool",
    beyond="refused; a stored pool above it is paused",
    remedy=f"request {NODES_PER_POOL_MAX} or fewer, or use several pools",
)
TASKS_PER_JOB: Final = Limit(
    most=TASKS_PER_JOB_MAX,
    what="tasks per job",
    beyond="refused; a stored job above it stays pending",
    remedy="submit smaller jobs",
)
JOBS_WAITING: Final = Limit(
    most=2000,
    what="waiting jobs",
    beyond="refused; of stored jobs above it, the first by priority and age are scheduled",
    remedy="submit more when some have started, or one job with several tasks",
)
TASKS_WAITING: Final = Limit(
    most=20_000,
    what="tasks of all waiting jobs",
    beyond="refused; of stored jobs above it, the first by priority and age are scheduled",
    remedy="submit more when some have started",
)
HOSTS: Final = Limit(
    most=20_000,
    what="hosts that register by themselves",
    beyond="refused, unless `server.hosts_max` allows more",
    remedy="raise server.hosts_max, or remove hosts that are gone: navarch node forget",
)
WATCHES: Final = Limit(
    most=256,
    what="clients that watch the fleet at once",
    beyond="refused",
    remedy="end one first, or read the journal: navarch events",
)
HEALTH_WATCHES: Final = Limit(
    most=64,
    what="streams of the health service of gRPC, from all peers",
    beyond="refused; Check needs no stream",
)
CONNECTIONS_PER_PEER: Final = Limit(
    most=10_000,
    what="HTTP connections per peer, and half of the files that the process may open",
    beyond="closed at once",
)
SCRAPES: Final = Limit(most=4, what="scrapes of the metrics at once", beyond="refused (503)")
BODY_BYTES: Final = Limit(
    most=64 * 2**20,
    what="bytes of all request bodies that are being received",
    beyond="refused (503)",
)
BODY_BYTES_PER_PEER: Final = Limit(
    most=32 * 2**20,
    what="bytes of the request bodies that are being received from one peer",
    beyond="refused (503)",
)

HELD_REQUESTS: Final = Limit(
    most=4096,
    what="requests that a replica has forwarded, or holds until a server leads",
    beyond="refused (503)",
)
HELD_REQUESTS_PER_PEER: Final = Limit(
    most=2048,
    what="requests from one peer that a replica has forwarded, or holds until a server leads",
    beyond="refused (503)",
)
HELD_BYTES: Final = Limit(
    most=64 * 2**20,
    what="bytes of the requests that a replica has forwarded, or holds until a server leads",
    beyond="refused (503)",
)

REQUEST_BYTES: Final = Limit(most=2**20, what="bytes per request", beyond="refused")
VALUES_PER_REQUEST: Final = Limit(
    most=50_000,
    what="values per request, names and empty ones included",
    beyond="refused",
    remedy="send less at once",
)
CONNECT_JSON_VALUES: Final = Limit(
    most=10_000,
    what="values per request in the JSON of the Go system's protocol",
    beyond="refused",
    remedy="send less at once, or application/proto",
)

HEARTBEATS_PER_BATCH: Final = Limit(
    most=4096,
    what="heartbeats per request of a relay",
    beyond="refused",
    remedy="send them in several requests",
)
GPUS_PER_HEARTBEAT: Final = Limit(most=64, what="GPUs per heartbeat", beyond="refused")

NAME_LENGTH: Final = Limit(
    most=253,
    what="characters per name of a node, as it is written in a URL",
    beyond="refused",
    remedy="start the agent with a shorter --node-id",
)
TEXT_LENGTH: Final = Limit(
    most=1024, what="characters per other text of a registration or report", beyond="refused"
)
GPUS_PER_NODE: Final = Limit(most=1024, what="GPUs per node", beyond="refused")
LABELS_PER_NODE: Final = Limit(
    most=128, what="labels per node", beyond="refused", remedy="set fewer labels for the agent"
)
LABEL_LENGTH: Final = Limit(
    most=1024,
    what="characters per label, its name included",
    beyond="refused",
    remedy="set shorter labels for the agent",
)
LABELS_LENGTH: Final = Limit(
    most=32 * 1024,
    what="characters per node for all of its labels",
    beyond="refused",
    remedy="set fewer or shorter labels for the agent",
)
INVENTORY_BYTES: Final = Limit(
    most=512 * 1024, what="bytes per inventory, as JSON", beyond="refused"
)
RESULTS_PER_REPORT: Final = Limit(
    most=2000,
    what="results per report",
    beyond="refused",
    remedy="report each check once, and several faults of a check as one result",
)
REPORTS_WAITING: Final = Limit(
    most=4,
    what="reports of a node that wait, if it sends too many",
    beyond="refused; the agent sends it again",
)
FAULTS_PER_REPORT: Final = Limit(
    most=200,
    what="results per report that are not healthy",
    beyond="the worst are judged",
)
CONDITIONS_PER_NODE: Final = Limit(
    most=64, what="conditions per node", beyond="the worst and oldest are kept"
)
INCIDENTS_PER_NODE: Final = Limit(
    most=32, what="open incidents per node", beyond="findings join the latest incident"
)
CHECK_LENGTH: Final = Limit(most=200, what="characters per name of a check", beyond="cut")
REASON_LENGTH: Final = Limit(most=1000, what="characters per reason of a result", beyond="cut")
FACTS_PER_RESULT: Final = Limit(most=32, what="facts per result", beyond="the first are kept")
FACT_LENGTH: Final = Limit(most=500, what="characters per fact of a result", beyond="cut")
FACTS_LENGTH: Final = Limit(
    most=2000, what="characters per result for all of its facts", beyond="the first are kept"
)
COMMAND_RESULT_LENGTH: Final = Limit(
    most=64 * 1024, what="characters per result of a command", beyond="cut"
)

LIMITS: Final = tuple(value for value in tuple(globals().values()) if isinstance(value, Limit))
"""The table, as docs/reference/limits.md shows it."""
