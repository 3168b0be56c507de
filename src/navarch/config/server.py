"""The `server` block: addresses, state, intervals, metrics, notifiers and stock-outs."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import ADDRESS, DURATION, HEADER, PATH, SECRET, URL, Choice, MapOf, Text
from navarch.config.remediation import GovernorConfig
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret
from navarch.core.refusal import Refusal

QUERY = Text(noun="a PromQL query", example='sum(jobs{pool="$pool"})')


def _at_least_one_query(
    utilization: str | None,
    pending_jobs: str | None,
    queue_depth: str | None,
    nodes_needed: str | None,
) -> Iterator[Fault]:
    if not (utilization or pending_jobs or queue_depth or nodes_needed):
        yield Fault(
            message="nothing is asked of Prometheus",
            remedy='add a query, such as queue_depth: sum(jobs{pool="$pool"})',
        )


@block(rules=(_at_least_one_query,))
class PrometheusConfig:
    """A Prometheus server that is asked at every look; `$pool` is the pool's name."""

    url: str = key(URL, doc="where it is, such as `http://prometheus:9090`")
    utilization: str | None = key(
        QUERY, default=None, doc="GPU utilization in percent, in place of what agents say"
    )
    pending_jobs: str | None = key(QUERY, default=None, doc="how many jobs wait")
    queue_depth: str | None = key(QUERY, default=None, doc="how many jobs wait or run")
    nodes_needed: str | None = key(
        QUERY, default=None, doc="how many nodes the work needs; the pool is never made smaller"
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=10), doc="how long an answer may take"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="sent with every query"
    )


@block()
class MetricsConfig:
    """Who is asked how busy pools are, before the agents' heartbeats."""

    prometheus: PrometheusConfig | None = key(
        Nested(cls=PrometheusConfig),
        default=None,
        doc="a Prometheus server",
        restart="sources are opened once, when the server starts",
    )


class NotifierType(StrEnum):
    """The notifiers that are built in."""

    NOOP = "noop"
    WEBHOOK = "webhook"


@block()
class WebhookConfig:
    """Where to send what happens to a node. A URL that is left out is not called."""

    cordon_url: str | None = key(URL, default=None, doc="told that a node is cordoned")
    uncordon_url: str | None = key(URL, default=None, doc="told that a cordon is lifted")
    drain_url: str | None = key(URL, default=None, doc="told to move work off a node")
    drain_status_url: str | None = key(
        URL, default=None, doc="asked whether a node is empty; without it, it is held to be"
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="how long an answer may take"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="sent with every call; kept secret"
    )


def _webhook_matches_type(type: NotifierType, webhook: WebhookConfig | None) -> Iterator[Fault]:  # noqa: A002
    if type is NotifierType.WEBHOOK and webhook is None:
        yield Fault(
            at=("type",),
            message="a notifier of type webhook needs a webhook block",
            remedy="add webhook: with at least cordon_url and drain_url",
        )
    if type is NotifierType.NOOP and webhook is not None:
        yield Fault(
            at=("webhook",),
            message="the webhook block is not used, because type is not webhook",
            remedy="write type: webhook",
            warning=True,
        )
    if webhook and not (webhook.cordon_url or webhook.uncordon_url or webhook.drain_url):
        yield Fault(
            at=("webhook",),
            message="the webhook has no URL to call",
            remedy="set cordon_url, uncordon_url or drain_url",
        )


@block(rules=(_webhook_matches_type,))
class NotifierConfig:
    """How workload systems are told."""

    type: NotifierType = key(
        Choice(options=NotifierType), default=NotifierType.NOOP, doc="which notifier"
    )
    webhook: WebhookConfig | None = key(
        Nested(cls=WebhookConfig), default=None, doc="what a webhook calls"
    )


_ONCE = "the memory of refusals is set up once, when the server starts"


def _pauses_in_order(
    sold_out_first: timedelta,
    sold_out_longest: timedelta,
    fault_first: timedelta,
    fault_longest: timedelta,
    gang_first: timedelta,
    gang_longest: timedelta,
) -> Iterator[Fault]:
    pairs = {
        "sold_out": (sold_out_first, sold_out_longest),
        "fault": (fault_first, fault_longest),
        "gang": (gang_first, gang_longest),
    }
    for name, (first, longest) in pairs.items():
        if first > longest:
            yield Fault(
                at=(f"{name}_first",),
                message=f"{name}_first cannot exceed {name}_longest",
                remedy=f"make {name}_longest the longer of the two",
            )


