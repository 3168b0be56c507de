"""Bring-up: logs in to new machines and sets them up, until their agents register.

A log is stored before the commands run. After a crash it shows that they may have run: they run
again, which counts as the next attempt.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import structlog

from navarch.control.nodes.controller import NodeController
from navarch.control.providers.guard import Providers
from navarch.control.runtime.controller import update_with_retry
from navarch.control.runtime.operations import OperationRunner
from navarch.core.bringup import BringUpLog, CommandLog, fill_in, without_secrets
from navarch.core.errors import ProviderError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.machine_setup import MachineSetup
from navarch.core.node import Node, Phase, Retirement
from navarch.fleet import lifecycle
from navarch.fleet.bringup import (
    REDIAL,
    AbandonMachine,
    Finished,
    Run,
    Wait,
    next_step,
    progressed,
)
from navarch.ports.clock import Clock
from navarch.ports.shell import BringUpLogs, HostKeyError, Login, Shell, ShellError, Shells
from navarch.ports.store import Store

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BringUp:
    """How machines are set up. Without it, a control plane sets up no machines."""

    shells: Shells
    logs: BringUpLogs
    setup: Callable[[Launch], MachineSetup | None]
    """The set-up of a launch's machine; None if no commands run on it over SSH."""
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
        self._machines: dict[NodeId, _Memory] = {}
        super().__init__(clock, store, operations, memories=[self._machines])

    def concerns(self, node: Node) -> bool:
        """Return whether `node` has a machine on which commands run."""
        if node.instance is None or node.launch is None:
            return False
        return self._bringup.setup(node.launch) is not None

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Take the next step of the set-up."""
        key = f"bringup/{node.id}"
        if self._operations.busy(key):
            return None
        assert node.launch is not None, node.id
        setup, launch = self._bringup.setup(node.launch), node.launch
        assert setup is not None, node.id
        memory = self._machines.get(node.id)
        if memory is None or memory.launch != launch.token:
            memory = self._machines[node.id] = _Memory(launch=launch.token)
        if memory.logs is None:
            return self.start(node.id, key, partial(self._recall, node, memory))
        if memory.redial_at is not None and now < memory.redial_at:
            return memory.redial_at
        unanswered_since = memory.unanswered_since
        match next_step(setup, node, memory.logs, unanswered_since=unanswered_since, now=now):
            case Finished():
                return None
            case Wait(until=until):
                return until
            case AbandonMachine(reason=reason):
                return self.start(node.id, key, partial(self._give_up, launch, reason))
            case Run() as step:
                run = partial(self._run, launch, setup, memory, step)
                return self.start(node.id, key, run, slow=True)

    async def _recall(self, node: Node, memory: _Memory) -> None:
        memory.logs = tuple(await self._bringup.logs.list(node.id))

    async def _run(self, launch: Launch, setup: MachineSetup, memory: _Memory, step: Run) -> None:
        login = await self._login(launch, setup, memory, step.address)
        memory.unanswered_since = memory.unanswered_since or self._clock.now()
        try:
            shell = await self._bringup.shells.connect(login, within=setup.connect_within)
        except ShellError as error:
            # There is no answer yet, which is no failure of the machine.
            if isinstance(error, HostKeyError):
                log.warning("bringup.wrong_host_key", address=login.address, error=str(error))
            memory.redial_at = self._clock.now() + REDIAL
            return
        try:
            await self._set_up(launch, setup, memory, step, shell)
        finally:
            await shell.close()

    async def _login(
        self, launch: Launch, setup: MachineSetup, memory: _Memory, address: str
    ) -> Login:
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
        self, launch: Launch, setup: MachineSetup, memory: _Memory, step: Run, shell: Shell
    ) -> None:
        now = self._clock.now()
        began = memory.unanswered_since or now
        memory.unanswered_since = None
        attempt = BringUpLog(
            id=f"{launch.token}.{step.attempt}",
            node=launch.node,
            pool=launch.pool,
            launch=launch.token,
            attempt=step.attempt,
            address=step.address,
            started_at=now,
            waited_s=(now - began).total_seconds(),
            host_key=shell.host_key,
        )
        await self._keep(memory, attempt)
        await self._progress(launch, "SSH has answered")
        values = self._values(launch)
        for number, template in enumerate(setup.commands, start=1):
            entry, error = await self._command(shell, template, values, number, setup)
            attempt = replace(attempt, commands=(*attempt.commands, entry), error=error)
            if error:
                break
            await self._progress(
                launch, f"set-up command {number} of {len(setup.commands)} is done"
            )
        done = replace(attempt, ended_at=self._clock.now(), succeeded=not attempt.error)
        await self._keep(memory, done)
        ran = f"{len(done.commands)} commands at {done.address}"
        event = Event(
            at=self._clock.now(),
            about=about("node", done.node),
            kind="node.set_up" if done.succeeded else "node.setup_failed",
            reason=ran if done.succeeded else f"{done.error} (attempt {done.attempt})",
            because=(about("launch", done.launch),),
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)

    async def _command(
        self,
        shell: Shell,
        template: str,
        values: Mapping[str, str],
        number: int,
        setup: MachineSetup,
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

    async def _progress(self, launch: Launch, step: str) -> None:
        """Record a step of the machine, which extends its boot deadline."""
        proposal = partial(progressed, token=launch.token, step=step, now=self._clock.now())
        await update_with_retry(self._store, launch.node, proposal)

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

    async def _give_up(self, launch: Launch, reason: str) -> None:
        now = self._clock.now()

        def proposal(newest: Node) -> Change | None:
            if newest.launch is None or newest.launch.token != launch.token:
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

        await update_with_retry(self._store, launch.node, proposal)
