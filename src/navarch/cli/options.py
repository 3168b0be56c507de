"""Global options, options shared by several commands, and the parsers of their values."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click
from click.shell_completion import CompletionItem

from navarch.cli.output import Output
from navarch.core.duration import parse_duration
from navarch.core.health import Health
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.node import InstanceState, NodeStatus

F = TypeVar("F", bound=Callable[..., object])
W = TypeVar("W", bound=StrEnum)

_META_KEY = "navarch.global_options"


@dataclass(slots=True)
class GlobalOptions:
    """Values of the global options; the last occurrence on the command line wins."""

    server: str | None = None
    token: str | None = field(default=None, repr=False)
    output: Output = Output.TABLE
    timeout: timedelta | None = None
    insecure: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    no_color: bool = False
    debug: bool = False


def global_options(context: click.Context) -> GlobalOptions:
    """Return the global options parsed so far. The root context holds them for all levels."""
    found: GlobalOptions = context.find_root().meta.setdefault(_META_KEY, GlobalOptions())
    return found


SETUP_OPTIONS = (
    click.option(
        "--agent",
        type=click.Choice([start.value for start in AgentStart]),
        help="What starts the agent.  [default: cloud-init at aws, gcp and lambda]",
    ),
    click.option(
        "--setup-command",
        "commands",
        multiple=True,
        metavar="COMMAND",
        help="Command to run on a new machine before its agent starts. Repeatable.",
    ),
    click.option("--ssh-user", help="Run the setup commands over SSH as this user."),
    click.option(
        "--user-data",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help="Script or cloud-config for the first boot, in addition to the agent's.",
    ),
    click.option("--image", help="Image that the machines boot.  [default: the provider's]"),
)


def setup_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a machine's set-up; `command` receives it, or None without any."""

    @wraps(command)
    def with_setup(
        *arguments: object,
        agent: str | None,
        commands: tuple[str, ...],
        ssh_user: str | None,
        user_data: Path | None,
        image: str | None,
        **options: object,
    ) -> None:
        if ssh_user and not commands:
            raise click.UsageError("--ssh-user is for --setup-command, which is missing")
        start = AgentStart(agent) if agent else None
        if ssh_user and start is None:
            start = AgentStart.SSH
        given: dict[str, Any] = {
            "agent": start,
            "commands": commands,
            "user": ssh_user,
            "user_data": _content(user_data) if user_data else None,
            "image": image,
        }
        given = {name: value for name, value in given.items() if value}
        command(*arguments, setup=MachineSetup(**given) if given else None, **options)

    for option in reversed(SETUP_OPTIONS):
        with_setup = option(with_setup)
    return with_setup


def _content(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file}: {error}", param_hint="'--user-data'") from error


_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,3})?", re.ASCII)


def parse_duration_or_seconds(text: str) -> timedelta | None:
    """Return the duration that `text` names (`90s`, `1h30m`, `2w`), or None if it names none.

    On the command line a number without a unit counts seconds.
    """
    span = parse_duration(f"{text}s" if _SECONDS.fullmatch(text) else text)
    return span if span is not None and span >= timedelta(0) else None


def duration(text: str) -> timedelta:
    """Return a duration option's value, or raise BadParameter."""
    parsed = parse_duration_or_seconds(text)
    if parsed is None:
        raise click.BadParameter(f"{text!r} is not a duration such as 90s, 1h30m or 2d")
    return parsed


When = timedelta | datetime
"""A point in time: absolute, or as an age."""


def when(text: str) -> When:
    """Return an age, or a time; a day means midnight UTC."""
    span = parse_duration_or_seconds(text)
    if span is not None:
        return span
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is not None and _DAY.fullmatch(text):
        return moment.replace(tzinfo=UTC)
    if moment is None or moment.tzinfo is None:
        raise click.BadParameter(
            f"{text!r} is neither a duration such as 10m nor a day such as 2026-03-01"
            " nor a time such as 2026-03-01T12:00:00Z"
        )
    return moment


def resolve_when(typed: When, now: datetime) -> datetime:
    """Return the time that `typed` refers to."""
    return now - typed if isinstance(typed, timedelta) else typed


def since_option(text: str, *, default: str | None = None) -> Callable[[F], F]:
    """Add `--since`."""
    return click.option(
        "--since",
        type=when,
        default=default,
        show_default=default is not None,
        metavar="WHEN",
        help=text,
    )


def output_format(text: str) -> Output:
    """Return an --output option's value, or raise BadParameter."""
    try:
        return Output(text.lower())
    except ValueError:
        raise click.BadParameter(
            f"unsupported output format: {text} (valid: {', '.join(Output)})"
        ) from None


