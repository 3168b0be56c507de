"""Join tokens: what a new machine shows to be let in as the node it was bought for.

A token names one node and one launch and is signed, so nothing has to be stored to know it
again. A machine adds a key that only it knows; the first to come binds the node to its key, and
whoever comes later with the same token and another key is somebody else.
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
    """Who a join token says is there."""

    node: NodeId
    launch: Token
    machine: str
    """The hash of the machine's own key; empty where it showed none."""


def join_token(cluster: Cluster, node: NodeId, launch: Token) -> str:
    """Return the token for the machine of one launch."""
    return f"{PREFIX}{_plain(node)}.{_plain(launch)}.{_sign(cluster, node, launch)}"


def with_machine_key(token: str, key: str) -> str:
    """Return what a machine shows: its token, and its own key."""
    return f"{token}.{key}"


def read_join_token(cluster: Cluster, shown: str) -> Joiner | None:
    """Return who is there, or None if nobody of ours gave out that token."""
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
    """Return the name under which a machine's key is remembered, which does not give it away."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def _sign(cluster: Cluster, node: NodeId, launch: Token) -> str:
    message = "\0".join(("join", cluster.id, node, launch))
    return hmac.new(cluster.secret, message.encode(), hashlib.sha256).hexdigest()[:48]


def _plain(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
