"""Chaos: random failures, cascades, correlations, outages and recoveries."""

import asyncio
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

from navarch.core.ids import NodeId
from navarch.sim.kernel.clock import Chance
from navarch.sim.runner.fleet import SimulatedFleet
from navarch.sim.runner.generation import cold_start_s, failure_moments
from navarch.sim.scenario.chaos import (
    DEFAULT_XIDS,
    RECOVERY_MIN,
    CascadeScope,
    Chaos,
    Correlation,
    CorrelationScope,
    Outage,
    OutageScope,
)
from navarch.sim.scenario.fleet import Startup
from navarch.sim.scenario.kinds import FailureType, TargetScope
from navarch.sim.world.failure import Failure

OUTAGE_XID = 79
CHAIN_MAX = 10
"""The maximum length of a chain of correlated failures."""

REPLACED_AFTER_S = (30.0, 60.0)
"""The time that a replaced machine takes to come up, by default."""

_SCOPES = {
    CascadeScope.RACK: TargetScope.RACK,
    CascadeScope.ZONE: TargetScope.ZONE,
    CascadeScope.REGION: TargetScope.REGION,
    CascadeScope.PROVIDER: TargetScope.PROVIDER,
    CascadeScope.RANDOM: TargetScope.ALL,
    CorrelationScope.SAME_RACK: TargetScope.RACK,
    CorrelationScope.SAME_ZONE: TargetScope.ZONE,
    CorrelationScope.RANDOM: TargetScope.ALL,
    OutageScope.ZONE: TargetScope.ZONE,
    OutageScope.REGION: TargetScope.REGION,
    OutageScope.PROVIDER: TargetScope.PROVIDER,
}


