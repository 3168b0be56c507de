"""How a server sets new machines up, as its configuration says."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from navarch.app.addresses import Address, StartError
from navarch.config import Config
from navarch.control.bringup import BringUp
from navarch.core.bringup import Setup
from navarch.core.ids import NodeId, PoolName, Token
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


def control_plane_address(config: Config, pool: PoolName, http: Address) -> str:
    """Return the URL by which a pool's machines reach the server."""
    found = config.pools.get(pool)
    own = None if found is None else found.control_plane_address
    return own or config.server.external_address or f"http://{http.reachable()}"
