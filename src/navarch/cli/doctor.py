"""`navarch doctor`: problems of this machine's set-up, and how to fix them."""

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
from navarch.cli.environment import CliEnvironment
from navarch.cli.errors import CommandError
from navarch.cli.session import Session, with_session
from navarch.core.errors import NavarchError

EXTRAS: Mapping[str, tuple[str, str]] = {
    "server": ("uvicorn", "navarch serve"),
    "cli": ("rich", "tables in colour"),
    "aws": ("botocore", "type: aws"),
    "gcp": ("google.cloud.compute_v1", "type: gcp"),
    "ssh": ("asyncssh", "type: baremetal and setup_commands"),
}
"""By extra: a module that it installs, and the feature that needs it."""

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "aws": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN"),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "lambda": ("LAMBDA_API_KEY",),
}
"""By cloud: environment variables, any of which provides credentials."""

SKEW_MAX_S = 5.0
"""Clouds refuse requests signed minutes off; logs are hard to correlate seconds off."""


class DoctorVerdict(StrEnum):
    """Severity of a finding."""

    FINE = "ok"
    NOTE = "note"
    """Matters only for a feature that may be unused."""
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorFinding:
    """The result of one check."""

    about: str
    verdict: DoctorVerdict
    text: str
    remedy: str = ""


@click.command("doctor", cls=Command)
@click.option(
    "--check-credentials", is_flag=True, help="Check stored credentials with read-only calls."
)
@click.option(
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    help="Also check the providers and pools of this configuration.",
)
@with_session
def doctor(session: Session, check_credentials: bool, file: str | None) -> None:
    """Check this machine: extras, credentials, clock, ports, driver, Docker, SSH.

    Nothing is changed. The exit code is 1 if something is broken; missing parts are only noted.
    """
    findings = list(run_checks(session, check_credentials=check_credentials))
    if file is not None:
        findings += _check_config(session.environment, file)
    session.show(findings, lambda _: render_findings(findings))
    if any(finding.verdict is DoctorVerdict.BAD for finding in findings):
        raise click.exceptions.Exit(1)


def run_checks(session: Session, *, check_credentials: bool) -> Iterator[DoctorFinding]:
    """Yield the result of every check."""
    environment = session.environment
    yield from _check_extras()
    yield from _check_all_credentials(environment, check=check_credentials)
    yield _check_server(session)
    yield from _check_ports()
    yield _check_driver()
    yield _check_docker(environment.environ)
    yield _check_ssh()


def render_findings(findings: list[DoctorFinding]) -> str:
    """Return the findings as text."""
    lines = []
    for each in findings:
        lines.append(f"{each.verdict:<5} {each.about:<12} {each.text}")
        if each.remedy:
            lines.append(f"{'':<19}{each.remedy}")
    return "\n".join(lines)


def _check_extras() -> Iterator[DoctorFinding]:
    for extra, (module, needed_by) in EXTRAS.items():
        there = _is_installed(module)
        yield DoctorFinding(
            about="install",
            verdict=DoctorVerdict.FINE if there else DoctorVerdict.NOTE,
            text=f"navarch[{extra}] {'is' if there else 'not'} installed: for {needed_by}",
            remedy="" if there else f"pip install 'navarch[{extra}]'",
        )


def _check_config(environment: CliEnvironment, file: str) -> Iterator[DoctorFinding]:
    """Yield a finding for every provider and every pool of a configuration."""
    # Imported late: the schema is large, and only --config needs it.
    from navarch.config import ConfigError, load_config

    try:
        config = load_config(file)
    except ConfigError as error:
        text = f"{file}: {len(error.problems)} errors"
        remedy = f"navarch config validate {file}"
        yield DoctorFinding(about="config", verdict=DoctorVerdict.BAD, text=text, remedy=remedy)
        return
    for provider in config.providers.values():
        yield _check_provider(environment, provider.name, provider.type, provider)
    for pool in config.pools.values():
        if pool.setup is not None:
            yield _check_key_file(f"pool {pool.name}", pool.setup.key_file)


def _check_provider(
    environment: CliEnvironment, name: str, kind: str, config: object
) -> DoctorFinding:
    about, label = "provider", f"{name} ({kind})"
    extra = "ssh" if kind == "baremetal" else kind
    if extra in EXTRAS and not _is_installed(EXTRAS[extra][0]):
        remedy = f"pip install 'navarch[{extra}]'"
        text = f"{label}: navarch[{extra}] is not installed"
        return DoctorFinding(about=about, verdict=DoctorVerdict.BAD, text=text, remedy=remedy)
    if kind == "baremetal":
        return _check_key_file(label, getattr(config, "ssh_private_key_path", None) or "")
    if kind not in VARIABLES:
        return DoctorFinding(
            about=about, verdict=DoctorVerdict.FINE, text=f"{label}: no credentials needed"
        )
    fields = ("api_key", "profile", "credentials_file")
    own = next((field for field in fields if getattr(config, field, None)), None)
    variable = next((word for word in VARIABLES[kind] if environment.environ.get(word)), None)
    if own or variable or kind in read_credentials(environment.config_dir).providers:
        source = own or (f"from {variable}" if variable else "stored")
        return DoctorFinding(
            about=about, verdict=DoctorVerdict.FINE, text=f"{label}: credentials {source}"
        )
    remedy = f"navarch config set-credentials {kind} --help"
    if kind == "lambda":
        text = f"{label}: no API key"
        return DoctorFinding(about=about, verdict=DoctorVerdict.BAD, text=text, remedy=remedy)
    text = f"{label}: no credentials, except the machine's own identity if it has one"
    return DoctorFinding(about=about, verdict=DoctorVerdict.NOTE, text=text, remedy=remedy)


