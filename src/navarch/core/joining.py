"""Join tokens: credentials with which a new machine registers as the node it was bought for.

A token names one node and one launch and is signed, so it is verified without stored state. A
machine adds a secret key of its own. The first machine binds the node to its key; a later machine
with the same token and another key is refused.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from navarch.core.ids import NodeId, Token
from navarch.core.ownership import Cluster

PREFIX = "nvj1."


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """The node and launch that a join token proves."""

    node: NodeId
    launch: Token
    machine: str
    """The hash of the machine's own key; empty if it sent none."""


def join_token(cluster: Cluster, node: NodeId, launch: Token) -> str:
    """Return the token for the machine of one launch."""
    return f"{PREFIX}{_plain(node)}.{_plain(launch)}.{_sign(cluster, node, launch)}"


def with_machine_key(token: str, key: str) -> str:
    """Return the credential of a machine: its token and its own key."""
    return f"{token}.{key}"


def read_join_token(cluster: Cluster, shown: str) -> Joiner | None:
    """Return what the token proves, or None if this cluster did not issue it."""
    parts = shown.removeprefix(PREFIX).split(".")
    if not shown.startswith(PREFIX) or len(parts) not in (3, 4):
        return None
    try:
        node, launch = NodeId(_read(parts[0])), Token(_read(parts[1]))
    except ValueError:
        return None
    if not hmac.compare_digest(parts[2].encode(), _sign(cluster, node, launch).encode()):
        return None
    key = parts[3] if len(parts) == 4 else ""
    return Joiner(node=node, launch=launch, machine=machine_of(key) if key else "")


def machine_of(key: str) -> str:
    """Return the stored form of a machine's key, from which the key cannot be derived."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _sign(cluster: Cluster, node: NodeId, launch: Token) -> str:
    message = "\0".join(("join", cluster.id, node, launch))
    return hmac.new(cluster.secret, message.encode(), hashlib.sha256).hexdigest()[:48]


def _plain(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
