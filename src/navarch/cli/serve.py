"""`navarch serve`: run the control plane."""

import asyncio
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click
import structlog

from navarch.api.http.exchange import is_loopback
from navarch.app.authentication import identifies_without_token
from navarch.app.image_python import wrong_pythons
from navarch.app.server import Following, Running, Server
from navarch.catalogue.machines import all_machines
from navarch.cli.credentials import STORED_VARIABLES, as_environment, read_credentials
from navarch.cli.environment import CliEnvironment
from navarch.cli.errors import first_cause
from navarch.cli.options import checked_store
from navarch.cli.printing import echo
from navarch.clock import SystemClock
from navarch.config import Config, ConfigError, Secret, default_config, load_config
from navarch.config.config import REACHABLE, unreachable_clouds
from navarch.config.kinds import url_remedy
from navarch.config.provider import FakeConfig
from navarch.core.access_token import TOKEN_CHARACTERS_MIN, TOKEN_REMEDY, too_short
from navarch.core.errors import InvalidError, NavarchError
from navarch.core.version import VERSION
from navarch.secrets.reference import SecretReader, parse_reference

log = structlog.get_logger("navarch.serve")

_WITH_TOKEN = "token required, except for /healthz, /readyz, /metrics, gRPC health"
_WITHOUT_TOKEN = "local connections only; set NAVARCH_AUTH_TOKEN to allow others"

# gRPC's own messages about ports duplicate the errors below.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def _long_enough(_context: click.Context, _: click.Parameter, token: str | None) -> str | None:
    is_given = token and parse_reference(token) is None
    if token and is_given and len(token) < TOKEN_CHARACTERS_MIN:
        raise click.BadParameter(f"it {too_short(token)}; {TOKEN_REMEDY}")
    return token


@click.command("serve")
@click.option(
    "-c",
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Configuration file.  [default: no pools; the clouds of `navarch config set-credentials`]",
)
@click.option(
    "--data-dir",
    envvar="NAVARCH_DATA_DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder that holds all state.  [default: ~/.navarch]",
)
@click.option(
    "--store",
    metavar="URL",
    callback=lambda _context, _option, url: checked_store(url),
    help="PostgreSQL database that holds the fleet. Pass a URL with a password in NAVARCH_STORE.  "
    "[default: SQLite in the folder]",
)
@click.option("--address", help="Address for HTTP.  [default: :50051]")
@click.option("--grpc-address", help="Address for gRPC.  [default: :50052]")
@click.option(
    "--external-address",
    envvar="NAVARCH_EXTERNAL_ADDRESS",
    metavar="URL",
    help="URL at which machines in a cloud reach this server.",
)
@click.option(
    "--advertise",
    envvar="NAVARCH_ADVERTISE",
    metavar="HOST[:PORT]",
    help="Address at which other servers on the same database reach this one.",
)
@click.option(
    "--auth-token",
    envvar="NAVARCH_AUTH_TOKEN",
    callback=_long_enough,
    help="Bearer token that clients must send.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Wait until the server that uses this folder ends, then take over. Not needed with a "
    "database: each server there answers, and takes over if the leader ends.",
)
@click.option("--log-json", is_flag=True, help="Log one JSON object per line.")
def serve(
    *,
    config_file: Path | None,
    data_dir: Path | None,
    store: str | None,
    address: str | None,
    grpc_address: str | None,
    external_address: str | None,
    advertise: str | None,
    auth_token: str | None,
    standby: bool,
    log_json: bool,
) -> None:
    """Run the control plane: fill pools, keep nodes healthy, and serve the API.

    All state is in one folder, or in a PostgreSQL database. Stopping or killing the server loses
    nothing.
    """
    _configure_logs(as_json=log_json)
    _prepare_process()

    directory = CliEnvironment().config_dir
    given = _with_address(os.environ, external_address)
    references = SecretReader()

    def read() -> Config:
        stored = read_credentials(directory)
        variables = as_environment(stored, given)
        # Cloud libraries read the credentials from the environment of the process.
        for name in STORED_VARIABLES.difference(given, variables):
            os.environ.pop(name, None)
        os.environ.update(variables)
        environment = {**given, **variables}
        config = (
            load_config(config_file, environment=environment, references=references)
            if config_file
            else default_config(environment, stored.providers, references=references)
        )
        token = _read_token(auth_token, references, environment)
        return _overridden(config, store, address, grpc_address, external_address, advertise, token)

    try:
        config = read()
        for warning in (*config.warnings, *refused_urls(config), *without_agents(config)):
            echo(f"warning: {warning}", err=True)
        folder = data_dir or Path(config.server.data_dir or Path.home() / ".navarch")
        server = Server(config, folder, standby=_print_standby if standby else None)
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_run(server, read, references))
    except ConfigError as error:
        echo(f"{error}", err=True)
        sys.exit(2)
    except NavarchError as error:
        echo(f"navarch serve: {error}", err=True)
        sys.exit(1)


