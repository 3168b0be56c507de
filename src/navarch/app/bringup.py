"""How new machines are set up: the agent's environment, user data, and commands over SSH."""

import base64
import json
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.resources import files
from importlib.util import find_spec

from navarch.api.http.agents import BOOT_PATH
from navarch.api.http.app import BUNDLES
from navarch.app.agent_bundle import AgentBundle
from navarch.app.image_python import wrong_python
from navarch.app.servers import Address, StartError
from navarch.config import Config
from navarch.config.config import REACHABLE, calls_server, unreachable
from navarch.config.provider import CLOUDS
from navarch.core.boot_report import KEY
from navarch.core.bringup import fill_in
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.ownership import POOL, with_machine_key
from navarch.core.pool import Pool
from navarch.ports.provider import ProvisionRequest
from navarch.ports.shell import Shells

_AGENT = "/opt/navarch/bin/navarch"
_MACHINE_KEY = "/var/lib/navarch-agent/machine-key"

NO_SSH = "the Python package 'asyncssh' is not installed; run: pip install 'navarch[ssh]'"

_FROM: Mapping[str, str] = {
    "ControlPlane": "NAVARCH_SERVER",
    "Pool": "NAVARCH_POOL",
    "NodeID": "NAVARCH_NODE_ID",
    "Provider": "NAVARCH_PROVIDER",
    "Region": "NAVARCH_REGION",
    "Zone": "NAVARCH_ZONE",
    "InstanceType": "NAVARCH_INSTANCE_TYPE",
    "LaunchToken": "NAVARCH_LAUNCH_TOKEN",
    "JoinToken": "NAVARCH_JOIN_TOKEN",
}
"""The agent's variable for each variable of a setup command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEnvironment:
    """The environment variables from which the agent of a new machine is configured."""

    control_plane: Callable[[PoolName], str] = lambda _: ""
    join_token: Callable[[NodeId, Token], str] = lambda _node, _launch: ""
    lease: Callable[[PoolName], timedelta | None] = lambda _: None
    """How long an idle machine of a pool may go without a control plane before it shuts down."""

    def variables(self, request: ProvisionRequest, provider: str) -> Mapping[str, str]:
        """Return the variables for the machine of one request."""
        pool = PoolName(request.labels.get(POOL, ""))
        lease = self.lease(pool)
        variables = {
            "NAVARCH_SERVER": self.control_plane(pool),
            "NAVARCH_NODE_ID": request.name,
            "NAVARCH_PROVIDER": provider,
            "NAVARCH_REGION": request.region,
            # The provider chooses the zone of a machine that may start in several.
            "NAVARCH_ZONE": "" if request.zones else request.zone,
            "NAVARCH_INSTANCE_TYPE": request.instance_type,
            "NAVARCH_POOL": pool,
            "NAVARCH_LAUNCH_TOKEN": request.token,
            "NAVARCH_JOIN_TOKEN": self.join_token(NodeId(request.name), request.token),
            "NAVARCH_DEAD_MAN_LEASE": "" if lease is None else f"{lease / timedelta(hours=1):g}",
        }
        return {name: value for name, value in variables.items() if value}


def render_user_data(
    environment: Mapping[str, str], install: str, *, commands: Sequence[str] = ()
) -> str:
    """Return cloud-init user data that runs `commands`, installs the agent and starts it.

    Every image with cloud-init runs this script at its first boot, and so do GCP's images
    without. The join token is written to a file that only root can read. Every process on the
    machine can read the user data, so the token is invalid once the machine has joined. If the
    agent cannot be installed, the script prints why and fails. cloud-init writes its output to
    the console and to /var/log/cloud-init-output.log.
    """
    variables = dict(environment)
    join = variables.pop("NAVARCH_JOIN_TOKEN", "")
    variables["NAVARCH_JOIN_TOKEN_FILE"] = "/etc/navarch/join-token"
    lines = "".join(f"{name}={_systemd_quoted(value)}\n" for name, value in variables.items())
    report = _report(environment, join)
    unit = files("navarch.app").joinpath("navarch-agent.service").read_text("utf-8")
    return "\n".join(
        [
            "#!/bin/sh",
            "# Installs and starts the agent. Running it again changes nothing that is right.",
            "set -eu",
            "umask 077",
            "mkdir -p /etc/navarch",
            _write("/etc/navarch/join-token", join + "\n"),
            _write("/etc/navarch/agent.env", lines),
            "umask 022",
            *report,
            "report started",
            *_set_up(commands, {name: environment.get(_FROM[name], "") for name in _FROM}),
            f"if [ ! -x {_AGENT} ]; then",
            "report installing",
            install,
            "report installed",
            "fi",
            _write("/etc/systemd/system/navarch-agent.service", unit),
            "systemctl daemon-reload",
            "systemctl enable --now navarch-agent.service",
            "report agent-started",
            "",
        ]
    )


def install_bundle(bundle: AgentBundle, control_plane: str) -> str:
    """Return the lines that install the agent which the control plane serves."""
    url = f"{control_plane.rstrip('/')}{BUNDLES}{bundle.sha256}"
    return "\n".join(
        [
            f"AGENT_URL={shlex.quote(url)}",
            f"AGENT_SHA256={bundle.sha256}",
            f"AGENT_ABIS={shlex.quote(' '.join(bundle.abis))}",
            files("navarch.app").joinpath("install-agent.sh").read_text("utf-8"),
            "install_agent",
        ]
    )


def install_by_command(command: str) -> str:
    """Return the lines that run an operator's command and check its result.

    The command runs in a separate shell, because `set -e` has no effect on the left side of `||`.
    The message does not repeat it, because it may hold the password of a package index.
    """
    return "\n".join(
        [
            "not_installed() {",
            '  echo "navarch: the agent is not installed: $1" >&2',
            '  report failed 0 0 "the agent is not installed: $1"',
            "  echo 'navarch: correct agent_install_command of the pool' >&2",
            '  exit "$2"',
            "}",
            f"sh -euc {shlex.quote(command)} ||",
            '  not_installed "the install command ended with exit code $?" "$?"',
            f"[ -x {_AGENT} ] || not_installed '{_AGENT} is missing after the install command' 1",
        ]
    )


def _write(path: str, text: str) -> str:
    # Encoded, so that no part of the text can run as a command.
    encoded = base64.b64encode(text.encode()).decode()
    return f"echo {encoded} | base64 -d > {shlex.quote(path)}"


def _systemd_quoted(value: str) -> str:
    """Return a value quoted for an environment file of systemd."""
    plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{plain}"'


def _report(environment: Mapping[str, str], join: str) -> Sequence[str]:
    """Return the lines that define `report`, which reports the steps that follow.

    Without a join token nothing is reported, and neither on a machine whose agent has joined: the
    control plane knows it by its own key from then on.
    """
    server, node = environment.get("NAVARCH_SERVER", ""), environment.get("NAVARCH_NODE_ID", "")
    is_known = join and node and server.startswith(("http://", "https://"))
    url = f"{server.rstrip('/')}{BOOT_PATH}" if is_known else ""
    return [
        f"REPORT_URL={shlex.quote(url)}",
        f"REPORT_NODE={shlex.quote(json.dumps(node))}",
        f"REPORT_TOKEN={shlex.quote(with_machine_key(join, KEY))}",
        "REPORT_TIMEOUT=5",
        "REPORT_RETRIES=1",
        f"[ ! -e {_MACHINE_KEY} ] || REPORT_URL=",
        files("navarch.app").joinpath("report-boot.sh").read_text("utf-8"),
    ]


def _set_up(commands: Sequence[str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines that run an operator's commands, which may contain secrets."""
    for number, command in enumerate(commands, start=1):
        yield f"report command-begun {number}"
        yield f"sh -euc {shlex.quote(fill_in(command, values))} || {{"
        yield "  code=$?"
        yield f'  echo "navarch: setup command {number} ended with exit code $code" >&2'
        yield f'  report command-ended {number} "$code"'
        yield "  exit 1"
        yield "}"
        yield f"report command-ended {number}"


