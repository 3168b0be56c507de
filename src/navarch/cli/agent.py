"""`navarch agent`: monitors the machine that it runs on."""

import asyncio
import importlib
import logging
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial, wraps
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import urlsplit

import click
import structlog

from navarch.agent.agent import Agent
from navarch.agent.dead_man import Lease
from navarch.agent.event_sources import EventSources, wake_on_kernel_log
from navarch.agent.remediation import Permissions
from navarch.agent.settings import Identity, machine_key
from navarch.agent.spool.disk import DetachedDisk, DiskError, FolderDisk, open_disk
from navarch.agent.transport import LINKS, LinkFactory, http_link, open_link
from navarch.cli.errors import needs_extra
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.launch import Offering
from navarch.core.ownership import PREFIX, host_credential, with_machine_key
from navarch.gpus.child import NvmlChild
from navarch.gpus.diagnostics import CudaDiagnostics
from navarch.gpus.simulated import MODEL, SimulatedGpus
from navarch.health.checks.standard import standard_checks
from navarch.health.conditions import find_kind
from navarch.hosts.effects import LinuxEffects
from navarch.hosts.facts import LinuxFacts
from navarch.hosts.kmsg import FileBookmark, open_kmsg, open_tracepoint
from navarch.hosts.linux import LinuxHost
from navarch.hosts.metadata.watch import Service, watch_service
from navarch.hosts.prober import TcpProber
from navarch.http.tls import ClientTls, TlsPaths
from navarch.ports.agents import Link
from navarch.ports.gpu import GpuReader
from navarch.ports.host import HostError, KernelLog, NoticeWatch

log = structlog.get_logger("navarch.agent")

F = TypeVar("F", bound=Callable[..., object])

SIMULATED_MAX = 64


FILE = click.Path(dir_okay=False, path_type=Path)


def setting(*names: str, help: str, **attributes: Any) -> Callable[[F], F]:  # noqa: A002, ANN401
    """Return an option that a variable sets as well: `--node-id` is NAVARCH_NODE_ID."""
    variable = f"NAVARCH_{names[-1].removeprefix('--').replace('-', '_').upper()}"
    return click.option(*names, envvar=variable, help=help, **attributes)


