"""`navarch doctor`: problems of this machine's set-up, and how to fix them."""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from navarch.cli.commands import Command
from navarch.cli.credentials import Credentials, as_environment, read_credentials
from navarch.cli.environment import CliEnvironment
from navarch.cli.errors import CommandError
from navarch.cli.render.fleet_health import SILENT, render_replicas, render_store
from navarch.cli.session import Session, with_session
from navarch.core.access_token import TOKEN_CHARACTERS_MIN, TOKEN_REMEDY, too_short
from navarch.core.errors import InvalidError, NavarchError
from navarch.ports.api import StoreStatus

if TYPE_CHECKING:
    from navarch.config import Config

EXTRAS: Mapping[str, tuple[str, str]] = {
    "server": ("uvicorn", "navarch serve"),
    "cli": ("rich", "tables in colour"),
    "aws": ("botocore", "type: aws"),
    "gcp": ("google.cloud.compute_v1", "type: gcp"),
    "postgres": ("psycopg", "navarch serve --store postgresql://..."),
    "signing": ("cryptography", "navarch evidence verify"),
    "ssh": ("asyncssh", "type: baremetal and setup_commands"),
}
"""By extra: a module that it installs, and the feature that needs it."""

VARIABLES: Mapping[str, tuple[str, ...]] = {
    "aws": ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_ROLE_ARN"),
    "gcp": ("GOOGLE_APPLICATION_CREDENTIALS",),
    "lambda": ("LAMBDA_API_KEY",),
}
"""By cloud: environment variables, any of which provides credentials."""

PROBLEMS_SHOWN = 5
"""Of an invalid configuration; `config validate` shows all of them, with their lines."""

SKEW_MAX_S = 5.0
"""Clouds refuse requests signed minutes off; logs are hard to correlate seconds off."""


SLOW_STORE = timedelta(milliseconds=250)


class DoctorVerdict(StrEnum):
    """Severity of a finding."""

    FINE = "ok"
    NOTE = "note"
    """Matters only for a feature that may be unused."""
    BAD = "bad"


FINE, NOTE, BAD = DoctorVerdict


@dataclass(frozen=True, slots=True)
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
    if any(finding.verdict is BAD for finding in findings):
        raise click.exceptions.Exit(1)


def run_checks(session: Session, *, check_credentials: bool) -> Iterator[DoctorFinding]:
    """Yield the result of every check."""
    environment = session.environment
    for extra, (module, needed_by) in EXTRAS.items():
        text = f"installed: for {needed_by}"
        if _is_installed(module):
            yield DoctorFinding("install", FINE, f"navarch[{extra}] is {text}")
        else:
            remedy = f"pip install 'navarch[{extra}]'"
            yield DoctorFinding("install", NOTE, f"navarch[{extra}] not {text}", remedy)
    yield from _check_credentials(environment, check=check_credentials)
    yield from _check_token(environment.environ)
    yield from _check_server(session)
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


def _check_config(environment: CliEnvironment, file: str) -> Iterator[DoctorFinding]:
    """Yield a finding for every provider and every pool of a configuration."""
    # Imported late: the schema is large, and only --config needs it.
    from navarch.config import ConfigError, load_config

    try:
        config = load_config(file)
    except ConfigError as error:
        text = f"{file}: {len(error.problems)} errors"
        yield DoctorFinding("config", BAD, text, f"navarch config validate {file}")
        for problem in error.problems[:PROBLEMS_SHOWN]:
            yield DoctorFinding("config", BAD, problem.message, problem.remedy)
        return
    yield from _check_agents(config)
    for provider in config.providers.values():
        yield _check_provider(environment, provider.name, provider.type, provider)
    for pool in config.pools.values():
        if pool.setup_commands and pool.setup.key_file:
            yield _check_key_file(f"pool {pool.name}", pool.setup.key_file)


