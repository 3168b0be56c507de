"""Logins to the machines of nodes, from the inventory or the pool."""

from collections.abc import Callable

from navarch.app.bringup import key_file_of
from navarch.config import Config
from navarch.config.provider import CLOUDS, BareMetalConfig, FakeConfig
from navarch.core.errors import NotFoundError
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.pool import Pool
from navarch.ports.access import NodeLogin
from navarch.ports.store import Store


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
        pool = self._store.fleet().pools.get(found.pool) if found.pool else None
        return login_of(self._config(), found, pool)


def login_of(config: Config, node: Node, pool: Pool | None) -> NodeLogin:
    """Return how to open a shell on the machine of a node in `pool`."""
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
    if pool is None or not isinstance(provider, CLOUDS):
        return NodeLogin()
    return NodeLogin(
        user=pool.setup.user,
        port=pool.setup.port,
        key_file=key_file_of(config, pool.setup),
        private_address=pool.setup.private_address,
    )
