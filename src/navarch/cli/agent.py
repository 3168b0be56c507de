"""`navarch agent`: looks after the machine it runs on."""

import asyncio
import importlib
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import click
import structlog

from navarch.agent.agent import Agent
from navarch.agent.dead_man import Lease
from navarch.agent.event_sources import EventSources, wake_on_kernel_log
from navarch.agent.remediation import Permissions
from navarch.agent.settings import Identity, machine_key
from navarch.agent.spool.disk import DiskError, FolderDisk
from navarch.agent.transport import LINKS, open_link
from navarch.clock.system import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.joining import with_machine_key
from navarch.core.offering import Offering
from navarch.gpus.child import NvmlChild
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.simulated import MODEL, SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.health.machines import find_kind
from navarch.hosts.effects import LinuxEffects
from navarch.hosts.facts import LinuxFacts
from navarch.hosts.kmsg import FileBookmark, open_kmsg
from navarch.hosts.linux import LinuxHost
from navarch.hosts.metadata.watch import Service, watch_service
from navarch.hosts.tracepoint import open_tracepoint
from navarch.ports.diagnostics import Diagnostics
from navarch.ports.effects import Effects
from navarch.ports.gpu import GpuReader
from navarch.ports.host import HostError, KernelLog
from navarch.ports.link import Link
from navarch.ports.metadata import NoticeWatch

log = structlog.get_logger("navarch.agent")

SIMULATED_MAX = 64