def tls_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the files of TLS; `command` receives them as `tls`."""

    @wraps(command)
    def with_tls(
        *arguments: object,
        ca_file: Path | None,
        cert_file: Path | None,
        key_file: Path | None,
        **options: object,
    ) -> None:
        files = TlsPaths(ca=ca_file, cert=cert_file, key=key_file)
        command(*arguments, tls=files, **options)

    texts = {
        "--key-file": "Key of the client certificate.",
        "--cert-file": "Client certificate of the agent.",
        "--ca-file": "Authorities that may sign the certificate of the control plane.",
    }
    for name, text in texts.items():
        with_tls = setting(name, type=FILE, help=text)(with_tls)
    return with_tls


class _AgentGroup(click.Group):
    """A group that runs the agent when no subcommand is given. Subcommands are imported lazily."""

    commands_by_name: ClassVar[Mapping[str, str]] = {
        "record": "navarch.cli.agent_record:record",
        "replay": "navarch.cli.agent_record:replay",
        "scan": "navarch.cli.agent_scan:scan",
    }

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands."""
        return [*super().list_commands(ctx), *self.commands_by_name]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the subcommand `cmd_name`, imported on first use."""
        if cmd_name not in self.commands_by_name:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.commands_by_name[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command


@click.group("agent", cls=_AgentGroup, invoke_without_command=True)
@setting(
    "-s",
    "--server",
    default="http://localhost:50051",
    show_default=True,
    help="Address of the control plane.",
)
@setting("--node-id", help="Name of this node.  [default: hostname]")
@setting("--provider", default="", help="Provider of the machine.")
@setting("--region", default="", help="Region of the machine.")
@setting("--zone", default="", help="Zone of the machine.")
@setting("--instance-type", default="", help="The provider's instance type.")
@setting("--pool", default="", help="Pool of the machine; sets the label `pool`.")
@click.option(
    "--label", "labels", multiple=True, metavar="KEY=VALUE", help="Label of the node. Repeatable."
)
@setting("--auth-token", help="Bearer token. A file keeps it out of the process list.")
@click.option(
    "--auth-token-file", type=FILE, help="File with the bearer token; changes are picked up."
)
@tls_options
@setting(
    "--join-token-file",
    type=FILE,
    help="File with a join token, or with the server's token for agents.",
)
@click.option(
    "--token", envvar="NAVARCH_LAUNCH_TOKEN", help="Token of the launch that created the machine."
)
@click.option(
    "--state-dir",
    envvar="STATE_DIRECTORY",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for persistent state.  [default: /var/lib/navarch-agent, or under $HOME]",
)
@click.option("--boot-id", default="", help="Id of this boot.  [default: the kernel's boot id]")
@setting(
    "--gpus-expected",
    type=click.IntRange(min=0),
    help="Number of GPUs that the machine must have to be healthy.",
)
@setting(
    "--metadata",
    type=click.Choice([service.value for service in Service]),
    default=Service.AUTO.value,
    show_default=True,
    help="Metadata service to poll for preemption and maintenance notices.",
)
@setting("--metadata-url", default="", help="URL of the metadata service, if not the default.")
@setting(
    "--dead-man-lease",
    type=click.FloatRange(min=0.25),
    metavar="HOURS",
    help="Shut the machine down once it is idle and has had no control plane for this long.",
)
@setting(
    "--dead-man-command",
    default="systemctl poweroff",
    show_default=True,
    help="Command that shuts the machine down.",
)
@click.option(
    "--simulated-gpus",
    type=click.IntRange(min=0, max=SIMULATED_MAX),
    help="Simulate this many GPUs, for trials.",
)
@setting("--image", help="Image of the machine.  [default: from /etc/os-release]")
@setting(
    "--allow-restart-app",
    is_flag=True,
    help="Allow the control plane to kill processes that hold a broken GPU.",
)
@click.option(
    "--app-unit",
    "units",
    multiple=True,
    metavar="UNIT",
    help="With --allow-restart-app: restart this systemd unit instead. Repeatable.",
)
@setting("--allow-reset", is_flag=True, help="Allow the control plane to reset idle GPUs.")
@setting("--allow-reboot", is_flag=True, help="Allow the control plane to reboot the machine.")
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
    tls: TlsPaths,
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
    """Run the node agent: register, send heartbeats, check the hardware, run commands."""
    if context.invoked_subcommand is not None:
        log_as_json(at_least=logging.WARNING)  # Standard output is reserved for the result.
        return
    identity = Identity(
        node=NodeId(node_id or socket.gethostname()),
        token=Token(token) if token else None,
        boot_id=boot_id,
        place=_place(provider, instance_type, region, zone),
        labels=_parse_labels(labels, pool),
        gpus_expected=gpus_expected,
        image=image if image is not None else _image(),
        kind=find_kind(provider, instance_type) if instance_type else None,
    )
    folder = state_dir or _default_state_dir()
    source = _credentials(auth_token, auth_token_file, join_token_file, folder, identity.node)
    link = _link(server, source or (lambda: None), tls)
    simulated = _simulated_count(simulated_gpus)
    disk = _open_disk(folder)
    log_as_json()
    _warn_of_clear_text(server, source)
    gpus = _open_gpus(identity, folder, simulated)
    notices = _notices(metadata, metadata_url)
    permissions = Permissions(
        restart_app=allow_restart_app, units=units, reset=allow_reset, reboot=allow_reboot
    )
    lease = _lease(dead_man_lease, dead_man_command)
    real = simulated is None
    sys.exit(_run(identity, link, gpus, server, disk, notices, permissions, lease, real_gpus=real))


def _place(provider: str, instance_type: str, region: str, zone: str) -> Offering | None:
    if not (provider or region or zone or instance_type):
        return None
    return Offering(
        provider=ProviderName(provider), instance_type=instance_type, region=region, zone=zone
    )


def _lease(hours: float | None, command: str) -> Lease | None:
    if hours is None:
        return None

    def end_machine() -> None:
        try:
            subprocess.run(shlex.split(command), check=True, timeout=60)
        except (OSError, subprocess.SubprocessError) as error:
            # It is retried one lease later.
            log.warning("agent.dead_man_failed", command=shlex.split(command), error=str(error))

    return Lease(term=timedelta(hours=hours), end=end_machine)


def _open_disk(folder: Path) -> FolderDisk | DetachedDisk:
    try:
        return open_disk(folder)
    except DiskError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error


def _run(
    identity: Identity,
    link: Link,
    gpus: EventSources,
    server: str,
    disk: FolderDisk | DetachedDisk,
    notices: NoticeWatch | None,
    permissions: Permissions,
    lease: Lease | None,
    *,
    real_gpus: bool,
) -> int:
    if isinstance(disk, DetachedDisk):
        log.error(
            "agent.disk_full",
            hint="reports are kept in memory, and commands that change the machine are refused; "
            "make room, then restart the agent",
        )
    offload, probe_offload = ThreadOffload("disk"), ThreadOffload("probe")
    tests_offload = ThreadOffload("tests")
    daemon = Agent(
        SystemClock(),
        SystemEntropy(),
        link,
        gpus,
        LinuxHost(server=urlsplit(server).hostname or ""),
        disk,
        identity=identity,
        checks=standard_checks(),
        offload=offload,
        probe_offload=probe_offload,
        diagnostics=CudaDiagnostics() if real_gpus else None,
        tests_offload=tests_offload,
        sources=gpus.sources,
        facts=LinuxFacts(SystemClock()),
        notices=notices,
        # An agent with simulated GPUs must not reset or reboot the real machine underneath. One
        # that cannot store that it began would do it again.
        effects=LinuxEffects(SystemClock())
        if real_gpus and not isinstance(disk, DetachedDisk)
        else None,
        permissions=permissions,
        release_driver=gpus.release_driver,
        lease=lease,
        prober=TcpProber(),
    )
    try:
        asyncio.run(_until_signalled(daemon, gpus))
    except DiskError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error
    offload.close()
    if daemon.hung:
        # A call into the driver never returned, and a normal exit would wait for its thread.
        sys.stderr.flush()
        os._exit(0)
    probe_offload.close()
    tests_offload.close()
    gpus.close()
    disk.close()
    return 0


async def _until_signalled(daemon: Agent, gpus: EventSources) -> None:
    """Run the agent; stop gracefully on the first signal, cancel on the second."""
    loop = asyncio.get_running_loop()
    with wake_on_kernel_log(daemon, gpus):
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(daemon.run())
            stopping = False

            def on_signal() -> None:
                nonlocal stopping
                if stopping:
                    life.cancel()
                stopping = True
                daemon.stop()

            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, on_signal)


def log_as_json(*, at_least: int = logging.INFO) -> None:
    """Log JSON, one object per line, to standard error."""
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


def _link(server: str, token: Callable[[], str | None], files: TlsPaths) -> Link:
    try:
        tls = ClientTls(files) if server.startswith("https:") else None
        links: Mapping[str, LinkFactory] = {
            **LINKS,
            "https": partial(http_link, tls=tls),
            "grpc": _grpc_link,
            "grpcs": partial(_grpc_link, files=files),
        }
        return open_link(server, token=token, links=links)
    except InvalidError as error:
        raise click.BadParameter(str(error), param_hint="--server") from error


def _grpc_link(server: str, token: Callable[[], str | None], files: TlsPaths | None = None) -> Link:
    # gRPC is not part of the agent's light install, so it is imported only when used.
    try:
        module = importlib.import_module("navarch.client.grpc_link")
    except ModuleNotFoundError as error:
        raise click.ClickException(needs_extra("grpc://", error, "server")) from error
    link: Link = module.grpc_link(server, token, files)
    return link


def _warn_of_clear_text(server: str, source: Callable[[], str | None] | None) -> None:
    parts = urlsplit(server)
    here = parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")
    if source is not None and parts.scheme in ("http", "grpc") and not here:
        log.warning("agent.token_in_clear", server=server, hint="https would keep it secret")


def _credentials(
    token: str | None,
    token_file: Path | None,
    join_token_file: Path | None,
    folder: Path,
    node: NodeId,
) -> Callable[[], str | None] | None:
    """Return the source of the bearer or join token; None if there is no token."""
    source = _token_source(token, token_file)
    join_token = join_token_file or os.environ.get("NAVARCH_JOIN_TOKEN")
    if not join_token:
        return source if token or token_file else None
    if isinstance(join_token, Path):
        plain = _read_token(join_token)
    else:
        plain = _plain(join_token, "NAVARCH_JOIN_TOKEN")
    if plain is None:
        raise click.BadParameter("the file is empty", param_hint="--join-token-file")
    try:
        # The machine key is created on first use.
        key = machine_key(folder, SystemEntropy())
    except OSError as error:
        raise click.ClickException(f"{error}; choose another --state-dir") from error
    is_join_token = plain.startswith(PREFIX)
    combined = with_machine_key(plain, key) if is_join_token else host_credential(node, plain, key)
    return lambda: combined


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
            # The file may be half written. The previous token may still be valid.
            log.warning("agent.token_unreadable", error=str(error))
        return last

    return read


def _read_token(file: Path) -> str | None:
    try:
        return _plain(file.read_text(), "--auth-token-file")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="--auth-token-file") from error


def _plain(token: str | None, option: str) -> str | None:
    token = (token or "").strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise click.BadParameter(
            "a token must be printable ASCII without spaces", param_hint=option
        )
    return token or None


def _simulated_count(option: int | None) -> int | None:
    if option is not None or os.environ.get("NAVARCH_FAKE_GPU", "").lower() != "true":
        return option
    count = os.environ.get("NAVARCH_GPU_COUNT", "8")
    if not count.isdecimal() or int(count) > SIMULATED_MAX:
        raise click.UsageError(
            f"NAVARCH_GPU_COUNT is {count!r}; it must be a number from 0 to {SIMULATED_MAX}"
        )
    return int(count)


def _open_gpus(identity: Identity, folder: Path, simulated: int | None) -> EventSources:
    """Return the GPUs and the kernel logs that report their errors; none for simulated GPUs."""
    clock = SystemClock()
    gpus: GpuReader
    logs: list[KernelLog] = []
    if simulated is None:
        gpus = NvmlChild(clock)
        logs = [each for each in (open_kmsg(clock), open_tracepoint(clock)) if each is not None]
    else:
        node, model = identity.node, os.environ.get("NAVARCH_GPU_TYPE") or MODEL
        log.warning("agent.simulated_gpus", node=node, count=simulated)
        gpus = SimulatedGpus(clock, SystemEntropy(), count=simulated, seed=node, model=model)
    return EventSources(
        clock,
        gpus,
        logs,
        bookmark=FileBookmark(folder / "kernel-log" / "bookmark.json"),
        boot_id=identity.boot_id or kernel_boot_id(),
    )


def kernel_boot_id() -> str:
    """Return the id of this boot; empty if the kernel does not report it."""
    try:
        return LinuxHost().boot_id()
    except HostError:
        return ""


def _image(release: Path = Path("/etc/os-release")) -> str:
    """Return IMAGE_ID and IMAGE_VERSION from os-release, or an empty string."""
    try:
        lines = release.read_text("utf-8", "replace").splitlines()
    except OSError:
        return ""
    fields = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
    return " ".join(filter(None, (fields.get("IMAGE_ID"), fields.get("IMAGE_VERSION"))))


def _default_state_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/navarch-agent")
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "navarch-agent"


if __name__ == "__main__":
    agent()
