"""The `server` block: addresses, state, intervals, metrics, notifiers and stock-outs."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum

from navarch.config.access import AccessConfig
from navarch.config.block import Nested, nested
from navarch.config.disruption import GovernorConfig
from navarch.config.kinds import (
    ADDRESS,
    BOOLEAN,
    COUNT,
    DURATION,
    DURATION_OR_ZERO,
    HEADER,
    PATH,
    SECRET,
    TOKEN,
    URL,
    Choice,
    Integer,
    MapOf,
    Text,
)
from navarch.config.schema import Fault, block, copied, key
from navarch.config.secret import Secret
from navarch.core.launch import Refusal
from navarch.core.limits import HOSTS
from navarch.core.retention import LEAST, Retention
from navarch.core.witness import PeerProbes
from navarch.fleet.host_retention import KEEP_HOSTS

QUERY = Text(noun="a PromQL query", example='sum(jobs{pool="$pool"})')


def _at_least_one_query(
    utilization: str | None,
    pending_jobs: str | None,
    queue_depth: str | None,
    nodes_needed: str | None,
) -> Iterator[Fault]:
    if not (utilization or pending_jobs or queue_depth or nodes_needed):
        yield Fault(
            "prometheus has no query", 'add a query, such as queue_depth: sum(jobs{pool="$pool"})'
        )


@block(rules=(_at_least_one_query,))
class PrometheusConfig:
    """A Prometheus server that is queried at every autoscaling; `$pool` is the pool's name."""

    url: str = key(URL, "the URL of the server, such as `http://prometheus:9090`")
    utilization: str | None = key(
        QUERY, "GPU utilization in percent, instead of the agents' figure", default=None
    )
    pending_jobs: str | None = key(QUERY, "the number of pending jobs", default=None)
    queue_depth: str | None = key(QUERY, "the number of pending and running jobs", default=None)
    nodes_needed: str | None = key(
        QUERY, "the number of nodes that the work needs; the pool is never smaller", default=None
    )
    timeout: timedelta = key(
        DURATION, "the time limit for a request", default=timedelta(seconds=10)
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), "HTTP headers of every query", default_factory=dict
    )


@block()
class MetricsConfig:
    """Which metrics are exposed, and sources that take precedence over agents' heartbeats."""

    per_gpu: bool = key(BOOLEAN, "whether `/metrics` contains readings of each GPU", default=True)
    public: bool = key(
        BOOLEAN,
        "whether `/metrics` is served without a token; otherwise a scrape needs one for the whole "
        "fleet, of the role viewer or above",
        default=True,
    )
    prometheus: PrometheusConfig | None = key(
        Nested(cls=PrometheusConfig),
        "a Prometheus server",
        default=None,
        restart="sources are opened once, when the server starts",
    )


class NotifierType(StrEnum):
    """The built-in notifiers."""

    NOOP = "noop"
    WEBHOOK = "webhook"


@block()
class WebhookConfig:
    """The URLs to call when a node is cordoned or drained. A URL that is left out is not called."""

    cordon_url: str | None = key(URL, "called when a node is cordoned", default=None)
    uncordon_url: str | None = key(URL, "called when a node is uncordoned", default=None)
    drain_url: str | None = key(URL, "called when work has to leave a node", default=None)
    drain_status_url: str | None = key(
        URL,
        "called to check whether a node is empty; if left out, it counts as empty",
        default=None,
    )
    timeout: timedelta = key(
        DURATION, "the time limit for a request", default=timedelta(seconds=30)
    )
    headers: Mapping[str, Secret] = key(
        MapOf(each=HEADER), "HTTP headers of every call; kept secret", default_factory=dict
    )


def _webhook_matches_type(type: NotifierType, webhook: WebhookConfig | None) -> Iterator[Fault]:  # noqa: A002
    if type is NotifierType.WEBHOOK and webhook is None:
        yield Fault(
            "a notifier of type webhook needs a webhook block",
            "add webhook: with at least cordon_url and drain_url",
            at=("type",),
        )
    if type is NotifierType.NOOP and webhook is not None:
        yield Fault(
            "the webhook block is not used, because type is not webhook",
            "write type: webhook",
            at=("webhook",),
            warning=True,
        )
    if webhook and not (webhook.cordon_url or webhook.uncordon_url or webhook.drain_url):
        yield Fault(
            "the webhook has no URL to call",
            "set cordon_url, uncordon_url or drain_url",
            at=("webhook",),
        )


