"""The `server` block: addresses, state, intervals, metrics, notifiers and stock-outs."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.block import Nested
from navarch.config.kinds import ADDRESS, DURATION, HEADER, PATH, SECRET, URL, Choice, MapOf, Text
from navarch.config.remediation import GovernorConfig
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret
from navarch.core.launch import Refusal

QUERY = Text(noun="a PromQL query", example='sum(jobs{pool="$pool"})')


def _at_least_one_query(
    utilization: str | None,
    pending_jobs: str | None,
    queue_depth: str | None,
    nodes_needed: str | None,
) -> Iterator[Fault]:
    if not (utilization or pending_jobs or queue_depth or nodes_needed):
        yield Fault(
            message="prometheus has no query",
            remedy='add a query, such as queue_depth: sum(jobs{pool="$pool"})',
        )


@block(rules=(_at_least_one_query,))
class PrometheusConfig:
    """A Prometheus server that is queried at every autoscaling; `$pool` is the pool's name."""

    url: str = key(URL, doc="the URL of the server, such as `http://prometheus:9090`")
    utilization: str | None = key(
        QUERY, default=None, doc="GPU utilization in percent, instead of the agents' figure"
    )
    pending_jobs: str | None = key(QUERY, default=None, doc="the number of pending jobs")
    queue_depth: str | None = key(QUERY, default=None, doc="the number of pending and running jobs")
    nodes_needed: str | None = key(
        QUERY,
        default=None,
        doc="the number of nodes that the work needs; the pool is never smaller",
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=10), doc="the time limit for a request"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="HTTP headers of every query"
    )


@block()
class MetricsConfig:
    """Sources of pool metrics that take precedence over the agents' heartbeats."""

    prometheus: PrometheusConfig | None = key(
        Nested(cls=PrometheusConfig),
        default=None,
        doc="a Prometheus server",
        restart="sources are opened once, when the server starts",
    )


class NotifierType(StrEnum):
    """The built-in notifiers."""

    NOOP = "noop"
    WEBHOOK = "webhook"


@block()
class WebhookConfig:
    """The URLs to call when a node is cordoned or drained. A URL that is left out is not called."""

    cordon_url: str | None = key(URL, default=None, doc="called when a node is cordoned")
    uncordon_url: str | None = key(URL, default=None, doc="called when a node is uncordoned")
    drain_url: str | None = key(URL, default=None, doc="called when work has to leave a node")
    drain_status_url: str | None = key(
        URL,
        default=None,
        doc="called to check whether a node is empty; if left out, it counts as empty",
    )
    timeout: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="the time limit for a request"
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), default_factory=dict, doc="HTTP headers of every call; kept secret"
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
    """How workload systems are notified of cordons and drains."""

    type: NotifierType = key(
        Choice(options=NotifierType), default=NotifierType.NOOP, doc="which notifier"
    )
    webhook: WebhookConfig | None = key(
        Nested(cls=WebhookConfig), default=None, doc="the URLs of the webhook"
    )


_ONCE = "the pauses are set once, when the server starts"


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
    """How long all launches avoid an offering after a refusal, until one tries it again."""

    sold_out_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=15),
        doc="the pause after the first stock-out",
        restart=_ONCE,
    )
    sold_out_longest: timedelta = key(
        DURATION,
        default=timedelta(seconds=75),
        doc="the longest pause after consecutive stock-outs, each of which doubles it; shorter the "
        "more launches are waiting",
        restart=_ONCE,
    )
    fault_first: timedelta = key(
        DURATION,
        default=timedelta(seconds=5),
        doc="the pause after three consecutive failures of the provider",
        restart=_ONCE,
    )
    fault_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=5),
        doc="the longest pause after further failures, each of which doubles it",
        restart=_ONCE,
    )
    gang_first: timedelta = key(
        DURATION,
        default=timedelta(minutes=1),
        doc="the pause for gangs of the same size, after the first that did not fit",
        restart=_ONCE,
    )
    gang_longest: timedelta = key(
        DURATION,
        default=timedelta(minutes=10),
        doc="the longest pause after further gangs that did not fit, each of which doubles it",
        restart=_ONCE,
    )
    human: timedelta = key(
        DURATION,
        default=timedelta(minutes=15),
        doc="the pause after a refusal that needs an operator: a quota, a key, an invalid request",
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
            "or every node counts as silent",
            remedy="leave it out for three intervals",
        )


def _addresses_differ(address: str, grpc_address: str) -> Iterator[Fault]:
    any_free_port = address.endswith(":0")
    if address == grpc_address and not any_free_port:
        yield Fault(
            at=("grpc_address",),
            message=f"address and grpc_address are both {address}",
            remedy="use two different ports",
        )


@block(rules=(_timeout_above_interval, _addresses_differ))
class ServerConfig:
    """Addresses, state and intervals of the control plane."""

    address: str = key(
        ADDRESS,
        default=":50051",
        doc="the HTTP address, for the API, agents and metrics",
        restart="the port is opened once, when the server starts",
    )
    grpc_address: str = key(
        ADDRESS,
        default=":50052",
        doc="the gRPC address",
        restart="the port is opened once, when the server starts",
    )
    external_address: str | None = key(
        URL,
        default=None,
        doc="the URL at which nodes reach the server; derived from `address` if left out, but "
        "required for `cloud_init` at AWS, GCP and Lambda",
    )
    data_dir: str | None = key(
        PATH,
        default=None,
        doc="the folder that holds all state; `--data-dir` takes precedence",
        restart="the state is opened once, when the server starts",
    )
    auth_token: Secret | None = key(
        SECRET,
        default=None,
        file=True,
        environment="NAVARCH_AUTH_TOKEN",
        doc="the bearer token that every request needs; without one, only this machine is served",
    )
    heartbeat_interval: timedelta = key(
        DURATION, default=timedelta(seconds=30), doc="how often agents send heartbeats"
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION,
        default=None,
        doc="how long after the last heartbeat a node becomes unhealthy; "
        "three heartbeat intervals if left out",
    )
    health_check_interval: timedelta = key(
        DURATION, default=timedelta(seconds=60), doc="how often agents check their GPUs"
    )
    autoscale_interval: timedelta = key(
        DURATION,
        default=timedelta(seconds=30),
        doc="how often autoscaling runs",
        restart="the interval is set once, when the server starts",
    )
    health_policy: str | None = key(
        PATH, default=None, doc="a policy file for health events; the built-in policy if left out"
    )
    governor: GovernorConfig = key(
        Nested(cls=GovernorConfig),
        default=GovernorConfig(),
        doc="limits on what automation may do without approval",
    )
    metrics: MetricsConfig = key(
        Nested(cls=MetricsConfig), default=MetricsConfig(), doc="further sources of pool metrics"
    )
    notifier: NotifierConfig = key(
        Nested(cls=NotifierConfig),
        default=NotifierConfig(),
        doc="how workload systems are notified of cordons and drains",
    )

    stockouts: StockoutsConfig = key(
        Nested(cls=StockoutsConfig),
        default=StockoutsConfig(),
        doc="how long launches avoid an offering after a refusal",
    )

    @property
    def silence(self) -> timedelta:
        """How long after its last heartbeat a node becomes unhealthy."""
        return self.heartbeat_timeout or 3 * self.heartbeat_interval