def label(text: str) -> tuple[str, str]:
    """Return the key and the value of `key=value`."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not of the form key=value")
    return key, value


def enum_option(name: str, values: type[W], prefix: str, text: str) -> Callable[[F], F]:
    """Add an option for one of `values`, short (`active`) or as in the API (`NODE_STATUS_ACTIVE`).

    `unknown` means no filter, unless it is one of `values`.
    """

    def convert(typed: str) -> W | None:
        short = typed.lower().removeprefix(prefix)
        if short in set(values):
            return values(short)
        if short == "unknown":
            return None
        raise click.BadParameter(f"invalid {name}: {typed} (valid: {', '.join(values)})")

    return click.option(
        f"--{name}",
        type=convert,
        metavar="|".join(values),
        shell_complete=complete_enum(values),
        help=text,
    )


def health_option(text: str) -> Callable[[F], F]:
    """Add `--health`."""
    return enum_option("health", Health, "health_status_", text)


def complete_enum(
    values: type[StrEnum],
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Return a shell completion function for the values of an enum."""

    def complete(_: click.Context, __: click.Parameter, typed: str) -> list[CompletionItem]:
        return [CompletionItem(word) for word in values if word.startswith(typed)]

    return complete


status_option = enum_option("status", NodeStatus, "node_status_", "Only with this status.")
state_option = enum_option("state", InstanceState, "instance_state_", "Only in this state.")
labels_option = click.option(
    "--label",
    "labels",
    type=label,
    multiple=True,
    metavar="KEY=VALUE",
    help="Only with this label; repeatable.",
)
reason_option = click.option("--reason", default="", help="Reason, recorded in the journal.")

SORTS = ("name", "created", "status", "health", "pool")
sort_option = click.option(
    "--sort",
    type=click.Choice([*SORTS, *(f"-{word}" for word in SORTS)]),
    metavar="|".join(SORTS),
    default="name",
    help="Sort by this; a leading minus reverses the order.",
)


def timeout_option(text: str) -> Callable[[F], F]:
    """Add a `--timeout` with its own meaning, in place of the global one."""
    return click.option("--timeout", "within", type=duration, metavar="DURATION", help=text)


def _store(context: click.Context, param: click.Parameter, value: object) -> None:
    if value is not None and value is not False:
        setattr(global_options(context), str(param.name), value)


_shared = partial(click.Option, expose_value=False, callback=_store)

_FILE = click.Path(dir_okay=False, path_type=Path)

# One set for all commands: click compares options by identity.
GLOBAL_OPTIONS = [
    _shared(
        ["-s", "--server"],
        metavar="URL",
        help="URL of the control plane.  [default: NAVARCH_SERVER, or http://localhost:50051]",
    ),
    # Hidden because arguments are visible in the process list.
    _shared(["--token"], hidden=True),
    _shared(
        ["-o", "--output"],
        type=output_format,
        metavar="table|json|yaml",
        shell_complete=complete_enum(Output),
        help="Output format.  [default: table]",
    ),
    _shared(
        ["--timeout"],
        type=duration,
        metavar="DURATION",
        help="Time limit of the command.  [default: 30s, or 20m to wait for machines]",
    ),
    _shared(["--insecure"], is_flag=True, help="Do not verify the server's TLS certificate."),
    _shared(
        ["--ca-file"],
        type=_FILE,
        metavar="FILE",
        help="Authorities that may sign the server's certificate.  [default: NAVARCH_CA_FILE]",
    ),
    _shared(
        ["--cert-file"],
        type=_FILE,
        metavar="FILE",
        help="Your client certificate.  [default: NAVARCH_CERT_FILE]",
    ),
    _shared(
        ["--key-file"],
        type=_FILE,
        metavar="FILE",
        help="The key of your client certificate.  [default: NAVARCH_KEY_FILE]",
    ),
    _shared(["--no-color"], is_flag=True, help="Disable colours, as does NO_COLOR."),
    _shared(["--debug"], is_flag=True, help="Show tracebacks of unexpected errors."),
]


def checked_store(url: str | None) -> str | None:
    """Return the URL of a store, or raise BadParameter if it shows a password."""
    if url is not None and ("password=" in url or urlsplit(url).password):
        raise click.BadParameter(
            "every user of this machine can read the password in a command line. Set NAVARCH_STORE "
            "to the URL, name a file with it (server.store_file), or keep the password in ~/.pgpass"
        )
    return url
