"""The server: where it listens, where it keeps its state, how often it looks."""

from collections.abc import Iterator
from datetime import timedelta

from navarch.config.kinds import ADDRESS, DURATION, PATH, SECRET, URL
from navarch.config.metrics import MetricsConfig
from navarch.config.nesting import Nested
from navarch.config.notifier import NotifierConfig
from navarch.config.remediation import GovernorConfig
from navarch.config.schema import Fault, block, key
from navarch.config.secret import Secret
from navarch.config.stockouts import StockoutsConfig


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


def _two_doors(address: str, grpc_address: str) -> Iterator[Fault]:
    any_free_port = address.endswith(":0")
    if address == grpc_address and not any_free_port:
        yield Fault(
            at=("grpc_address",),
            message=f"address and grpc_address are both {address}",
            remedy="give each a port of its own",
        )


@block(rules=(_timeout_above_interval, _two_doors))
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
