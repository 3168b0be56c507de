"""Bring-up: logs in to new machines and sets them up, until their agents register.

A log is stored before the commands run. After a crash it shows that they may have run: they run
again, which counts as the next attempt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from navarch.control.nodes.controller import NodeController
from navarch.control.providers.guard import Providers
from navarch.control.runtime.operations import OperationRunner
from navarch.control.runtime.updates import update_with_retry
from navarch.core.bringup import BringUpLog, CommandLog, Setup, fill_in, without_secrets
from navarch.core.errors import ProviderError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase, Retirement
from navarch.fleet import lifecycle
from navarch.fleet.bringup import REDIAL, AbandonMachine, Finished, Run, Wait, next_step
from navarch.ports.bringup import BringUpLogs
from navarch.ports.clock import Clock
from navarch.ports.shell import HostKeyError, Login, Shell, ShellError, Shells
from navarch.ports.store import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BringUp:
    """How machines are set up. Without it, a control plane sets up no machines."""

    shells: Shells
    logs: BringUpLogs
    setup: Callable[[PoolName], Setup | None]
    """The set-up of a pool's machines; None for machines that set themselves up."""
    control_plane: Callable[[PoolName], str]
    """The address by which a pool's machines reach the control plane."""
    join_token: Callable[[NodeId, Token], str] = lambda _node, _launch: ""


@dataclass(slots=True)
class _Memory:
    """What is known of one machine besides its logs. It may be lost in a restart."""

    launch: Token
    logs: tuple[BringUpLog, ...] | None = None
    unanswered_since: datetime | None = None
    redial_at: datetime | None = None