def _check_key_file(owner: str, path: str) -> DoctorFinding:
    found = os.path.expanduser(path)
    if not path or os.access(found, os.R_OK):
        text = f"{owner}: SSH key is readable" if path else f"{owner}: keys of the SSH agent"
        return DoctorFinding(about="ssh key", verdict=DoctorVerdict.FINE, text=text)
    text = f"{owner}: cannot read {path}"
    remedy = "create a key with ssh-keygen -t ed25519, and install its .pub on the machines"
    return DoctorFinding(about="ssh key", verdict=DoctorVerdict.BAD, text=text, remedy=remedy)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _check_all_credentials(environment: CliEnvironment, *, check: bool) -> Iterator[DoctorFinding]:
    try:
        kept = read_credentials(environment.config_dir).providers
    except CommandError as error:
        yield DoctorFinding(about="credentials", verdict=DoctorVerdict.BAD, text=str(error))
        return
    for cloud, names in VARIABLES.items():
        variable = next((name for name in names if environment.environ.get(name)), None)
        if cloud in kept and check:
            yield _check_credentials(environment.check, cloud, kept[cloud])
        elif variable or cloud in kept:
            source = f"from {variable}" if variable else "stored"
            yield DoctorFinding(
                about="credentials", verdict=DoctorVerdict.FINE, text=f"{cloud}: {source}"
            )
        else:
            yield DoctorFinding(
                about="credentials",
                verdict=DoctorVerdict.NOTE,
                text=f"{cloud}: not stored, and not in the environment",
                remedy=f"navarch config set-credentials {cloud} --help",
            )


def _check_credentials(
    check: Callable[[str, Mapping[str, str]], str], cloud: str, fields: Mapping[str, str]
) -> DoctorFinding:
    try:
        account = check(cloud, fields)
    except CommandError as error:
        return DoctorFinding(
            about="credentials",
            verdict=DoctorVerdict.BAD,
            text=f"{cloud}: {error}",
            remedy=f"navarch config set-credentials {cloud} --help",
        )
    return DoctorFinding(about="credentials", verdict=DoctorVerdict.FINE, text=account)


def _check_server(session: Session) -> DoctorFinding:
    try:
        status = session.call(lambda api: api.status())
    except NavarchError:
        return DoctorFinding(
            about="server",
            verdict=DoctorVerdict.NOTE,
            text=f"{session.server} does not respond",
            remedy="start one with: navarch serve, or pass another with -s",
        )
    skew = _seconds(session.environment.clock.now(), status.now)
    if skew > SKEW_MAX_S:
        return DoctorFinding(
            about="clock",
            verdict=DoctorVerdict.BAD,
            text=f"clock differs from {session.server} by {skew:.0f} s",
            remedy="synchronize both clocks: timedatectl set-ntp true",
        )
    return DoctorFinding(
        about="server", verdict=DoctorVerdict.FINE, text=f"{session.server} responds, clocks agree"
    )


def _seconds(one: datetime, other: datetime) -> float:
    return abs((one - other).total_seconds())


def _check_ports() -> Iterator[DoctorFinding]:
    for port in (50051, 50052):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                yield DoctorFinding(
                    about="port",
                    verdict=DoctorVerdict.NOTE,
                    text=f"{port} is in use, possibly by a control plane",
                    remedy="use another port: navarch serve --address 127.0.0.1:PORT",
                )
            else:
                yield DoctorFinding(
                    about="port", verdict=DoctorVerdict.FINE, text=f"{port} is free"
                )


def _check_driver() -> DoctorFinding:
    if not Path("/proc/driver/nvidia/version").exists():
        return DoctorFinding(
            about="gpu driver",
            verdict=DoctorVerdict.NOTE,
            text="no NVIDIA driver loaded; only GPU machines need one",
        )
    version = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    return DoctorFinding(
        about="gpu driver", verdict=DoctorVerdict.FINE, text=version.splitlines()[0][:60]
    )


def _check_docker(environ: Mapping[str, str]) -> DoctorFinding:
    host = environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    path = host.removeprefix("unix://")
    if not host.startswith("unix://"):
        return DoctorFinding(
            about="docker", verdict=DoctorVerdict.NOTE, text=f"DOCKER_HOST is {host}; not checked"
        )
    if not os.path.exists(path):
        return DoctorFinding(
            about="docker",
            verdict=DoctorVerdict.NOTE,
            text=f"no Docker at {path}: for type: docker",
        )
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except PermissionError:
            return DoctorFinding(
                about="docker",
                verdict=DoctorVerdict.BAD,
                text=f"no permission to use {path}",
                remedy="run: usermod -aG docker $USER, and log in again",
            )
        except OSError:
            return DoctorFinding(
                about="docker",
                verdict=DoctorVerdict.NOTE,
                text=f"Docker does not respond at {path}",
            )
    return DoctorFinding(
        about="docker", verdict=DoctorVerdict.FINE, text=f"Docker responds at {path}"
    )


def _check_ssh() -> DoctorFinding:
    program = shutil.which("ssh")
    if program is None:
        return DoctorFinding(
            about="ssh",
            verdict=DoctorVerdict.NOTE,
            text="no ssh client: for navarch ssh",
            remedy="apt-get install openssh-client",
        )
    version = subprocess.run(
        [program, "-V"], capture_output=True, text=True, check=False, timeout=10
    )
    return DoctorFinding(
        about="ssh", verdict=DoctorVerdict.FINE, text=version.stderr.strip().split(",")[0]
    )
