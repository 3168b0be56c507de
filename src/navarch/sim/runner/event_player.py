"""The event player: carries out the events of a scenario, one after the other."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from navarch.core.errors import NavarchError
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.recovery import CommandKind
from navarch.ports.clock import Clock
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.judging import judge, look_at
from navarch.sim.runner.outcome import Happening, Verdict
from navarch.sim.scenario.assertion import Assertion, AssertionType
from navarch.sim.scenario.environment import Partition
from navarch.sim.scenario.event import Action, EventParams, ScenarioEvent
from navarch.sim.scenario.fleet import FleetNode
from navarch.sim.scenario.kinds import FailureType, Software, TargetScope
from navarch.sim.world.failure import Failure


async def hold(fleet: SimulatedFleet, partition: Partition) -> None:
    """Disconnect a place at its time and for its duration."""
    clock = fleet.environment.clock
    await clock.sleep(partition.at.total_seconds())
    cut = fleet.cut_off(partition.scope, partition.target)
    await clock.sleep(partition.duration.total_seconds())
    fleet.reconnect((), [cut])


POLL_S = 0.5
TIMEOUT_S = 30.0
NO_TIME = timedelta(0)
PATIENCE_S = 600.0
"""The longest time that an optional event waits for its node."""


class EventError(NavarchError):
    """An event failed, or its condition was not met."""


@dataclass(slots=True, kw_only=True)
class EventPlayer:
    """Carries events out in order; each waits for the one before it."""

    fleet: SimulatedFleet
    machines: tuple[FleetNode, ...]
    crash: Callable[[float], None] | None = None
    """Kills the control plane for a number of seconds; None if that is not possible."""
    reclaim: Callable[[NodeId], None] | None = None
    set_load: Callable[[PoolName, float], None] | None = None
    on_order: Callable[[NodeId], object] = lambda _: None
    """Called with a node that the scenario takes out of service."""
    on_happening: Callable[[Happening], None] = lambda _: None
    spawn: Callable[[Coroutine[Any, Any, None]], object] = Coroutine.close
    """Runs what takes time in the background, until the end of the run."""
    begin: float = 0.0
    verdicts: list[Verdict] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)

    async def play(self, events: tuple[ScenarioEvent, ...]) -> None:
        """Play every event at its time, and events of the same time in the file's order."""
        ordered = sorted(events, key=lambda each: each.at)
        optional: dict[str, list[ScenarioEvent]] = {}
        for event in ordered:
            if event.optional:
                optional.setdefault(event.target, []).append(event)
        async with asyncio.TaskGroup() as tasks:
            for lane in optional.values():
                tasks.create_task(self._play_optional(lane))
            await self._play_in_order([event for event in ordered if not event.optional])

    async def _play_in_order(self, events: Sequence[ScenarioEvent]) -> None:
        for number, event in enumerate(events):
            await self._until(event)
            try:
                await self.apply(event)
            except NavarchError as error:
                what = f"event {number}: {event.action} {event.target}".rstrip()
                self.verdicts.append(Verdict(what=what, holds=False, reason=str(error)))
                self.note("error", event.target, f"{what}: {error}")
                return

    async def _play_optional(self, events: Sequence[ScenarioEvent]) -> None:
        """Play the events of one node, which may never appear."""
        for event in events:
            await self._until(event)
            deadline = self._clock.monotonic() + PATIENCE_S
            while NodeId(event.target) not in self.fleet.agents:
                if self._clock.monotonic() >= deadline:
                    self.note("log", event.target, f"left out {event.action}: it is not there")
                    return
                await self._clock.sleep(POLL_S)
            try:
                await self.apply(event)
            except NavarchError as error:
                self.note("log", event.target, f"left out {event.action}: {error}")

    async def _until(self, event: ScenarioEvent) -> None:
        wait_s = self.begin + event.at.total_seconds() - self._clock.monotonic()
        await self._clock.sleep(max(wait_s, 0.0))

    async def apply(self, event: ScenarioEvent) -> None:
        """Carry one event out, or raise NavarchError."""
        action, target = Action(event.action), event.target
        if action is not Action.LOG:
            self.note(action, target, _words(event.params))
        match action:
            case Action.INJECT_FAILURE:
                self._on_each(event, lambda node: self._inject(node, event.params))
            case Action.RECOVER_FAILURE:
                kind = event.params.failure_type
                for node in self._targets(event):
                    self.fleet.clear(node, FailureType(kind) if kind else None, event.params.check)
            case Action.ISSUE_COMMAND:
                await self._command(event)
            case Action.WAIT_FOR_STATUS:
                await self._wait_for(event)
            case Action.WAIT:
                pass
            case Action.LOG:
                self.note("log", "", event.params.log_message or "")
            case Action.ASSERT:
                assertion = Assertion(
                    type=event.params.failure_type or str(AssertionType.NODE_STATUS),
                    target=target,
                    expected=event.params.expected_status or "",
                )
                self.verdicts.append(await judge(self.fleet.environment, assertion, figures={}))
            case _:
                await self._apply_around(action, event)

    async def _apply_around(self, action: Action, event: ScenarioEvent) -> None:
        """Carry out an event about the control plane, the network or a pool."""
        target, params = event.target, event.params
        match action:
            case Action.CRASH:
                if self.crash is None:
                    raise EventError(
                        "a control plane that runs elsewhere cannot be crashed from here"
                    )
                self.crash(params.down_for.total_seconds() if params.down_for else 5.0)
            case Action.PARTITION:
                self.fleet.cut_off(params.scope or TargetScope.NODE, target)
            case Action.HEAL:
                scope, fleet = params.scope or TargetScope.NODE, self.fleet
                same = [cut for cut in fleet.cuts if (cut.scope, cut.target) == (scope, target)]
                over = fleet.cuts if scope is TargetScope.ALL else same
                fleet.reconnect(fleet.nodes_in(scope, target), over)
            case Action.RECLAIM:
                self._agent_of(target)
                if self.reclaim is None:
                    raise EventError("machines of a real cloud cannot be taken away from here")
                self.reclaim(NodeId(target))
            case Action.SCALE:
                size = params.nodes or 0
                await self.fleet.environment.ask(
                    lambda api: api.scale(PoolName(target), size, reason="the scenario says so")
                )
            case Action.SET_LOAD:
                if self.set_load is None:
                    raise EventError("the load of a real fleet cannot be set from here")
                self.set_load(PoolName(target), params.utilization or 0.0)
            case _:
                await self._apply_to_machines(action, event)

    async def _apply_to_machines(self, action: Action, event: ScenarioEvent) -> None:
        """Carry out an event that changes machines without breaking them."""
        target, params = event.target, event.params
        match action:
            case Action.START_FLEET:
                for machine in self.machines:
                    if NodeId(machine.id) not in self.fleet.agents:
                        self.fleet.start(machine, after_s=machine.after.total_seconds())
            case Action.STOP_FLEET:
                for node in list(self.fleet.agents):
                    self.fleet.stop(node)
            case Action.OVERRIDE:
                node = NodeId(target)
                await self.fleet.environment.ask(
                    lambda api: api.declare_healthy(node, reason="the scenario says so")
                )
                self.fleet.drop_past_events(node)
            case Action.INSTALL_DRIVER:
                self._install_driver(event)
            case Action.ROLL_OUT:
                self._roll_out(event)
            case Action.SET_CLOCK:
                skew = (params.ahead or NO_TIME) - (params.behind or NO_TIME)
                for node in self._targets(event):
                    self.fleet.set_clock(node, skew.total_seconds())

    def _inject(self, node: NodeId, params: EventParams) -> None:
        failure = _failure_of(params)
        if not self.fleet.inject(node, failure, cause="event"):
            self.note("log", node, f"{failure} is there already; nothing changes")
        elif params.duration is not None:
            self.spawn(self._clear_after(params.duration.total_seconds(), node, failure))

    async def _clear_after(self, seconds: float, node: NodeId, failure: Failure) -> None:
        await self._clock.sleep(seconds)
        self.fleet.clear(node, failure.kind, failure.check or None)

    def _install_driver(self, event: ScenarioEvent) -> None:
        params, driver = event.params, event.params.driver or ""
        if params.scope is TargetScope.ALL:
            # For machines that start later as well.
            self.fleet.versions[Software.DRIVER] = driver
        for node in self.fleet.nodes_in(params.scope or TargetScope.NODE, event.target):
            self.fleet.install(node, Software.DRIVER, driver)
            if params.xid_code is not None:
                failure = Failure(kind=FailureType.XID_ERROR, xid=params.xid_code)
                self.fleet.inject(node, failure, cause=Software.DRIVER)

    def _roll_out(self, event: ScenarioEvent) -> None:
        """Install a version on one machine after the other, and on machines that boot later."""
        params, fleet = event.params, self.fleet
        assert params.software is not None
        software, version = params.software, params.version or ""
        if params.failure_type is not None:
            fleet.faulty[software, version] = _failure_of(params)
        if params.new_machines:
            fleet.versions[software] = version

        def behind() -> list[NodeId]:
            nodes = fleet.nodes_in(params.scope or TargetScope.NODE, event.target)
            found = [fleet.agents[node] for node in nodes if node in fleet.agents]
            return [agent.node for agent in found if getattr(agent, software) != version]

        async def roll_out(every_s: float) -> None:
            # Machines that are bought meanwhile with the old version come last.
            while nodes := behind():
                fleet.install(nodes[0], software, version)
                await self._clock.sleep(every_s)
            if params.new_machines is None and params.scope is TargetScope.ALL:
                fleet.versions[software] = version

        self.spawn(roll_out(params.every.total_seconds() if params.every else 0.0))

    def _on_each(self, event: ScenarioEvent, act: Callable[[NodeId], None]) -> None:
        """Act on every machine of an event: all at once, or one by one in the background."""
        nodes, every = self._targets(event), event.params.every
        if every is None:
            for node in nodes:
                act(node)
            return

        async def one_by_one(every_s: float) -> None:
            for node in nodes:
                if node in self.fleet.agents:
                    act(node)
                await self._clock.sleep(every_s)

        self.spawn(one_by_one(every.total_seconds()))

    def _targets(self, event: ScenarioEvent) -> list[NodeId]:
        """Return the machines of an event: one that must be there, or those of a place."""
        scope = event.params.scope or TargetScope.NODE
        if scope is TargetScope.NODE:
            self._agent_of(event.target)
        return self.fleet.nodes_in(scope, event.target)

    async def _command(self, event: ScenarioEvent) -> None:
        kind, args = event.params.command_type, dict(event.params.command_args)
        node, reason = NodeId(event.target), args.get("reason", "the scenario says so")
        environment, agent = self.fleet.environment, self.fleet.agents.get(node)
        bought = agent is not None and agent.place is None
        if kind in (CommandKind.CORDON, CommandKind.DRAIN, CommandKind.TERMINATE):
            self.fleet.begin_outage(node)
            self.on_order(node)
        match kind:
            case CommandKind.CORDON:
                await environment.ask(lambda api: api.cordon(node, reason=reason))
            case CommandKind.UNCORDON:
                await environment.ask(lambda api: api.uncordon(node))
                self.fleet.end_outage(node)
            case CommandKind.DRAIN:
                await environment.ask(lambda api: api.drain(node, reason=reason))
            case CommandKind.TERMINATE if bought:
                await environment.ask(lambda api: api.retire(node, reason=reason))
            case CommandKind.TERMINATE | CommandKind.RUN_DIAGNOSTIC:
                await environment.ask(lambda api: api.issue(node, kind, args))

    async def _wait_for(self, event: ScenarioEvent) -> None:
        wanted = event.params.expected_status
        within_s = event.params.timeout.total_seconds() if event.params.timeout else TIMEOUT_S
        deadline = self._clock.monotonic() + within_s
        while True:
            view = await look_at(self.fleet.environment, event.target)
            if view is not None and view.status == wanted:
                return
            if self._clock.monotonic() >= deadline:
                found = "it is not known" if view is None else f"it is {view.status or view.phase}"
                raise EventError(
                    f"timeout waiting for node {event.target} to reach status {wanted}; {found}"
                )
            await self._clock.sleep(POLL_S)

    def _agent_of(self, target: str) -> None:
        if NodeId(target) not in self.fleet.agents:
            raise EventError(f"node not found: {target}")

    def note(self, kind: str, target: str, text: str) -> None:
        """Record an event."""
        at_s = round(self._clock.monotonic() - self.begin, 3)
        happening = Happening(at_s=at_s, kind=kind, target=target, text=text)
        self.happenings.append(happening)
        self.on_happening(happening)

    @property
    def _clock(self) -> Clock:
        return self.fleet.environment.clock


def _failure_of(params: EventParams) -> Failure:
    """Return the failure that the parameters of an event describe."""
    found = None
    if params.check:
        found = CheckResult(
            check=params.check,
            health=params.health or Health.UNHEALTHY,
            reason=params.message or "",
            fatal=bool(params.fatal),
            lasting=bool(params.lasting),
        )
    return Failure(
        kind=FailureType(params.failure_type or ""),
        xid=params.xid_code,
        gpu=params.gpu_index or 0,
        message=params.message or "",
        check_result=found,
        true_health=params.true_health,
    )


def _words(params: EventParams) -> str:
    """Return an event's details as one line."""
    return ", ".join(f"{name}={getattr(params, name)}" for name in sorted(params.written))