@block(rules=(_pauses_in_order,))
class StockoutsConfig:
    """How long what refused is left alone, by every launch; then one may try."""

    sold_out_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=15),
        doc="after the first machine not to be had",
        restart=_ONCE,
    )
    sold_out_longest: timedelta = key(
        DURATION,
        default=timedelta(seconds=75),
        doc="after many in a row, if one launch waits; each doubles the pause up to this, and the "
        "more launches wait, the shorter it is",
        restart=_ONCE,
    )
    fault_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=5),
        doc="after three faults of the provider's in a row",
        restart=_ONCE,
    )
    fault_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=5),
        doc="after many in a row; each doubles the pause up to this",
        restart=_ONCE,
    )
    gang_first: timedelta = key(
        DURATION,
        default=timedelta(minutes=1),
        doc="for gangs of that size, after the first that was given up there",
        restart=_ONCE,
    )
    gang_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="after many in a row; each doubles the pause up to this",
        restart=_ONCE,
    )
    human: timedelta = key(
        DURATION,
        default=timedelta(minutes=15),
        doc="after a refusal that only a person can help: a quota, a key, a request that is wrong",
        restart=_ONCE,
    )


def to_pauses(config: StockoutsConfig) -> Mapping[Refusal, tuple[timedelta, timedelta]]:
    """Return the first and the longest pause after each class of refusal."""
    return {
        Refusal.CAPACITY: (config.sold_out_first, config.sold_out_longest),
        Refusal.TRANSIENT: (config.fault_first, config.fault_longest),
        Refusal.BLOCK: (config.gang_first, config.gang_longest),
        Refusal.QUOTA: (config.human, config.human),
        Refusal.REGION_QUOTA: (config.human, config.human),
        Refusal.CREDENTIAL: (config.human, config.human),
        Refusal.REJECTED: (config.human, config.human),
    }


def _timeout_above_interval(
    heartbeat_interval: timedelta, heartbeat_timeout: timedelta | None
) -> Iterator[Fault]:
    if heartbeat_timeout is not None and heartbeat_timeout <= heartbeat_interval:
        yield Fault(
            at=("heartbeat_timeout",),
            message="heartbeat_timeout must be longer than heartbeat_interval, "
            "or every node is held to be silent",
            remedy="leave it out for three intervals",
        )


def _addresses_differ(address: str, grpc_address: str) -> Iterator[Fault]:
    any_free_port = address.endswith(":0")
    if address == grpc_address and not any_free_port:
        yield Fault(
            at=("grpc_address",),
            message=f"address and grpc_address are both {address}",
            remedy="give each a port of its own",
        )


@block(rules=(_timeout_above_interval, _addresses_differ))
class ServerConfig:
    """How the control plane runs."""

    address: str = key(
        ADDRESS,
        default=":50051",
        doc="where HTTP is served: the API, agents and metrics",
        restart="the port is opened once, when the server starts",
    )
    grpc_address: str = key(
        ADDRESS,
        default=":50052",
        doc="where gRPC is served",
        restart="the port is opened once, when the server starts",
    )
    external_address: str | None = key(
        URL,
        default=None,
        doc="the URL nodes reach the server by; made from `address` if left out, but required for "
        "`cloud_init` at AWS, GCP and Lambda",
    )
    data_dir: str | None = key(
        PATH,
        default=None,
        doc="the folder that holds all state; `--data-dir` goes before it",
        restart="the state is opened once, when the server starts",
    )
    auth_token: Secret | None = key(
        SECRET,
        default=None,
        file=True,
        environment="NAVARCH_AUTH_TOKEN",
        doc="the bearer token that every door asks for; without one, only this machine is served",
    )
    heartbeat_interval: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="how often agents report that they live"
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION,
        default=None,
        doc="how long an agent may be silent before its node is unhealthy; "
        "three heartbeat intervals if left out",
    )
    health_check_interval: timedelta = key(
        DURATION, default=timedelta(seconds=60), doc="how often agents check their GPUs"
    )
    autoscale_interval: timedelta = key(
        DURATION,
        default=timedelta(seconds=30),
        doc="how often pools are resized to their load",
        restart="the interval is set once, when the server starts",
    )
    health_policy: str | None = key(
        PATH, default=None, doc="a file of rules for health events; the built-in ones if left out"
    )
    governor: GovernorConfig = key(
        Nested(cls=GovernorConfig),
        default=GovernorConfig(),
        doc="how much automation may do before people are asked",
    )
    metrics: MetricsConfig = key(
        Nested(cls=MetricsConfig), default=MetricsConfig(), doc="who else knows how busy pools are"
    )
    notifier: NotifierConfig = key(
        Nested(cls=NotifierConfig), default=NotifierConfig(), doc="how workload systems are told"
    )

    stockouts: StockoutsConfig = key(
        Nested(cls=StockoutsConfig),
        default=StockoutsConfig(),
        doc="how long what refused is left alone",
    )

    @property
    def silence(self) -> timedelta:
        """How long a node may go unheard."""
        return self.heartbeat_timeout or 3 * self.heartbeat_interval