@dataclass(slots=True, kw_only=True)
class ChaosInjector:
    """Injects failures into sound machines only."""

    fleet: SimulatedFleet
    config: Chaos
    tasks: asyncio.TaskGroup
    startup: Startup = field(default_factory=Startup)
    note: Callable[[str, str, str], None] = lambda _kind, _target, _text: None
    """Called with the kind, target and text of outages and correlations."""
    outages: int = 0
    """The number of outages under way."""
    skipped: int = 0
    """Failures for which no sound machine was left."""
    _generations: dict[str, int] = field(default_factory=dict)
    _cascaded: dict[NodeId, str] = field(default_factory=dict)
    """Nodes that a cascade has failed or is about to fail, by where it spread."""
    _pending: set[NodeId] = field(default_factory=set)

    def prepare(self) -> None:
        """Follow failures from now on: correlations hold from the first moment."""
        self.fleet.on_fault.append(self._follow)

    async def run(self, duration: timedelta) -> None:
        """Let failures happen for a while; outages are counted from now."""
        for outage in self.config.scheduled_outages:
            self.tasks.create_task(self._outage(outage))
        clock = self.fleet.environment.clock
        begin = clock.monotonic()
        chance = self._chance("chaos")
        nodes = len(self.fleet.agents)
        rate = self.config.failure_rate
        moments = failure_moments(duration, rate=rate, nodes=nodes, chance=chance)
        failures = self._failures(len(moments), chance)
        for moment, failure in zip(moments, failures, strict=True):
            await clock.sleep(max(begin + moment - clock.monotonic(), 0.0))
            victim = self._any_sound(chance)
            if victim is None:
                self.skipped += 1
            else:
                self.fleet.inject(victim, failure, cause="chaos")

    def _failures(self, count: int, chance: Chance) -> Iterator[Failure]:
        """Yield failures in exactly the configured proportions."""
        shares = {each.type: each.weight for each in self.config.failure_types}
        kinds = chance.deck(count, shares or {FailureType.XID_ERROR: 1.0})
        xids = iter(chance.deck(kinds.count(FailureType.XID_ERROR), self._xids))
        for kind in kinds:
            xid = int(next(xids)) if kind is FailureType.XID_ERROR else None
            yield Failure(kind=kind, xid=xid, gpu=chance.below(8))

    @property
    def _xids(self) -> dict[str, float]:
        return dict(self.config.xid_distribution or DEFAULT_XIDS)

    def _draw(self, kind: FailureType, chance: Chance) -> Failure:
        xid = None
        if kind is FailureType.XID_ERROR:
            weights = self._xids
            at = chance.uniform(0, sum(weights.values()))
            for code, weight in weights.items():
                xid = int(code)
                at -= weight
                if at < 0:
                    break
        return Failure(kind=kind, xid=xid, gpu=chance.below(8))

    def _any_sound(self, chance: Chance) -> NodeId | None:
        names = list(self.fleet.agents)
        for _ in range(20):
            if names and self.fleet.sound(name := chance.pick(names)):
                return name
        sound = [name for name in names if self.fleet.sound(name)]
        return chance.pick(sound) if sound else None

    def _chance(self, purpose: str) -> Chance:
        return Chance(self.fleet.environment.entropy(purpose))

    # Cascades and correlations

    def _follow(self, node: NodeId, failure: Failure, cause: str, depth: int) -> None:
        serial = len(self.fleet.injuries)
        if cause in ("chaos", "cascade"):
            self._cascade(node, depth, serial)
        if cause == "chaos":
            self._recover_later(node, failure, serial)
        if depth < CHAIN_MAX:
            for rule in self.config.correlated_failures:
                if rule.trigger in (str(failure.kind), str(failure.xid)):
                    self._correlate(node, rule, depth, serial)

    def _cascade(self, node: NodeId, depth: int, serial: int) -> None:
        rule = self.config.cascading
        if not rule.enabled or depth >= rule.depth:
            return
        chance = self._chance(f"cascade/{serial}")
        if not chance.strikes(rule.probability):
            return
        scope = _SCOPES[rule.scope]
        where = self.fleet.where(node, scope)
        around = self.fleet.within(scope, where) if where else []
        struck = sum(
            self._cascaded.get(each) == where
            and (each in self._pending or not self.fleet.sound(each))
            for each in around
        )
        room = max(math.floor(len(around) * rule.max_affected_percent), 1) - struck
        sound = [
            each
            for each in around
            if each != node and each not in self._pending and self.fleet.sound(each)
        ]
        if room <= 0 or not sound:
            return
        for victim in chance.some(sound, 1 + chance.below(room)):
            delay_s = chance.uniform(rule.min_delay.total_seconds(), rule.max_delay.total_seconds())
            failure = self._draw(FailureType.XID_ERROR, chance)
            self._cascaded[victim] = where
            self._pending.add(victim)
            self._later(delay_s, victim, failure, cause="cascade", depth=depth + 1)

    def _correlate(self, node: NodeId, rule: Correlation, depth: int, serial: int) -> None:
        chance = self._chance(f"correlation/{rule.name}/{serial}")
        if not chance.strikes(rule.probability):
            return
        failure = self._draw(rule.response, chance)
        victim: NodeId | None = node
        if rule.scope is not CorrelationScope.SAME_NODE:
            scope = _SCOPES[rule.scope]
            where = self.fleet.where(node, scope)
            around = self.fleet.within(scope, where) if where else []
            sound = [each for each in around if each != node and self.fleet.sound(each)]
            victim = chance.pick(sound) if sound else None
        if victim is not None:
            self.note("correlation", str(victim), f"{rule.name}: {failure}")
            self._later(
                rule.delay.total_seconds(),
                victim,
                failure,
                cause="correlation",
                depth=depth + 1,
                on_top=victim == node,
            )

    def _later(
        self,
        delay_s: float,
        node: NodeId,
        failure: Failure,
        *,
        cause: str,
        depth: int,
        on_top: bool = False,
    ) -> None:
        async def strike() -> None:
            await self.fleet.environment.clock.sleep(delay_s)
            if cause == "cascade":
                self._pending.discard(node)
            if on_top or self.fleet.sound(node):
                self.fleet.inject(node, failure, cause=cause, depth=depth)

        self.tasks.create_task(strike())

    # Recovery

    def _recover_later(self, node: NodeId, failure: Failure, serial: int) -> None:
        rule = self.config.recovery
        if not rule.enabled or failure.fatal:
            return
        chance = self._chance(f"recovery/{serial}")
        if not chance.strikes(rule.probability):
            return
        drawn = chance.normal(rule.mean_time.total_seconds(), rule.deviation.total_seconds())

        async def recover() -> None:
            await self.fleet.environment.clock.sleep(max(drawn, RECOVERY_MIN.total_seconds()))
            self.fleet.clear(node, failure.kind)

        self.tasks.create_task(recover())

    def replace_machine(self, node: NodeId) -> None:
        """Let the owner replace a machine that the control plane reported unhealthy."""
        agent, known = self.fleet.agents.get(node), self.fleet.facts.get(node)
        if agent is None or known is None or agent.place is None:
            return
        base, _, number = str(node).rpartition("-gen")
        name = base if base and number.isdecimal() else str(node)
        self._generations[name] = self._generations.get(name, 0) + 1
        successor = f"{name}-gen{self._generations[name]}"
        chance = self._chance(f"exchange/{successor}")
        rule = self.config.recovery
        if rule.replace_cold_start is not None:
            takes_s = rule.replace_cold_start.total_seconds()
        elif self.startup.cold_start_max is not None or self.startup.cold_start_mean is not None:
            takes_s = cold_start_s(self.startup, chance)
        else:
            takes_s = chance.uniform(*REPLACED_AFTER_S)
        self.fleet.stop(node)
        self.fleet.replaced_by[node] = NodeId(successor)
        self.fleet.start(replace(known, id=successor), after_s=takes_s)

    # Outages

    async def _outage(self, outage: Outage) -> None:
        clock = self.fleet.environment.clock
        await clock.sleep(outage.start_time.total_seconds())
        struck = [node for node in self._struck(outage) if self.fleet.sound(node)]
        xid = OUTAGE_XID if outage.failure_type is FailureType.XID_ERROR else None
        self.outages += 1
        self.note("outage", outage.target, f"{outage.name} begins for {len(struck)} machines")
        for node in struck:
            self.fleet.inject(node, Failure(kind=outage.failure_type, xid=xid), cause="outage")
        await clock.sleep(outage.duration.total_seconds())
        self.outages -= 1
        self.note("outage", outage.target, f"{outage.name} is over")
        for node in struck:
            self.fleet.clear(node)

    def _struck(self, outage: Outage) -> list[NodeId]:
        if outage.scope is OutageScope.PERCENTAGE:
            return self.fleet.share_of(outage.target, self._chance(f"outage/{outage.name}"))
        return self.fleet.within(_SCOPES[outage.scope], outage.target)
