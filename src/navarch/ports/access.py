"""The API for logins: how operators reach the machines of nodes."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from navarch.core.ids import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLogin:
    """How to open a shell on the machine of a node, as far as the configuration says."""

    simulated: bool = False
    """Whether there is no machine, and so no shell."""
    user: str = ""
    """Empty if unknown."""
    port: int = 22
    key_file: str = ""
    """The path of the private key on the server's machine; empty if unknown."""
    private_address: bool = False
    """Whether to log in at the private address."""


@runtime_checkable
class AccessApi(Protocol):
    """The API for logins, served in-process and over HTTP.

    Raises NotFoundError for an unknown name.
    """

    async def get_login(self, node: NodeId) -> NodeLogin:
        """Return how to open a shell on the machine of `node`."""
