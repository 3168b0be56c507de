"""How new machines are set up: the agent's environment, user data, and commands over SSH."""

import base64
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from importlib.util import find_spec

from navarch.api.http.app import BUNDLES
from navarch.app.agent_bundle import AgentBundle
from navarch.app.servers import Address, StartError
from navarch.config import Config
from navarch.config.provider import CLOUDS
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.ownership import POOL
from navarch.core.pool import Pool
from navarch.ports.provider import ProvisionRequest
from navarch.ports.shell import Shells

_AGENT = "/opt/navarch/bin/navarch"


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


def render_user_data(environment: Mapping[str, str], install: str) -> str:
    """Return cloud-init user data that installs the agent with `install` and starts it.

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
            f"if [ ! -x {_AGENT} ]; then",
            install,
            "fi",
            _write("/etc/systemd/system/navarch-agent.service", unit),
            "systemctl daemon-reload",
            "systemctl enable --now navarch-agent.service",
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


def can_open_shells() -> bool:
    """Return whether the packages for SSH are installed."""
    return find_spec("asyncssh") is not None


def open_shells() -> Shells:
    """Return shells over SSH, or raise StartError if the packages for SSH are not installed."""
    if not can_open_shells():
        raise StartError(
            "setting machines up over SSH needs the Python package 'asyncssh', which is not "
            "installed; run: pip install 'navarch[ssh]'"
        )
    from navarch.ssh.client import SshShells

    return SshShells()


def missing_agent(config: Config, pool: Pool) -> str | None:
    """Return why no agent would start on machines bought for `pool`; None if one would.

    A pool of the configuration may use the providers that it names even without cloud_init and
    setup_commands, because its image may start the agent. On other clouds only user data can.
    """
    if pool.user_data.strip():
        return None
    configured = config.pools.get(pool.name)
    if configured is not None and (configured.cloud_init or configured.setup_commands):
        return None
    expected = set() if configured is None else {source.name for source in configured.sources}
    bare = {
        offering.provider
        for offering in pool.offerings
        if isinstance(config.providers.get(offering.provider), CLOUDS)
    }
    if bare <= expected:
        return None
    return (
        f"nothing starts the agent on machines that pool {pool.name} buys from "
        f"{' and '.join(sorted(bare - expected))}, so they would cost money and never register; "
        f"add pool {pool.name} to the configuration file of the server with cloud_init: true or "
        f"setup_commands, or send user_data that starts the agent with PUT /v1/pools/{pool.name}"
    )


def control_plane_address(config: Config, pool: PoolName, http: Address) -> str:
    """Return the URL by which a pool's machines reach the server."""
    found = config.pools.get(pool)
    own = None if found is None else found.control_plane_address
    return own or config.server.external_address or f"http://{http.reachable()}"