class BringUpController(NodeController):
    """Sets up every machine that boots."""

    name = "bringup"
    phases = frozenset({Phase.BOOTING})

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        operations: OperationRunner,
        bringup: BringUp,
    ) -> None:
        self._providers = providers
        self._bringup = bringup
        self._memories: dict[NodeId, _Memory] = {}
        super().__init__(clock, store, operations)

    def forget(self, node: NodeId) -> None:
        """Drop what is remembered about a node that is gone."""
        self._memories.pop(node, None)

    def concerns(self, node: Node) -> bool:
        """Return whether `node` has a machine and its pool a set-up."""
        return (
            node.launch is not None
            and node.launch.instance is not None
            and self._setup_of(node) is not None
        )

    def _setup_of(self, node: Node) -> Setup | None:
        return None if node.pool is None else self._bringup.setup(node.pool)

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Take the next step of the set-up."""
        key = f"bringup/{node.id}"
        if self._operations.busy(key):
            return None
        setup = self._setup_of(node)
        assert setup is not None, node.id
        assert node.launch is not None, node.id
        memory = self._memories.get(node.id)
        if memory is None or memory.launch != node.launch.token:
            memory = self._memories[node.id] = _Memory(launch=node.launch.token)
        if memory.logs is None:
            found = memory
            return self.start(node.id, key, lambda: self._recall(node, found))
        if memory.redial_at is not None and now < memory.redial_at:
            return memory.redial_at
        return self._take(node, setup, memory, now, key)

    def _take(
        self, node: Node, setup: Setup, memory: _Memory, now: datetime, key: str
    ) -> datetime | None:
        step = next_step(
            setup, node, memory.logs or (), unanswered_since=memory.unanswered_since, now=now
        )
        match step:
            case Finished():
                return None
            case Wait(until=until):
                return until
            case AbandonMachine(reason=reason):
                return self.start(node.id, key, lambda: self._give_up(node, reason))
            case Run():
                return self.start(
                    node.id, key, lambda: self._run(node, setup, memory, step), slow=True
                )

    async def _recall(self, node: Node, memory: _Memory) -> None:
        memory.logs = tuple(await self._bringup.logs.list(node.id))

    async def _run(self, node: Node, setup: Setup, memory: _Memory, step: Run) -> None:
        assert node.launch is not None, node.id
        login = await self._login(node.launch, setup, memory, step.address)
        shell = await self._connect(login, setup, memory)
        if shell is None:
            return
        try:
            await self._set_up(node, node.launch, setup, memory, step, shell)
        finally:
            await shell.close()

    async def _connect(self, login: Login, setup: Setup, memory: _Memory) -> Shell | None:
        """Return a shell; None if there is no answer yet, which is no failure of the machine."""
        now = self._clock.now()
        memory.unanswered_since = memory.unanswered_since or now
        try:
            return await self._bringup.shells.connect(login, within=setup.connect_within)
        except ShellError as error:
            if isinstance(error, HostKeyError):
                log.warning("bringup.wrong_host_key", address=login.address, error=str(error))
            memory.redial_at = self._clock.now() + REDIAL
            return None

    async def _login(self, launch: Launch, setup: Setup, memory: _Memory, address: str) -> Login:
        """Return the login of the provider, else that of the pool."""
        assert launch.instance is not None, launch.token
        try:
            provider = self._providers.get(launch.offering.provider)
            login = await provider.login(launch.instance)
        except ProviderError as error:
            log.warning("bringup.no_login", launch=launch.token, error=str(error))
            login = None
        if login is not None:
            return login
        mine = [each for each in memory.logs or () if each.launch == launch.token]
        pinned = next((each.host_key for each in mine if each.host_key), "")
        return Login(
            address=address,
            port=setup.port,
            user=setup.user,
            key_file=setup.key_file,
            host_key=pinned,
        )

    async def _set_up(
        self,
        node: Node,
        launch: Launch,
        setup: Setup,
        memory: _Memory,
        step: Run,
        shell: Shell,
    ) -> None:
        now = self._clock.now()
        began = memory.unanswered_since or now
        memory.unanswered_since = None
        attempt = BringUpLog(
            id=f"{launch.token}.{step.attempt}",
            node=node.id,
            pool=launch.pool,
            launch=launch.token,
            attempt=step.attempt,
            address=step.address,
            started_at=now,
            waited_s=(now - began).total_seconds(),
            host_key=shell.host_key,
        )
        await self._keep(memory, attempt)
        values = self._values(launch)
        for number, template in enumerate(setup.commands, start=1):
            entry, error = await self._command(shell, template, values, number, setup)
            attempt = replace(attempt, commands=(*attempt.commands, entry), error=error)
            if error:
                break
        done = replace(attempt, ended_at=self._clock.now(), succeeded=not attempt.error)
        await self._keep(memory, done)
        await self._record(done)

    async def _command(
        self, shell: Shell, template: str, values: Mapping[str, str], number: int, setup: Setup
    ) -> tuple[CommandLog, str]:
        """Run one command; return its log, and why no more commands may run."""
        began = self._clock.monotonic()
        entry = CommandLog(command=template)
        try:
            ran = await shell.run(fill_in(template, values), within=setup.command_within)
        except ShellError as error:
            took = self._clock.monotonic() - began
            return replace(entry, duration_s=took), f"command {number} failed: {error}"
        secrets = (values["JoinToken"],)
        entry = replace(
            entry,
            exit_code=ran.exit_code,
            stdout=without_secrets(ran.stdout, secrets),
            stderr=without_secrets(ran.stderr, secrets),
            duration_s=self._clock.monotonic() - began,
        )
        if ran.timed_out:
            return entry, f"command {number} timed out after {setup.command_within}"
        if ran.exit_code:
            return entry, f"command {number} failed: exit code {ran.exit_code}"
        return entry, ""

    async def _keep(self, memory: _Memory, attempt: BringUpLog) -> None:
        await self._bringup.logs.keep(attempt)
        others = [each for each in memory.logs or () if each.id != attempt.id]
        memory.logs = (*others, attempt)

    def _values(self, launch: Launch) -> Mapping[str, str]:
        place = launch.offering
        return {
            "ControlPlane": self._bringup.control_plane(launch.pool),
            "Pool": launch.pool,
            "NodeID": launch.node,
            "Provider": place.provider,
            "Region": place.region,
            "Zone": place.zone,
            "InstanceType": place.instance_type,
            "LaunchToken": launch.token,
            "JoinToken": self._bringup.join_token(launch.node, launch.token),
        }

    async def _record(self, attempt: BringUpLog) -> None:
        kind = "node.set_up" if attempt.succeeded else "node.setup_failed"
        ran = f"{len(attempt.commands)} commands at {attempt.address}"
        event = Event(
            at=self._clock.now(),
            about=about("node", attempt.node),
            kind=kind,
            reason=ran if attempt.succeeded else f"{attempt.error} (attempt {attempt.attempt})",
            because=(about("launch", attempt.launch),),
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)

    async def _give_up(self, node: Node, reason: str) -> None:
        now = self._clock.now()

        def proposal(_: object, newest: Node) -> Change | None:
            same = newest.launch is not None and node.launch is not None
            if not same or newest.launch.token != node.launch.token:  # type: ignore[union-attr]
                return None
            if newest.phase is not Phase.BOOTING or newest.retiring is not None:
                return None  # Its agent has registered after all, or it is leaving.
            after = lifecycle.retire(newest, Retirement(reason=reason, failed_at=now), now=now)
            event = Event(
                at=now,
                about=about("node", newest.id),
                kind="node.retired",
                reason=reason,
                facts={"phase": str(after.phase)},
            )
            return Change(nodes=[after], events=[event])

        await update_with_retry(self._store, node.id, proposal)
