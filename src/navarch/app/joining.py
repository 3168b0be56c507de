"""What a new machine is told so that its agent finds its way: as variables, or as user data."""

import base64
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files

from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.ownership import POOL
from navarch.core.version import VERSION
from navarch.ports.provider import ProvisionRequest

INSTALL = f"python3 -m venv /opt/navarch && /opt/navarch/bin/pip install --quiet navarch=={VERSION}"
"""How the agent gets onto a machine, where the pool does not say: the base install, no more.

The agent has the version of this server, not the newest one on the day of the boot.
"""

_AGENT = "/opt/navarch/bin/navarch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """Shows new machines the way."""

    control_plane: Callable[[PoolName], str] = lambda _: ""
    join_token: Callable[[NodeId, Token], str] = lambda _node, _launch: ""
    lease: Callable[[PoolName], timedelta | None] = lambda _: None
    """How long a pool's idle machines may be without us before they end themselves."""

    def environment(self, request: ProvisionRequest, provider: str) -> Mapping[str, str]:
        """Return the variables that an agent reads, for the machine of one request."""
        pool = PoolName(request.labels.get(POOL, ""))
        told = {
            "NAVARCH_SERVER": self.control_plane(pool),
            "NAVARCH_NODE_ID": request.name,
            "NAVARCH_PROVIDER": provider,
            "NAVARCH_REGION": request.region,
            "NAVARCH_ZONE": request.zone,
            "NAVARCH_INSTANCE_TYPE": request.instance_type,
            "NAVARCH_POOL": pool,
            "NAVARCH_LAUNCH_TOKEN": request.token,
            "NAVARCH_JOIN_TOKEN": self.join_token(NodeId(request.name), request.token),
            "NAVARCH_DEAD_MAN_LEASE": _hours(self.lease(pool)),
        }
        return {name: value for name, value in told.items() if value}


def _hours(lease: timedelta | None) -> str:
    return "" if lease is None else f"{lease / timedelta(hours=1):g}"


def render_user_data(environment: Mapping[str, str], *, install: str = INSTALL) -> str:
    """Return cloud-init user data that installs the agent and starts it.

    It is a script, which every image with cloud-init runs at its first boot, and GCP's images
    without. The join token is written to a file that only root can read; it is of no use once
    the machine has joined, which is as well: whoever is on the machine can read its user data.
    Where the agent cannot be installed, the script says so and ends with an error. cloud-init
    writes both to the console and to /var/log/cloud-init-output.log.
    """
    told = dict(environment)
    join = told.pop("NAVARCH_JOIN_TOKEN", "")
    told["NAVARCH_JOIN_TOKEN_FILE"] = "/etc/navarch/join-token"
    lines = "".join(f"{name}={_systemd_quoted(value)}\n" for name, value in told.items())
    unit = files("navarch.app").joinpath("navarch-agent.service").read_text("utf-8")
    return "\n".join(
        [
            "#!/bin/sh",
            "# Installs and starts the agent. Run again, it changes nothing that is right.",
            "set -eu",
            "umask 077",
            "mkdir -p /etc/navarch",
            _write("/etc/navarch/join-token", join + "\n"),
            _write("/etc/navarch/agent.env", lines),
            "umask 022",
            *_install(install),
            _write("/etc/systemd/system/navarch-agent.service", unit),
            "systemctl daemon-reload",
            "systemctl enable --now navarch-agent.service",
            "",
        ]
    )


def _install(command: str) -> list[str]:
    """Return the lines that run `command`, unless the agent is there, and check what it did.

    The command runs in a shell of its own: `set -e` has no effect on the left side of `||`. It is
    not repeated in the message, since it may hold the password of a package index.
    """
    return [
        "not_installed() {",
        '  echo "navarch: the agent is not installed: $1" >&2',
        "  echo 'navarch: the default command needs python3 with venv (package python3-venv) and "
        f"a package index that has navarch=={VERSION}' >&2",
        "  echo 'navarch: for another index or another way, set agent_install_command of the pool "
        "in the configuration file of the server' >&2",
        '  exit "$2"',
        "}",
        f"if [ ! -x {_AGENT} ]; then",
        f"  sh -euc {shlex.quote(command)} || "
        'not_installed "the install command ended with exit code $?" "$?"',
        f"  [ -x {_AGENT} ] || not_installed '{_AGENT} is missing after the install command' 1",
        "fi",
    ]


def _write(path: str, text: str) -> str:
    # Encoded, so that nothing in it can be taken for a command.
    held = base64.b64encode(text.encode()).decode()
    return f"echo {held} | base64 -d > {shlex.quote(path)}"


def _systemd_quoted(value: str) -> str:
    """Return a value as an environment file of systemd wants it."""
    plain = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'"{plain}"'