def _with_address(environment: Mapping[str, str], external_address: str | None) -> dict[str, str]:
    """Return the environment with the address of the command line, so that rules see it."""
    if not external_address:
        return dict(environment)
    if remedy := url_remedy(external_address):
        raise click.BadParameter(f"{external_address!r} is not a URL; {remedy}")
    return {**environment, "NAVARCH_EXTERNAL_ADDRESS": external_address}


def _prepare_process() -> None:
    # What the server writes is for its own user: state, evidence, logs of machines.
    os.umask(0o077)
    # Each agent holds a connection, so raise the limit on open files to the maximum.
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _read_token(
    given: str | None, references: SecretReader, environment: Mapping[str, str]
) -> str | None:
    """Return the token of the command line, or the one that it refers to."""
    reference = parse_reference(given or "")
    token = given if reference is None else references(reference, environment)
    if token and len(token) < TOKEN_CHARACTERS_MIN:
        raise InvalidError(f"the token {too_short(token)}; {TOKEN_REMEDY}")
    return token


def _print_standby(place: str) -> None:
    echo(f"navarch {VERSION} is on standby: another server uses {place}")


async def _run(server: Server, read: Callable[[], Config], references: SecretReader) -> None:
    loop = asyncio.get_running_loop()
    reloads = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as tasks:
            serving = tasks.create_task(
                server.run(
                    lambda running: echo(render_banner(running)),
                    lambda following: echo(render_following(following)),
                )
            )
            background = [
                tasks.create_task(_reload(server, read, reloads)),
                tasks.create_task(_follow_secrets(server, references, reloads)),
            ]
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, serving.cancel)
            loop.add_signal_handler(signal.SIGHUP, reloads.set)
            try:
                await asyncio.wait([serving])
            finally:
                for task in background:
                    task.cancel()
    except BaseExceptionGroup as group:
        # Report the first error only; the others usually follow from it.
        raise first_cause(group) from None


async def _reload(server: Server, read: Callable[[], Config], wanted: asyncio.Event) -> None:
    while True:
        await wanted.wait()
        wanted.clear()
        try:
            # In a thread: secrets by reference are read from other services.
            change = await server.reload(await asyncio.to_thread(read))
        except NavarchError as error:
            echo(f"configuration not reloaded, the previous one stays in force:\n{error}", err=True)
        else:
            echo(f"configuration reloaded: {change}")


async def _follow_secrets(server: Server, references: SecretReader, wanted: asyncio.Event) -> None:
    """Reload the configuration whenever a secret that it refers to has changed."""
    while True:
        await SystemClock().sleep(server.secrets_refresh.total_seconds())
        if not references.in_use:
            continue
        try:
            if await asyncio.to_thread(references.changed):
                log.info("secrets.changed")
                wanted.set()
        except NavarchError as error:
            log.warning("secrets.not_read", error=str(error), hint="those of before stay in use")


def render_following(following: Following) -> str:
    """Return the text that a server prints while another one leads."""
    leader = following.leader or "another server"
    where = "" if following.leader else f" on {following.place}"
    return "\n".join(
        [
            f"navarch {VERSION} is a replica of {leader}{where}; leads if it ends",
            *_doors(following),
            f"  state    {following.place}",
        ]
    )


