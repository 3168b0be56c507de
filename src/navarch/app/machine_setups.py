"""How the machines of each pool get their agent, by the configuration in force."""

from collections.abc import Callable

from navarch.app.agent_bundle import AgentBundles
from navarch.app.bringup import (
    AgentEnvironment,
    agent_start,
    can_open_shells,
    install_bundle,
    install_by_command,
    key_file_of,
    missing_agent,
    open_shells,
    render_user_data,
)
from navarch.config import Config
from navarch.control.nodes.bringup import BringUp
from navarch.core.launch import Launch
from navarch.core.machine_setup import AgentStart, MachineSetup
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.core.user_data import multipart
from navarch.ports.provider import ProvisionRequest
from navarch.ports.shell import BringUpLogs
from navarch.ports.store import Store


class MachineSetups:
    """Decides for each pool what its machines run before their agent, and how it is installed."""

    def __init__(
        self,
        config: Callable[[], Config],
        agents: AgentEnvironment,
        bundles: AgentBundles,
        store: Store,
    ) -> None:
        """`config` is called each time, because of reloads."""
        self._config = config
        self._agents = agents
        self._bundles = bundles
        self._store = store

    def user_data(self, request: ProvisionRequest, pool: Pool, provider: str) -> str:
        """Return what a provider gives to a machine at its first boot."""
        setup = pool.setup
        if agent_start(self._config(), pool, provider) is not AgentStart.CLOUD_INIT:
            return setup.user_data
        if setup.install_command:
            install = install_by_command(setup.install_command)
        else:
            install = install_bundle(self._bundles.current, self._agents.control_plane(pool.name))
        variables = self._agents.variables(request, provider)
        script = render_user_data(variables, install, commands=setup.commands)
        if not setup.user_data.strip():
            return script
        # The operator's part comes first: it prepares the machine.
        return multipart([setup.user_data, script], boundary="navarch-agent")

    def has_own_user_data(self, pool: Pool) -> bool:
        """Return whether the boot script of each machine has a join token of its own."""
        sellers = {offering.provider for offering in pool.offerings}
        starts = {agent_start(self._config(), pool, seller) for seller in sellers}
        return AgentStart.CLOUD_INIT in starts

    def missing_agent(self, pool: Pool) -> str | None:
        """Return why no agent would register from machines bought for `pool`; None if one would."""
        return missing_agent(self._config(), pool, self._bundles.abis)

    def bringup(self, logs: BringUpLogs) -> BringUp | None:
        """Return what sets machines up over SSH, with its output in `logs`; None if nothing can."""
        needed = any(x.setup.agent is AgentStart.SSH for x in self._config().pools.values())
        if not needed and not can_open_shells():
            return None
        # Also if no pool needs it yet: one may be created.
        return BringUp(
            shells=open_shells(),
            logs=logs,
            setup=self._setup_of,
            control_plane=self._agents.control_plane,
            join_token=self._agents.join_token,
        )

    def _setup_of(self, launch: Launch) -> MachineSetup | None:
        pool = self._store.fleet().pools[launch.pool]
        if agent_start(self._config(), pool, launch.offering.provider) is not AgentStart.SSH:
            return None
        return evolve(pool.setup, key_file=key_file_of(self._config(), pool.setup))