class _AgentGroup(click.Group):
    """Runs the agent unless told to do something else on this machine, which is loaded late."""

    commands_by_name: ClassVar[Mapping[str, str]] = {
        "record": "navarch.cli.agent_record:record",
        "replay": "navarch.cli.agent_record:replay",
        "scan": "navarch.cli.agent_scan:scan",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return what can be done besides."""
        return [*super().list_commands(ctx), *self.commands_by_name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of that name."""
        if cmd_name not in self.commands_by_name:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.commands_by_name[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group("agent", cls=_AgentGroup, invoke_without_command=True)
@click.option(
    "-s",
    "--server",
    envvar="NAVARCH_SERVER",
    default="http://localhost:50051",
    show_default=True,
    help="Address of the control plane.",
)
@click.option("--node-id", envvar="NAVARCH_NODE_ID", help="Name of this node.  [default: hostname]")
@click.option(
    "--provider", envvar="NAVARCH_PROVIDER", default="", help="Where the machine comes from."
)
@click.option("--region", envvar="NAVARCH_REGION", default="", help="Its region there.")
@click.option("--zone", envvar="NAVARCH_ZONE", default="", help="Its zone there.")
@click.option(
    "--instance-type",
    envvar="NAVARCH_INSTANCE_TYPE",
    default="",
    help="What the provider calls its kind.",
)
@click.option(
    "--pool",
    envvar="NAVARCH_POOL",
    default="",
    help="Pool it belongs to; becomes the label `pool`.",
)
@click.option("--label", "labels", multiple=True, metavar="KEY=VALUE", help="A label. Repeatable.")
@click.option(
    "--auth-token",
    envvar="NAVARCH_AUTH_TOKEN",
    help="Bearer token. A file keeps it out of the process list.",
)
@click.option(
    "--auth-token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the bearer token, read again whenever it changes.",
)
@click.option(
    "--join-token-file",
    envvar="NAVARCH_JOIN_TOKEN_FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File with the join token of the launch, used instead of a bearer token.",
)
@click.option("--token", envvar="NAVARCH_LAUNCH_TOKEN", help="The launch that made the machine.")
@click.option(
    "--state-dir",
    envvar="STATE_DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="What must survive a restart.  [default: /var/lib/navarch-agent, or under $HOME]",
)
@click.option("--boot-id", default="", help="Name of this boot.  [default: the kernel's]")
@click.option(
    "--gpus-expected",
    envvar="NAVARCH_GPUS_EXPECTED",
    type=click.IntRange(min=0),
    help="How many GPUs the machine must have to be healthy.",
)
@click.option(
    "--metadata",
    type=click.Choice([service.value for service in Service]),
    envvar="NAVARCH_METADATA",
    default=Service.AUTO.value,
    show_default=True,
    help="Whose metadata service announces that the machine will be taken back or worked on.",
)
@click.option(
    "--metadata-url",
    envvar="NAVARCH_METADATA_URL",
    default="",
    help="Address of that service, if not the usual one.",
)
@click.option(
    "--dead-man-lease",
    envvar="NAVARCH_DEAD_MAN_LEASE",
    type=click.FloatRange(min=0.25),
    metavar="HOURS",
    help="End this machine once it is idle and no control plane has answered for so long.",
)
@click.option(
    "--dead-man-command",
    envvar="NAVARCH_DEAD_MAN_COMMAND",
    default="systemctl poweroff",
    show_default=True,
    help="What ends this machine.",
)
@click.option(
    "--simulated-gpus",
    type=click.IntRange(min=0, max=SIMULATED_MAX),
    help="Pretend to have this many GPUs. For trying things out.",
)
@click.option(
    "--image",
    envvar="NAVARCH_IMAGE",
    help="What the machine was booted from.  [default: what /etc/os-release says]",
)
@click.option(
    "--allow-restart-app",
    is_flag=True,
    envvar="NAVARCH_ALLOW_RESTART_APP",
    help="Let the control plane end processes that hold a broken GPU.",
)
@click.option(
    "--app-unit",
    "units",
    multiple=True,
    metavar="UNIT",
    help="With --allow-restart-app: restart this service instead. Repeatable.",
)
@click.option(
    "--allow-reset",
    is_flag=True,
    envvar="NAVARCH_ALLOW_RESET",
    help="Let the control plane reset GPUs that nobody uses.",
)
@click.option(
    "--allow-reboot",
    is_flag=True,
    envvar="NAVARCH_ALLOW_REBOOT",
    help="Let the control plane reboot the machine.",
)
@click.pass_context
def agent(
    context: click.Context,
    /,
    *,
    server: str,
    node_id: str | None,
    provider: str,
    region: str,
    zone: str,
    instance_type: str,
    pool: str,
    labels: tuple[str, ...],
    auth_token: str | None,
    auth_token_file: Path | None,
    join_token_file: Path | None,
    token: str | None,
    state_dir: Path | None,
    boot_id: str,
    gpus_expected: int | None,
    metadata: str,
    metadata_url: str,
    dead_man_lease: float | None,
    dead_man_command: str,
    simulated_gpus: int | None,
    image: str | None,
    allow_restart_app: bool,
    units: tuple[str, ...],
    allow_reset: bool,
    allow_reboot: bool,
) -> None:
    """Run the node agent: register, beat, check the hardware, obey."""
    if context.invoked_subcommand is not None:
        log_as_json(at_least=logging.WARNING)  # Their standard output is for their answer alone.
        return
    place = None
    if provider or region or zone or instance_type:
        place = Offering(
            provider=ProviderName(provider), instance_type=instance_type, region=region, zone=zone
        )
    name = node_id or socket.gethostname()
    identity = Identity(
        node=NodeId(name),
        token=Token(token) if token else None,
        boot_id=boot_id,
        place=place,
        labels=_parse_labels(labels, pool),
        gpus_expected=gpus_expected,
        image=image if image is not None else _image(),
        kind=find_kind(provider, instance_type) if instance_type else None,
    )
    source = _token_source(auth_token, auth_token_file)
    joining = join_token_file or os.environ.get("NAVARCH_JOIN_TOKEN")
    if joining:
        source = _joining(joining, state_dir or _default_state_dir())
    link = _link(server, source)
    simulated = _simulated_count(simulated_gpus)
    try:
        disk = FolderDisk(state_dir or _default_state_dir())
    except DiskError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error
    log_as_json()
    if (auth_token or auth_token_file or joining) and _is_readable_on_the_way(server):
        log.warning("agent.token_in_clear", server=server, hint="https would keep it secret")
    folder = state_dir or _default_state_dir()
    event_sources = _event_sources(_gpus(simulated, name), identity, folder, simulated=simulated)
    diagnostics = CudaDiagnostics() if simulated is None else None
    notices = _notices(metadata, metadata_url)
    permissions = Permissions(
        restart_app=allow_restart_app, units=units, reset=allow_reset, reboot=allow_reboot
    )
    # Simulated GPUs are on a real machine, which is not theirs to reboot.
    effects = LinuxEffects(SystemClock()) if simulated is None else None
    lease = None
    if dead_man_lease is not None:
        lease = Lease(
            term=timedelta(hours=dead_man_lease),
            end=lambda: _end_machine(shlex.split(dead_man_command)),
        )
    sys.exit(
        _run(identity, link, event_sources, disk, diagnostics, notices, effects, permissions, lease)
    )


def _end_machine(command: Sequence[str]) -> None:
    """End the machine; where that fails, say so: it is tried again a term later."""
    try:
        subprocess.run(command, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("agent.dead_man_failed", command=list(command), error=str(error))


def _run(
    identity: Identity,
    link: Link,
    gpus: EventSources,
    disk: FolderDisk,
    diagnostics: Diagnostics | None,
    notices: NoticeWatch | None,
    effects: Effects | None,
    permissions: Permissions,
    lease: Lease | None,
) -> int:
    offload, probe_offload = ThreadOffload("disk"), ThreadOffload("probe")
    tests_offload = ThreadOffload("tests")
    daemon = Agent(
        SystemClock(),
        SystemEntropy(),
        link,
        gpus,
        LinuxHost(),
        disk,
        identity=identity,
        checks=standard_checks(),
        offload=offload,
        probe_offload=probe_offload,
        diagnostics=diagnostics,
        tests_offload=tests_offload,
        sources=gpus.sources,
        facts=LinuxFacts(SystemClock()),
        notices=notices,
        effects=effects,
        permissions=permissions,
        release_driver=gpus.release_driver,
        lease=lease,
    )
    try:
        asyncio.run(_until_signalled(daemon, gpus))
    except DiskError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error
    offload.close()
    if daemon.hung:
        # A call into the driver never came back, and the interpreter would wait for it. This
        # process is ours alone; nothing in it is worth waiting for any more.
        sys.stderr.flush()
        os._exit(0)
    probe_offload.close()
    tests_offload.close()
    gpus.close()
    disk.close()
    return 0


async def _until_signalled(daemon: Agent, gpus: EventSources) -> None:
    """Run; stop at the first signal, at once at the second."""
    loop = asyncio.get_running_loop()
    with wake_on_kernel_log(daemon, gpus):
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(daemon.run())
            asked = False

            def on_signal() -> None:
                nonlocal asked
                if asked:
                    life.cancel()
                asked = True
                daemon.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, on_signal)


def log_as_json(*, at_least: int = logging.INFO) -> None:
    """Write logs as one JSON object a line, to standard error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(at_least),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def _parse_labels(labels: tuple[str, ...], pool: str) -> dict[str, str]:
    parsed = {}
    for label in labels:
        key, equals, value = label.partition("=")
        if not equals or not key.strip():
            raise click.BadParameter(f"{label!r} is not KEY=VALUE", param_hint="--label")
        parsed[key.strip()] = value
    return {**parsed, "pool": pool} if pool else parsed


def _notices(service: str, address: str) -> NoticeWatch | None:
    parts = urlsplit(address)
    if address and (parts.scheme != "http" or not parts.hostname):
        raise click.BadParameter(
            f"{address!r} is not like http://169.254.169.254", param_hint="--metadata-url"
        )
    return watch_service(Service(service), address)


def _link(server: str, token: Callable[[], str | None]) -> Link:
    try:
        return open_link(server, token=token, links={**LINKS, "grpc": _grpc_link})
    except InvalidError as error:
        raise click.BadParameter(str(error), param_hint="--server") from error


def _grpc_link(server: str, token: Callable[[], str | None]) -> Link:
    # Not a part of the agent's own install, and so not of what it imports.
    try:
        module = importlib.import_module("navarch.client.grpc_link")
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"grpc:// needs {error.name}; install it with: pip install 'navarch[server]'"
        ) from error
    link: Link = module.grpc_link(server, token)
    return link


def _is_readable_on_the_way(server: str) -> bool:
    parts = urlsplit(server)
    here = parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")
    return parts.scheme == "http" and not here


def _token_source(token: str | None, file: Path | None) -> Callable[[], str | None]:
    if file is None:
        plain = _plain(token, "--auth-token")
        return lambda: plain
    last = _read_token(file)

    def read() -> str | None:
        nonlocal last
        try:
            last = _read_token(file)
        except click.BadParameter as error:
            # Caught half way through being renewed, perhaps. The old one may still do.
            log.warning("agent.token_unreadable", error=str(error))
        return last

    return read


def _joining(token: Path | str, folder: Path) -> Callable[[], str | None]:
    """Return the join token with this machine's own key, which is made the first time."""
    plain = _read_token(token) if isinstance(token, Path) else _plain(token, "NAVARCH_JOIN_TOKEN")
    if plain is None:
        raise click.BadParameter("the file is empty", param_hint="--join-token-file")
    try:
        shown = with_machine_key(plain, machine_key(folder, SystemEntropy()))
    except OSError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error
    return lambda: shown


def _read_token(file: Path) -> str | None:
    try:
        return _plain(file.read_text(), "--auth-token-file")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="--auth-token-file") from error


def _plain(token: str | None, option: str) -> str | None:
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise click.BadParameter("a token is one word of plain characters", param_hint=option)
    return token or None


def _simulated_count(asked_for: int | None) -> int | None:
    if asked_for is not None or os.environ.get("NAVARCH_FAKE_GPU", "").lower() != "true":
        return asked_for
    count = os.environ.get("NAVARCH_GPU_COUNT", "8")
    if not count.isdecimal() or int(count) > SIMULATED_MAX:
        raise click.UsageError(
            f"NAVARCH_GPU_COUNT is {count!r}; it must be a number from 0 to {SIMULATED_MAX}"
        )
    return int(count)


def _gpus(simulated: int | None, node: str) -> GpuReader:
    clock = SystemClock()
    if simulated is None:
        return NvmlChild(clock)
    log.warning("agent.simulated_gpus", node=node, count=simulated)
    model = os.environ.get("NAVARCH_GPU_TYPE") or MODEL
    return SimulatedGpus(clock, SystemEntropy(), count=simulated, seed=node, model=model)


def _event_sources(
    gpus: GpuReader, identity: Identity, folder: Path, *, simulated: int | None
) -> EventSources:
    """Return the GPUs with whoever tells of their errors; simulated ones are in no kernel's log."""
    clock = SystemClock()
    logs: list[KernelLog] = []
    if simulated is None:
        logs = [log for log in (open_kmsg(clock), open_tracepoint(clock)) if log is not None]
    return EventSources(
        clock,
        gpus,
        logs,
        bookmark=FileBookmark(folder / "kernel-log" / "bookmark.json"),
        boot_id=identity.boot_id or _boot_id(),
    )


def _boot_id() -> str:
    try:
        return LinuxHost().boot_id()
    except HostError:
        return ""


def _image(release: Path = Path("/etc/os-release")) -> str:
    """Return the name and version of the image, where whoever built it has written them down."""
    try:
        lines = release.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    said = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
    return " ".join(filter(None, (said.get("IMAGE_ID"), said.get("IMAGE_VERSION"))))


def _default_state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/navarch-agent")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "navarch-agent"


if __name__ == "__main__":
    agent()