def render_banner(running: Running) -> str:
    """Return the text that a started server prints."""
    scheme = "https" if running.tls else "http"
    url = f"{scheme}://{running.http.reachable()}"
    leads = " and leads" if running.replicated else ""
    lines = [
        f"navarch {VERSION} is serving{leads}",
        *_doors(running),
        f"  state    {running.place}, {running.nodes} nodes",
    ]
    lines += [f"  clouds   {line}" for line in _clouds(running.providers)]
    program = "navarch" if url.endswith(":50051") and not running.tls else f"navarch -s {url}"
    lines += ["", "In another terminal:", f"  {program} status"]
    return "\n".join([*lines, *(f"  {program} {each}" for each in _next_commands(running))])


def _doors(at: Running | Following) -> Iterator[str]:
    scheme, grpc = ("https", "grpcs") if at.tls else ("http", "grpc")
    how = "TLS" if at.tls else "clear text (no TLS)"
    yield f"  HTTP     {scheme}://{at.http.shown()}, {how}"
    yield f"  gRPC     {grpc}://{at.grpc.shown()}, {how}"
    yield f"  access   {_WITH_TOKEN if at.guarded else _WITHOUT_TOKEN}"


def _clouds(providers: Mapping[str, str]) -> Iterator[str]:
    if not providers:
        yield "none: it monitors machines whose agents register, and launches none."
        yield "To buy machines, run `navarch config set-credentials`, or configure"
        yield "providers in a file (--config FILE), and start the server again."
        return
    yield ", ".join(
        name if name == kind else f"{name} ({kind})" for name, kind in sorted(providers.items())
    )


def _next_commands(running: Running) -> Iterator[str]:
    """Yield commands that work with the configured providers, with what they cost."""
    providers = running.providers
    simulated = sorted(name for name, kind in providers.items() if kind == FakeConfig.type)
    if simulated:
        at = f" --provider {simulated[0]}" if len(providers) > 1 else ""
        yield f"up --gpus 16 --type h100 --name demo{at} --wait"
        yield "sim inject demo-0 --xid 79"
        yield "why node demo-0"
        yield "down demo"
        return
    if running.pools:
        yield f"pool get {running.pools[0]}"
    sold = [x for x in all_machines() if x.provider in providers.values() and x.usd_per_hour]
    if sold:
        yield "offers --mine"
    if sold and not running.pools:
        cheapest = min(sold, key=lambda x: (x.usd_per_hour, x.provider, x.instance_type))
        model = cheapest.gpu_model.lower()
        cost = f"# about ${cheapest.usd_per_hour:.2f}/h at {cheapest.provider}"
        yield f"up --gpus {cheapest.gpus} --type {model} --name demo    {cost}"
        yield "down demo"


def refused_urls(config: Config) -> Iterator[str]:
    """Yield a warning for each URL given to agents that the server would refuse."""
    if config.server.auth_token or identifies_without_token(config):
        return
    given = {"server.external_address": config.server.external_address}
    for pool in config.pools.values():
        given[f"pools.{pool.name}.control_plane_address"] = pool.control_plane_address
    for key, url in given.items():
        if url and not is_loopback(urlsplit(url).netloc.encode()):
            yield (
                f"{key} {url} is refused by a server without a token, which accepts only loopback "
                "Host headers. Agents that use this URL cannot connect, unless a proxy rewrites "
                "the Host. Set NAVARCH_AUTH_TOKEN"
            )


def without_agents(config: Config) -> Iterator[str]:
    """Yield what keeps machines of a cloud from getting an agent."""
    problem = unreachable_clouds(config)
    if problem is not None:
        yield f"{problem}, so new pools there are refused; {REACHABLE}"
    for problem in wrong_pythons(config):
        yield f"new pools are refused: {problem}"


def _overridden(
    config: Config,
    store: str | None,
    address: str | None,
    grpc_address: str | None,
    external_address: str | None,
    advertise: str | None,
    auth_token: str | None,
) -> Config:
    server = config.server
    if store:
        server = replace(server, store=Secret(store))
    if address:
        server = replace(server, address=address)
    if grpc_address:
        server = replace(server, grpc_address=grpc_address)
    if external_address:
        server = replace(server, external_address=external_address)
    if advertise:
        server = replace(server, advertise=advertise)
    if auth_token:
        server = replace(server, auth_token=Secret(auth_token))
    return replace(config, server=server)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ModuleNotFoundError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def _configure_logs(*, as_json: bool) -> None:
    renderer = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
