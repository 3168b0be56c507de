"""`navarch doctor`: what is missing on this machine, and what would help."""

import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

import click

from navarch.cli.commands import Command
from navarch.cli.credentials import read_credentials
from navarch.cli.failures import CommandError
from navarch.cli.session import Session, with_session
from navarch.cli.surroundings import Surroundings
from navarch.core.errors import NavarchError

EXTRAS: Mapping[str, tuple[str, str]] = {
    "server": ("uvicorn", "navarch serve"),
    "cli": ("rich", "tables in colour"),
    "aws": ("botocore", "type: aws"),
    "gcp": ("google.cloud.compute_v1", "type: gcp"),
    "ssh": ("asyncssh", "type: baremetal and setup_commands"),
}
"""By the name of the optional install: a module of it, and what needs it."""

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "aws": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN"),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "lambda": ("LAMBDA_API_KEY",),
}
"""By cloud: the variables of which one is enough."""

SKEW_MAX_S = 5.0
"""Signatures of requests to clouds are refused from minutes on; logs confuse from seconds on."""


class Verdict(StrEnum):
    """How bad it is."""

    FINE = "ok"
    NOTE = "note"
    """Only matters to those who need it."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    about: str
    verdict: Verdict
    text: str
    remedy: str = ""


@click.command("doctor", cls=Command)
@click.option("--check-credentials", is_flag=True, help="Try kept credentials with harmless calls.")
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="Also say what the providers and pools of this configuration lack.",
)
@with_session
def doctor(session: Session, check_credentials: bool, file: str | None) -> None:
    """Say what is missing here: installs, credentials, clock, ports, driver, Docker, SSH.

    Nothing is changed. It ends with 1 if something is broken; what is merely not there is noted.
    """
    findings = list(examine(session, check_credentials=check_credentials))
    if file is not None:
        findings += _configured(session.surroundings, file)
    session.show(findings, lambda _: render_findings(findings))
    if any(finding.verdict is Verdict.BAD for finding in findings):
        raise click.exceptions.Exit(1)


def examine(session: Session, *, check_credentials: bool) -> Iterator[Finding]:
    """Yield everything that was looked at."""
    surroundings = session.surroundings
    yield from _extras()
    yield from _credentials(surroundings, check=check_credentials)
    yield _server(session)
    yield from _ports()
    yield _driver()
    yield _docker(surroundings.environ)
    yield _ssh()


def render_findings(findings: list[Finding]) -> str:
    """Return them as a person reads them, within eighty columns as far as words allow."""
    lines = []
    for each in findings:
        lines.append(f"{each.verdict:<5} {each.about:<12} {each.text}")
        if each.remedy:
            lines.append(f"{'':<19}{each.remedy}")
    return "\n".join(lines)


def _extras() -> Iterator[Finding]:
    for extra, (module, needed_by) in EXTRAS.items():
        there = _is_here(module)
        yield Finding(
            about="install",
            verdict=Verdict.FINE if there else Verdict.NOTE,
            text=f"navarch[{extra}] is {'here' if there else 'not here'}: for {needed_by}",
            remedy="" if there else f"pip install 'navarch[{extra}]'",
        )


def _configured(surroundings: Surroundings, file: str) -> Iterator[Finding]:
    """Yield what stands between a configuration and machines."""
    # Loaded late: the schema is large, and most ask without a file.
    from navarch.config import ConfigError, load_config

    try:
        config = load_config(file)
    except ConfigError as error:
        text = f"{file}: {len(error.problems)} mistakes"
        remedy = f"navarch config validate {file}"
        yield Finding(about="config", verdict=Verdict.BAD, text=text, remedy=remedy)
        return
    for provider in config.providers.values():
        yield _provider(surroundings, provider.name, provider.type, provider)
    for pool in config.pools.values():
        if pool.setup is not None:
            yield _key_file(f"pool {pool.name}", pool.setup.key_file)


def _provider(surroundings: Surroundings, name: str, kind: str, config: object) -> Finding:
    about, label = "provider", f"{name} ({kind})"
    extra = "ssh" if kind == "baremetal" else kind
    if extra in EXTRAS and not _is_here(EXTRAS[extra][0]):
        remedy = f"pip install 'navarch[{extra}]'"
        text = f"{label}: navarch[{extra}] is not here"
        return Finding(about=about, verdict=Verdict.BAD, text=text, remedy=remedy)
    if kind == "baremetal":
        return _key_file(label, getattr(config, "ssh_private_key_path", None) or "")
    if kind not in VARIABLES:
        return Finding(about=about, verdict=Verdict.FINE, text=f"{label} needs nothing more")
    fields = ("api_key", "profile", "credentials_file")
    own = next((field for field in fields if getattr(config, field, None)), None)
    told = next((word for word in VARIABLES[kind] if surroundings.environ.get(word)), None)
    if own or told or kind in read_credentials(surroundings.config_dir).providers:
        source = own or (f"from {told}" if told else "kept")
        return Finding(about=about, verdict=Verdict.FINE, text=f"{label}: credentials {source}")
    remedy = f"navarch config set-credentials {kind} --help"
    if kind == "lambda":
        text = f"{label}: there is no API key"
        return Finding(about=about, verdict=Verdict.BAD, text=text, remedy=remedy)
    text = f"{label}: no credentials but those of the machine itself, if it has any"
    return Finding(about=about, verdict=Verdict.NOTE, text=text, remedy=remedy)


def _key_file(whose: str, path: str) -> Finding:
    found = os.path.expanduser(path)
    if not path or os.access(found, os.R_OK):
        text = f"{whose}: its SSH key can be read" if path else f"{whose}: SSH keys of the agent"
        return Finding(about="ssh key", verdict=Verdict.FINE, text=text)
    text = f"{whose}: {path} cannot be read"
    remedy = "ssh-keygen -t ed25519 makes a key; its .pub goes onto the machines"
    return Finding(about="ssh key", verdict=Verdict.BAD, text=text, remedy=remedy)


def _is_here(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _credentials(surroundings: Surroundings, *, check: bool) -> Iterator[Finding]:
    try:
        kept = read_credentials(surroundings.config_dir).providers
    except CommandError as error:
        yield Finding(about="credentials", verdict=Verdict.BAD, text=str(error))
        return
    for cloud, names in VARIABLES.items():
        told = next((name for name in names if surroundings.environ.get(name)), None)
        if cloud in kept and check:
            yield _tried(surroundings.check, cloud, kept[cloud])
        elif told or cloud in kept:
            source = f"from {told}" if told else "kept"
            yield Finding(about="credentials", verdict=Verdict.FINE, text=f"{cloud}: {source}")
        else:
            yield Finding(
                about="credentials",
                verdict=Verdict.NOTE,
                text=f"{cloud}: none kept and none in the environment",
                remedy=f"navarch config set-credentials {cloud} --help",
            )


def _tried(
    check: Callable[[str, Mapping[str, str]], str], cloud: str, words: Mapping[str, str]
) -> Finding:
    try:
        answer = check(cloud, words)
    except CommandError as error:
        return Finding(
            about="credentials",
            verdict=Verdict.BAD,
            text=f"{cloud}: {error}",
            remedy=f"navarch config set-credentials {cloud} --help",
        )
    return Finding(about="credentials", verdict=Verdict.FINE, text=answer)


def _server(session: Session) -> Finding:
    try:
        status = session.ask(lambda api: api.status())
    except NavarchError:
        return Finding(
            about="server",
            verdict=Verdict.NOTE,
            text=f"{session.server} does not answer you",
            remedy="start one with: navarch serve; or name another with -s",
        )
    skew = _seconds(session.surroundings.clock.now(), status.now)
    if skew > SKEW_MAX_S:
        return Finding(
            about="clock",
            verdict=Verdict.BAD,
            text=f"this clock and that of {session.server} are {skew:.0f} s apart",
            remedy="have both follow a time server: timedatectl set-ntp true",
        )
    return Finding(
        about="server", verdict=Verdict.FINE, text=f"{session.server} answers, clocks agree"
    )


def _seconds(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())


def _ports() -> Iterator[Finding]:
    for port in (50051, 50052):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                yield Finding(
                    about="port",
                    verdict=Verdict.NOTE,
                    text=f"{port} is taken: by a control plane, perhaps",
                    remedy="navarch serve --address 127.0.0.1:PORT takes another",
                )
            else:
                yield Finding(about="port", verdict=Verdict.FINE, text=f"{port} is free")


def _driver() -> Finding:
    if not Path("/proc/driver/nvidia/version").exists():
        return Finding(
            about="gpu driver",
            verdict=Verdict.NOTE,
            text="no NVIDIA driver is loaded; only GPU machines need one",
        )
    version = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    return Finding(about="gpu driver", verdict=Verdict.FINE, text=version.splitlines()[0][:60])


def _docker(environ: Mapping[str, str]) -> Finding:
    host = environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    path = host.removeprefix("unix://")
    if not host.startswith("unix://"):
        return Finding(about="docker", verdict=Verdict.NOTE, text=f"the engine is at {host}")
    if not os.path.exists(path):
        return Finding(
            about="docker", verdict=Verdict.NOTE, text=f"no engine at {path}: for type: docker"
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except PermissionError:
            return Finding(
                about="docker",
                verdict=Verdict.BAD,
                text=f"{path} may not be used by you",
                remedy="join its group: usermod -aG docker $USER, and log in again",
            )
        except OSError:
            return Finding(about="docker", verdict=Verdict.NOTE, text=f"nobody answers at {path}")
    return Finding(about="docker", verdict=Verdict.FINE, text=f"an engine answers at {path}")


def _ssh() -> Finding:
    program = shutil.which("ssh")
    if program is None:
        return Finding(
            about="ssh",
            verdict=Verdict.NOTE,
            text="no ssh program here: for navarch ssh",
            remedy="apt-get install openssh-client",
        )
    said = subprocess.run([program, "-V"], capture_output=True, text=True, check=False, timeout=10)
    return Finding(about="ssh", verdict=Verdict.FINE, text=said.stderr.strip().split(",")[0])