def _check_provider(
    environment: CliEnvironment, name: str, kind: str, config: object
) -> DoctorFinding:
    about, label = "provider", f"{name} ({kind})"
    extra = "ssh" if kind == "baremetal" else kind
    if extra in EXTRAS and not _is_installed(EXTRAS[extra][0]):
        text = f"{label}: navarch[{extra}] is not installed"
        return DoctorFinding(about, BAD, text, f"pip install 'navarch[{extra}]'")
    if kind == "baremetal":
        return _check_key_file(label, getattr(config, "ssh_private_key_path", None) or "")
    if kind not in VARIABLES:
        return DoctorFinding(about, FINE, f"{label}: no credentials needed")
    fields = ("api_key", "profile", "credentials_file")
    own = next((field for field in fields if getattr(config, field, None)), None)
    variable = next((word for word in VARIABLES[kind] if environment.environ.get(word)), None)
    if own or variable or kind in read_credentials(environment.config_dir).providers:
        source = own or (f"from {variable}" if variable else "stored")
        return DoctorFinding(about, FINE, f"{label}: credentials {source}")
    remedy = f"navarch config set-credentials {kind} --help"
    if kind == "lambda":
        return DoctorFinding(about, BAD, f"{label}: no API key", remedy)
    text = f"{label}: no credentials, except the machine's own identity if it has one"
    return DoctorFinding(about, NOTE, text, remedy)


def _check_key_file(owner: str, path: str) -> DoctorFinding:
    if not path:
        return DoctorFinding("ssh key", FINE, f"{owner}: keys of the SSH agent")
    if os.access(os.path.expanduser(path), os.R_OK):
        return DoctorFinding("ssh key", FINE, f"{owner}: SSH key is readable")
    remedy = "create a key with ssh-keygen -t ed25519, and install its .pub on the machines"
    return DoctorFinding("ssh key", BAD, f"{owner}: cannot read {path}", remedy)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _check_credentials(environment: CliEnvironment, *, check: bool) -> Iterator[DoctorFinding]:
    about = "credentials"
    try:
        stored = read_credentials(environment.config_dir)
    except CommandError as error:
        yield DoctorFinding(about, BAD, str(error))
        return
    kept = stored.providers
    yield from _check_stored(environment, stored)
    for cloud, names in VARIABLES.items():
        remedy = f"navarch config set-credentials {cloud} --help"
        variable = next((name for name in names if environment.environ.get(name)), None)
        if cloud in kept and check:
            try:
                yield DoctorFinding(about, FINE, environment.check(cloud, kept[cloud]))
            except CommandError as error:
                yield DoctorFinding(about, BAD, f"{cloud}: {error}", remedy)
        elif variable or cloud in kept:
            source = f"from {variable}" if variable else "stored"
            yield DoctorFinding(about, FINE, f"{cloud}: {source}")
        else:
            text = f"{cloud}: not stored, and not in the environment"
            yield DoctorFinding(about, NOTE, text, remedy)