@block(rules=(_webhook_matches_type,))
class NotifierConfig:
    """How workload systems are notified of cordons and drains."""

    type: NotifierType = key(
        Choice(options=NotifierType), "which notifier", default=NotifierType.NOOP
    )
    webhook: WebhookConfig | None = key(
        Nested(cls=WebhookConfig), "the URLs of the webhook", default=None
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
                f"{name}_first cannot exceed {name}_longest",
                f"make {name}_longest the longer of the two",
                at=(f"{name}_first",),
            )


@block(rules=(_pauses_in_order,), restart=_ONCE)
class StockoutsConfig:
    """How long all launches avoid an offering after a refusal, until one tries it again."""

    sold_out_first: timedelta = key(
        DURATION, "the pause after the first stock-out", default=timedelta(seconds=15)
    )
    sold_out_longest: timedelta = key(
        DURATION,
        "the longest pause after consecutive stock-outs, each of which doubles it; shorter the "
        "more launches are waiting",
        default=timedelta(seconds=75),
    )
    fault_first: timedelta = key(
        DURATION,
        "the pause after three consecutive failures of the provider",
        default=timedelta(seconds=5),
    )
    fault_longest: timedelta = key(
        DURATION,
        "the longest pause after further failures, each of which doubles it",
        default=timedelta(minutes=5),
    )
    gang_first: timedelta = key(
        DURATION,
        "the pause for gangs of the same size, after the first that did not fit",
        default=timedelta(minutes=1),
    )
    gang_longest: timedelta = key(
        DURATION,
        "the longest pause after further gangs that did not fit, each of which doubles it",
        default=timedelta(minutes=10),
    )
    human: timedelta = key(
        DURATION,
        "the pause after a refusal that needs an operator: a quota, a key, an invalid request",
        default=timedelta(minutes=15),
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


def _probe_is_short(timeout: timedelta) -> Iterator[Fault]:
    if timeout > PROBE_MAX:
        yield Fault(
            f"a probe takes at most {PROBE_MAX.total_seconds():.0f} seconds",
            "write timeout: 5s",
            at=("timeout",),
        )


PROBE_MAX = timedelta(seconds=30)
"""What agents accept: they carry out one command after another."""


@block(rules=(_probe_is_short,))
class PeerProbesConfig:
    """How nodes that report connect to silent ones over TCP, to find out whether they work."""

    enabled: bool = key(BOOLEAN, "whether nodes probe others that are silent", default=True)
    port: int = key(
        Integer(least=1, most=65535, example="22"),
        "a port at which a program of every machine sends a greeting, as SSH servers do",
        default=22,
    )
    timeout: timedelta = key(
        DURATION, "how long a probe waits for a response", default=timedelta(seconds=5)
    )


def to_peer_probes(config: PeerProbesConfig) -> PeerProbes:
    """Return how nodes probe others."""
    return PeerProbes(enabled=config.enabled, port=config.port, within=config.timeout)


def _kept_long_enough(events: timedelta, launches: timedelta) -> Iterator[Fault]:
    for name, kept in (("events", events), ("launches", launches)):
        if kept < LEAST:
            yield Fault(
                f"{name} are kept for at least {LEAST.days} days, because budgets and policies "
                "read them",
                f"write {name}: {LEAST.days}d, or a longer time",
                at=(name,),
            )


@block(rules=(_kept_long_enough,))
class RetentionConfig:
    """How long history is kept; the state of the fleet is never dropped."""

    events: timedelta = key(
        DURATION,
        "how long the journal keeps an event; `navarch why` and watches reach no further back",
        default=Retention().events,
    )
    launches: timedelta = key(
        DURATION,
        "how long a launch is kept after its machine has ended; `navarch cost` reaches no further "
        "back",
        default=Retention().launches,
    )
    evidence: timedelta = key(
        DURATION, "how long an evidence bundle is kept", default=Retention().evidence
    )
    logs: timedelta = key(DURATION, "how long a bring-up log is kept", default=Retention().logs)
    files_mb: int = key(
        COUNT,
        "the most megabytes of evidence, and of bring-up logs; the oldest are deleted first",
        default=Retention().files_mb,
    )


def to_retention(config: RetentionConfig) -> Retention:
    """Return how long history is kept."""
    return copied(Retention, config)


class ClientCertificates(StrEnum):
    """Whether clients must have a certificate."""

    OPTIONAL = "optional"
    REQUIRED = "required"


def _clients_have_an_authority(
    client_ca_file: str | None, client_certificates: ClientCertificates
) -> Iterator[Fault]:
    if client_ca_file is None and client_certificates is ClientCertificates.REQUIRED:
        yield Fault(
            "client_certificates: required needs client_ca_file",
            "add client_ca_file: the certificates of the authorities of your clients",
            at=("client_certificates",),
        )


@block(rules=(_clients_have_an_authority,), restart="the ports are opened once, at the start")
class TlsConfig:
    """The certificate for HTTPS and gRPC. The files are read again when they change."""

    cert_file: str = key(PATH, "the certificate with its chain, in PEM form")
    key_file: str = key(PATH, "the private key, in PEM form without a password")
    client_ca_file: str | None = key(
        PATH,
        "the authorities of client certificates; if left out, none are asked for",
        default=None,
    )
    client_certificates: ClientCertificates = key(
        Choice(options=ClientCertificates),
        "whether a client without a certificate is turned away; over gRPC, certificates are asked "
        "for only if they are required",
        default=ClientCertificates.OPTIONAL,
    )


_BUNDLE = "the agent is bundled once, when the server starts"


def _timeout_above_interval(
    heartbeat_interval: timedelta, heartbeat_timeout: timedelta | None
) -> Iterator[Fault]:
    if heartbeat_timeout is not None and heartbeat_timeout <= heartbeat_interval:
        yield Fault(
            "heartbeat_timeout must be longer than heartbeat_interval, "
            "or every node counts as silent",
            "leave it out for three intervals",
            at=("heartbeat_timeout",),
        )


def _addresses_differ(address: str, grpc_address: str) -> Iterator[Fault]:
    any_free_port = address.endswith(":0")
    if address == grpc_address and not any_free_port:
        yield Fault(
            f"address and grpc_address are both {address}",
            "use two different ports",
            at=("grpc_address",),
        )


@block(rules=(_timeout_above_interval, _addresses_differ))
class ServerConfig:
    """Addresses, state and intervals of the control plane."""

    address: str = key(
        ADDRESS,
        "the HTTP address, for the API, agents and metrics",
        default=":50051",
        restart="the port is opened once, when the server starts",
    )
    grpc_address: str = key(
        ADDRESS,
        "the gRPC address",
        default=":50052",
        restart="the port is opened once, when the server starts",
    )
    advertise: str | None = key(
        Text(noun="a host with or without a port", example="10.0.0.7:50051"),
        "the address at which other replicas reach this server, `HOST` or `HOST:PORT`; if left "
        "out, the address of this machine on the way to the database, with the port of `address`",
        default=None,
        environment="NAVARCH_ADVERTISE",
        restart="the address is registered once, when the server starts",
    )
    external_address: str | None = key(
        URL,
        "the URL at which nodes reach the server; derived from `address` if left out, but "
        "required for pools at AWS, GCP and Lambda",
        default=None,
        environment="NAVARCH_EXTERNAL_ADDRESS",
    )
    data_dir: str | None = key(
        PATH,
        "the folder that holds all state; `--data-dir` takes precedence",
        default=None,
        restart="the state is opened once, when the server starts",
    )
    store: Secret | None = key(
        SECRET,
        "the PostgreSQL database that holds the fleet, as "
        "`postgresql://USER:PASSWORD@HOST:5432/DATABASE`; a SQLite file in `data_dir` if left out",
        default=None,
        file=True,
        environment="NAVARCH_STORE",
        restart="the state is opened once, when the server starts",
    )
    agent_wheels: str | None = key(
        PATH,
        "a folder of wheels with compiled code for machines whose Python differs from the "
        "server's; each must have the SHA-256 that this version expects",
        default=None,
        environment="NAVARCH_AGENT_WHEELS",
        restart=_BUNDLE,
    )
    agent_index: bool = key(
        BOOLEAN,
        "whether a machine may download such a wheel from PyPI, by its SHA-256, if the server has "
        "none for it",
        default=False,
        environment="NAVARCH_AGENT_INDEX",
        restart=_BUNDLE,
    )
    auth_token: Secret | None = key(
        TOKEN,
        "the bearer token that every request needs, 16 characters or more; without one, only this "
        "machine is served",
        default=None,
        file=True,
        environment="NAVARCH_AUTH_TOKEN",
    )
    access: AccessConfig = nested(
        AccessConfig, "how callers are recognized besides tokens, and their roles"
    )
    tls: TlsConfig | None = key(
        Nested(cls=TlsConfig),
        "the certificate for HTTPS and gRPC; clear text if left out",
        default=None,
    )
    secrets_refresh: timedelta = key(
        DURATION,
        "how often secrets by reference are read again; a change is applied like a reload",
        default=timedelta(minutes=1),
    )
    agent_token: Secret | None = key(
        TOKEN,
        "the token of agents on hosts that Navarch did not buy (`NAVARCH_JOIN_TOKEN` there), 16 "
        "characters or more; with it a host can make the calls of an agent for its own node only",
        default=None,
        file=True,
        environment="NAVARCH_AGENT_TOKEN",  # or `agent_token_file` in the configuration
    )
    heartbeat_interval: timedelta = key(
        DURATION, "how often agents send heartbeats", default=timedelta(seconds=30)
    )
    heartbeat_timeout: timedelta | None = key(
        DURATION,
        "how long after the last heartbeat a node becomes unhealthy; "
        "three heartbeat intervals if left out",
        default=None,
    )
    health_check_interval: timedelta = key(
        DURATION, "how often agents check their GPUs", default=timedelta(seconds=60)
    )
    forget_hosts_after: timedelta = key(
        DURATION_OR_ZERO,
        "how long a silent host that registered by itself is kept before it is forgotten; "
        "`0s` keeps it for ever",
        default=KEEP_HOSTS,
    )
    hosts_max: int = key(
        Integer(least=1, most=1_000_000),
        "how many hosts may register by themselves; more are refused",
        default=HOSTS.most,
    )
    frozen_after: timedelta = key(
        DURATION_OR_ZERO,
        "how long the event loop may stand still before the process ends, so that a standby "
        "server or the service manager replaces it; not within five minutes of the start; `0s` "
        "never ends it",
        default=timedelta(seconds=30),
        restart="the watchdog is started with the server",
    )
    autoscale_interval: timedelta = key(
        DURATION,
        "how often autoscaling runs",
        default=timedelta(seconds=30),
        restart="the interval is set once, when the server starts",
    )
    health_policy: str | None = key(
        PATH, "a policy file for health events; the built-in policy if left out", default=None
    )
    governor: GovernorConfig = nested(
        GovernorConfig, "limits on what automation may do without approval"
    )
    metrics: MetricsConfig = nested(
        MetricsConfig, "metrics of single GPUs, and further sources of pool metrics"
    )
    notifier: NotifierConfig = nested(
        NotifierConfig, "how workload systems are notified of cordons and drains"
    )

    stockouts: StockoutsConfig = nested(
        StockoutsConfig, "how long launches avoid an offering after a refusal"
    )

    retention: RetentionConfig = nested(RetentionConfig, "how long history is kept")

    peer_probes: PeerProbesConfig = nested(
        PeerProbesConfig, "how nodes find out whether a silent one works"
    )

    @property
    def silence(self) -> timedelta:
        """How long after its last heartbeat a node becomes unhealthy."""
        return self.heartbeat_timeout or 3 * self.heartbeat_interval
