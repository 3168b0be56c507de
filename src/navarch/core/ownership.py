"""Proofs signed with the cluster's secret: labels of our machines, and their join tokens."""

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from navarch.core.ids import NodeId, PoolName, Token

CLUSTER = "navarch-cluster"
NODE = "navarch-node"
POOL = "navarch-pool"
TOKEN = "navarch-token"
SIGNATURE = "navarch-signature"


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The node, pool and launch of a machine."""

    node: NodeId
    pool: PoolName
    token: Token


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Cluster:
    """The identity under which this control plane buys."""

    id: str
    secret: bytes

    def labels(self, owner: Owner) -> dict[str, str]:
        """Return the labels that mark a machine as ours."""
        return {
            CLUSTER: self.id,
            NODE: owner.node,
            POOL: owner.pool,
            TOKEN: owner.token,
            SIGNATURE: self._sign(owner),
        }

    def owner(self, labels: Mapping[str, str]) -> Owner | None:
        """Return what `labels` prove, or None if they do not prove that the machine is ours."""
        if labels.get(CLUSTER) != self.id:
            return None
        owner = Owner(
            node=NodeId(labels.get(NODE, "")),
            pool=PoolName(labels.get(POOL, "")),
            token=Token(labels.get(TOKEN, "")),
        )
        signature = labels.get(SIGNATURE, "")
        if not hmac.compare_digest(signature.encode(), self._sign(owner).encode()):
            return None
        return owner

    def _sign(self, owner: Owner) -> str:
        message = "\0".join((self.id, owner.node, owner.pool, owner.token))
        # A label value may hold 63 characters on the strictest cloud; 128 bits are plenty.
        return hmac.digest(self.secret, message.encode(), "sha256").hex()[:32]


PREFIX = "nvj1."


@dataclass(frozen=True, slots=True, kw_only=True)
class Joiner:
    """The node and launch that a join token proves."""

    node: NodeId
    launch: Token
    """Empty for a host that no launch created, which shows the agents' token."""
    machine: str
    """The hash of the machine's own key; empty if it sent none."""


def join_token(cluster: Cluster, node: NodeId, launch: Token) -> str:
    """Return the token with which the machine of one launch registers as its node.

    A token names one node and one launch and is signed, so it is verified without stored state. A
    machine adds a secret key of its own. The first machine binds the node to its key; a later
    machine with the same token and another key is refused.
    """
    return f"{PREFIX}{_plain(node)}.{_plain(launch)}.{_sign(cluster, node, launch)}"


HOST_PREFIX = "nva1."


def host_credential(node: NodeId, token: str, key: str) -> str:
    """Return the credential of a host that registers by itself: the agents' token and its own key.

    The first host that registers as a node binds it to its key, as with a join token.
    """
    return f"{HOST_PREFIX}{_plain(node)}.{_plain(token)}.{key}"


def read_host_credential(token: str, shown: str) -> Joiner | None:
    """Return what the credential names, or None if it does not hold the agents' `token`."""
    parts = shown.removeprefix(HOST_PREFIX).split(".")
    if not token or not shown.startswith(HOST_PREFIX) or len(parts) != 3:
        return None
    try:
        node, given = NodeId(_read(parts[0])), _read(parts[1])
    except ValueError:
        return None
    if not hmac.compare_digest(given.encode(), token.encode()) or not parts[2]:
        return None
    return Joiner(node=node, launch=Token(""), machine=_key_hash(parts[2]))


def _key_hash(key: str) -> str:
    # The key cannot be derived from its hash, which is stored.
    return hashlib.sha256(key.encode()).hexdigest()[:32] if key else ""


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
    return Joiner(node=node, launch=launch, machine=_key_hash(key))


def _sign(cluster: Cluster, node: NodeId, launch: Token) -> str:
    message = "\0".join(("join", cluster.id, node, launch))
    return hmac.digest(cluster.secret, message.encode(), "sha256").hex()[:48]


def _plain(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read(text: str) -> str:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode()