@cache
def can_open_shells() -> bool:
    """Return whether the packages for SSH are installed."""
    return find_spec("asyncssh") is not None


def open_shells() -> Shells:
    """Return shells over SSH, or raise StartError if the packages for SSH are not installed."""
    if not can_open_shells():
        raise StartError(f"setting machines up over SSH is not possible: {NO_SSH}")
    from navarch.ssh.client import SshShells

    return SshShells()


def agent_start(config: Config, pool: Pool, provider: str) -> AgentStart:
    """Return what starts the agent on machines that `pool` buys from `provider`."""
    if pool.user_data.strip():
        return AgentStart.IMAGE
    return pool.setup.agent_at(cloud=isinstance(config.providers.get(provider), CLOUDS))


def missing_agent(config: Config, pool: Pool, abis: Collection[str]) -> str | None:
    """Return why no agent would register from machines bought for `pool`; None if one would.

    `abis` are the Pythons for which the server has compiled code of the agent.
    """
    if pool.user_data.strip():
        return None
    sellers = list(dict.fromkeys(offering.provider for offering in pool.offerings))
    clouds = [x for x in sellers if isinstance(config.providers.get(x), CLOUDS)]
    over_ssh = [x for x in sellers if agent_start(config, pool, x) is AgentStart.SSH]
    if over_ssh and not can_open_shells():
        return f"the setup commands of pool {pool.name} run over SSH, and {NO_SSH}"
    if set(over_ssh) & set(clouds) and not key_file_of(config, pool.setup):
        return (
            f"the setup commands of pool {pool.name} run over SSH, and no private key is known; "
            "set defaults.ssh_private_key_path in the configuration file of the server"
        )
    if clouds and calls_server(pool.setup, cloud=True):
        problem = unreachable(own_address(config, pool.name), clouds)
        if problem is not None:
            return f"pool {pool.name}: {problem}; {REACHABLE}"
    for offering in pool.offerings:
        problem = wrong_python(config, pool.setup, offering, abis)
        if problem is not None:
            return f"pool {pool.name}: {problem}"
    return None


def key_file_of(config: Config, setup: MachineSetup) -> str:
    """Return the private key for the setup commands; empty if there is none."""
    return setup.key_file or config.defaults.ssh_private_key_path or ""


def own_address(config: Config, pool: PoolName) -> str | None:
    """Return the configured URL by which a pool's machines reach the server, or None."""
    found = config.pools.get(pool)
    own = None if found is None else found.control_plane_address
    return own or config.server.external_address


def control_plane_address(config: Config, pool: PoolName, http: Address) -> str:
    """Return the URL by which a pool's machines reach the server."""
    return (
        own_address(config, pool)
        or f"{'https' if config.server.tls else 'http'}://{http.reachable()}"
    )
