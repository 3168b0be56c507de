"""Bring-up: commands that run on a new machine over SSH before its agent registers.

The commands are templates, compatible with the Go system: `{{.NodeID}}` becomes the node's name.
Every value is quoted for the shell, so that no name can become a command.
"""

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId, PoolName, Token

VARIABLES = (
    *("ControlPlane", "Pool", "NodeID", "Provider", "Region", "Zone", "InstanceType"),
    *("LaunchToken", "JoinToken"),
)
"""The variables of a command: those of the Go system, and three more."""

OUTPUT_BYTES_MAX = 64 * 1024
"""The end of each stream of each command is kept, because failures are reported there."""

LOGS_MAX = 50
"""The number of logs kept per node, the latest."""

_VARIABLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = re.compile(r"\s*-?\s*\.(\w+)\s*-?\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLog:
    """One command, as configured: its variables are not filled in."""

    command: str
    exit_code: int | None = None
    """None if the connection was lost before it ended; -1 if it timed out and was killed."""
    stdout: str = ""
    stderr: str = ""
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class BringUpLog:
    """One attempt to set a machine up."""

    id: str
    node: NodeId
    pool: PoolName
    launch: Token
    attempt: int
    address: str
    started_at: datetime
    ended_at: datetime | None = None
    """None while it runs, and if the control plane stopped before it ended."""
    waited_s: float = 0.0
    """How long SSH took to answer."""
    host_key: str = ""
    """The machine's host key. The next attempt must find the same key."""
    succeeded: bool = False
    error: str = ""
    commands: tuple[CommandLog, ...] = ()


def check_template(template: str) -> None:
    """Raise InvalidError if `template` names an unknown variable."""
    for word in _VARIABLE.findall(template):
        name = _NAME.fullmatch(word)
        if name is None or name[1] not in VARIABLES:
            known = ", ".join(f"{{{{.{each}}}}}" for each in VARIABLES)
            raise InvalidError(f"{{{{{word}}}}} is no variable; there are {known}")


def fill_in(template: str, values: Mapping[str, str]) -> str:
    """Return the command with every variable replaced by its value, quoted for the shell."""
    check_template(template)

    def word(match: re.Match[str]) -> str:
        name = _NAME.fullmatch(match[1])
        assert name is not None, template
        return shlex.quote(values.get(name[1], ""))

    return _VARIABLE.sub(word, template)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every secret replaced."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "[secret]")
    return text
