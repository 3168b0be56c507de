"""Proof of ownership: labels that name a machine, signed with the cluster's secret."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

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
        return _signature(self.secret, "\0".join((self.id, owner.node, owner.pool, owner.token)))


@lru_cache(maxsize=10_000)
def _signature(secret: bytes, message: str) -> str:
    # The labels of one machine are verified after each of its changes.
    # A label value may hold 63 characters on the strictest cloud; 128 bits are plenty.
    signing = _keyed(secret).copy()
    signing.update(message.encode())
    return signing.hexdigest()[:32]


@lru_cache(maxsize=10)
def _keyed(secret: bytes) -> hmac.HMAC:
    # Looking up the digest and hashing the key takes longer than hashing a message.
    return hmac.new(secret, digestmod="sha256")
