"""Logins to the machines of nodes, from the configuration."""

from collections.abc import Callable

from navarch.config import Config
from navarch.config.provider import CLOUDS, BareMetalConfig, FakeConfig
from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.ports.access import NodeLogin
from navarch.ports.store import Store

IMAGE_USER = "ubuntu"
"""The user of the clouds' default images."""


class AccessService:
    """Serves AccessApi."""

    def __init__(self, store: Store, config: Callable[[], Config]) -> None:
        self._store = store
        self._config = config

    async def get_login(self, node: NodeId) -> NodeLogin:
        """Return how to open a shell on the machine of `node`."""
        found = self._store.fleet().nodes.get(node)
        if found is None:
            raise NotFoundError(f"node not found: {node}")
        return login_of(self._config(), found)


def login_of(config: Config, node: Node) -> NodeLogin:
    """Return how to open a shell on the machine of a node that `config` describes."""
    provider = config.providers.get(node.provider or "")
    if isinstance(provider, FakeConfig):
        return NodeLogin(simulated=True)
    if isinstance(provider, BareMetalConfig):
        # The name of a lent machine is its host's, and a suffix for the lease.
        host_name = (node.instance or "").rpartition(".")[0]
        for host in provider.hosts:
            if host.name == host_name:
                key = provider.ssh_private_key_path or ""
                return NodeLogin(user=host.ssh_user, port=host.ssh_port, key_file=key)
    pool = config.pools.get(node.pool or "")
    if pool is not None and isinstance(provider, CLOUDS):
        return NodeLogin(
            user=pool.ssh_user,
            port=pool.ssh_port,
            key_file=pool.ssh_private_key_path or "",
            private_address=pool.ssh_by_private_address,
        )
    return NodeLogin(user=IMAGE_USER if isinstance(provider, CLOUDS) else "")