def _check_token(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Yield a finding for a token in the environment with which no server starts."""
    token = environ.get("NAVARCH_AUTH_TOKEN", "")
    if 0 < len(token) < TOKEN_CHARACTERS_MIN:
        yield DoctorFinding("token", BAD, f"NAVARCH_AUTH_TOKEN {too_short(token)}", TOKEN_REMEDY)


def _check_stored(environment: CliEnvironment, stored: Credentials) -> Iterator[DoctorFinding]:
    """Yield a finding for stored credentials that `navarch serve` cannot use without a file."""
    if not stored.providers or not _is_installed(EXTRAS["server"][0]):
        return
    # Imported late: the schema is large.
    from navarch.config import default_config

    # `_check_token` reports a token with which no configuration can be read.
    environ = {k: v for k, v in environment.environ.items() if k != "NAVARCH_AUTH_TOKEN"}
    config = default_config({**environ, **as_environment(stored, environ)}, stored.providers)
    for warning in config.warnings:
        remedy = f"{warning.remedy}; store them again" if warning.remedy else ""
        yield DoctorFinding("credentials", BAD, f"{warning.source}: {warning.message}", remedy)
    yield from _check_agents(config)
    for cloud in config.providers:
        if cloud in EXTRAS and not _is_installed(EXTRAS[cloud][0]):
            text = f"{cloud}: stored, but navarch[{cloud}] is not installed"
            yield DoctorFinding("credentials", BAD, text, f"pip install 'navarch[{cloud}]'")


def _check_agents(config: "Config") -> Iterator[DoctorFinding]:
    """Yield what keeps machines of clouds from getting an agent."""
    from navarch.app.image_python import wrong_pythons
    from navarch.config.config import REACHABLE, unreachable_clouds

    problem = unreachable_clouds(config)
    if problem is not None:
        yield DoctorFinding("address", NOTE, problem, REACHABLE)
    try:
        for problem in wrong_pythons(config):
            what, _, remedy = problem.partition("; ")
            yield DoctorFinding("agent", NOTE, what, remedy)
    except InvalidError as error:
        yield DoctorFinding("agent", BAD, str(error))


def _check_server(session: Session) -> Iterator[DoctorFinding]:
    try:
        status = session.call(lambda api: api.status())
    except NavarchError:
        text = f"{session.server} does not respond"
        remedy = "start one with: navarch serve, or pass another with -s"
        yield DoctorFinding("server", NOTE, text, remedy)
        return
    skew_s = abs((session.environment.clock.now() - status.now).total_seconds())
    if skew_s > SKEW_MAX_S:
        text = f"clock differs from {session.server} by {skew_s:.0f} s"
        yield DoctorFinding("clock", BAD, text, "synchronize both clocks: timedatectl set-ntp true")
    else:
        yield DoctorFinding("server", FINE, f"{session.server} responds, clocks agree")
    if status.store is not None:
        yield _check_store(status.store)
        yield from _check_replicas(status.store)


def _check_store(store: StoreStatus) -> DoctorFinding:
    text = render_store(store)
    if store.answers_in > SLOW_STORE:
        remedy = "every decision waits for it; check its disk, its load and the network"
        return DoctorFinding("store", NOTE, f"{text}, which is slow", remedy)
    return DoctorFinding("store", FINE, text)


def _check_replicas(store: StoreStatus) -> Iterator[DoctorFinding]:
    remedy = "it is paused or cut off from the database; restart it, or end it"
    for replica, text in zip(store.replicas, render_replicas(store.replicas), strict=True):
        if replica.silent_for >= SILENT:
            yield DoctorFinding("replica", NOTE, text, remedy)
        else:
            yield DoctorFinding("replica", FINE, text)


def _check_ports() -> Iterator[DoctorFinding]:
    for port in (50051, 50052):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                text = f"{port} is in use, possibly by a control plane"
                remedy = "use another port: navarch serve --address 127.0.0.1:PORT"
                yield DoctorFinding("port", NOTE, text, remedy)
            else:
                yield DoctorFinding("port", FINE, f"{port} is free")


def _check_driver() -> DoctorFinding:
    file = Path("/proc/driver/nvidia/version")
    if not file.exists():
        text = "no NVIDIA driver loaded; only GPU machines need one"
        return DoctorFinding("gpu driver", NOTE, text)
    version = file.read_text(encoding="utf-8", errors="replace")
    return DoctorFinding("gpu driver", FINE, version.splitlines()[0][:60])


def _check_docker(environ: Mapping[str, str]) -> DoctorFinding:
    about = "docker"
    host = environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    path = host.removeprefix("unix://")
    if not host.startswith("unix://"):
        return DoctorFinding(about, NOTE, f"DOCKER_HOST is {host}; not checked")
    if not os.path.exists(path):
        return DoctorFinding(about, NOTE, f"no Docker at {path}: for type: docker")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(2)
        try:
            probe.connect(path)
        except PermissionError:
            remedy = "run: usermod -aG docker $USER, and log in again"
            return DoctorFinding(about, BAD, f"no permission to use {path}", remedy)
        except OSError:
            return DoctorFinding(about, NOTE, f"Docker does not respond at {path}")
    return DoctorFinding(about, FINE, f"Docker responds at {path}")


def _check_ssh() -> DoctorFinding:
    program = shutil.which("ssh")
    if program is None:
        text = "no ssh client: for navarch ssh"
        return DoctorFinding("ssh", NOTE, text, "apt-get install openssh-client")
    version = subprocess.run(
        [program, "-V"], capture_output=True, text=True, check=False, timeout=10
    )
    return DoctorFinding("ssh", FINE, version.stderr.strip().split(",")[0])
