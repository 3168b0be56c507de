"""How a server sets new machines up, as its configuration says."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from navarch.app.addresses import Address, StartError
from navarch.config import Config
from navarch.config.provider import CLOUDS
from navarch.control.bringup import BringUp
from navarch.core.bringup import Setup
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.pool import Pool
from navarch.ports.offload import Offload
from navarch.ports.shell import Shells
from navarch.stores.bringup import FolderBringUpLogs


def can_open_shells() -> bool:
    """Return whether what shells need is installed."""
    return find_spec("asyncssh") is not None


def open_shells() -> Shells:
    """Return the way to shells over SSH, or raise StartError where what it needs is missing."""
    if not can_open_shells():
        raise StartError(
            "setting machines up over SSH needs the Python package 'asyncssh', which is not "
            "installed; run: pip install 'navarch[ssh]'"
        )
    from navarch.ssh.client import SshShells

    return SshShells()


def build_bringup(
    config: Callable[[], Config],
    http: Address,
    *,
    folder: Path,
    offload: Offload,
    shells: Shells,
    join_token: Callable[[NodeId, Token], str] = lambda _node, _launch: "",
) -> BringUp:
    """Return how machines are set up. The configuration is asked each time: it may be reloaded."""

    def setup(pool: PoolName) -> Setup | None:
        found = config().pools.get(pool)
        return None if found is None else found.setup

    def control_plane(pool: PoolName) -> str:
        return control_plane_address(config(), pool, http)

    return BringUp(
        shells=shells,
        logs=FolderBringUpLogs(folder, offload),
        setup=setup,
        control_plane=control_plane,
        join_token=join_token,
    )


def missing_agent(config: Config, pool: Pool) -> str | None:
    """Return why no agent would start on machines bought for `pool`; None if one would.

    A pool of the file may buy where the file says, also without cloud_init and setup_commands:
    its image may start the agent. For other pools only user data can start one.
    """
    if pool.user_data.strip():
        return None
    written = config.pools.get(pool.name)
    if written is not None and (written.cloud_init or written.setup_commands):
        return None
    expected = set() if written is None else {source.name for source in written.sources}
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
