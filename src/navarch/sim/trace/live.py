"""A live fleet as a scenario: who was there and what befell them, under names that say nothing.

What is kept is what came from outside: machines, what their checks said, silence, machines that
were taken away, and what people asked for. What the control plane decided about it is left out,
since a control plane that plays the scenario decides again, by whatever policy it has.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from navarch.core.duration import render_duration
from navarch.core.event import BY_HAND, Event, Recorded
from navarch.core.health import HEARTBEAT, CheckResult, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import NodeStatus
from navarch.core.offering import Offering
from navarch.core.remediation import BUILT_IN_STRATEGIES
from navarch.health.checks.standard import standard_checks
from navarch.health.policy.history import occurrence_of
from navarch.ports.api import NodeView, PoolSpec, PoolView
from navarch.service.agents import Timing
from navarch.sim.scenario.event import NODE_ACTIONS, Action
from navarch.sim.scenario.kinds import FailureType
from navarch.sim.trace.aliases import Aliases

Plain = dict[str, object]

BOOT_S = 120.0
"""How long machines take to boot of which nobody saw the beginning."""
SETTLE_S = 60.0
"""How long after the last boot of the machines that were there already the trace begins."""

_COMMANDS = {
    "node.cordoned": "cordon",
    "node.uncordoned": "uncordon",
    "node.draining": "drain",
    "node.retiring": "terminate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTrace:
    """A scenario, and what could not be put into it."""

    plain: Plain
    machines: int
    pools: int
    events: int
    left_out: Mapping[str, int]


def trace_fleet(
    pools: Sequence[PoolView],
    nodes: Sequence[NodeView],
    journal: Sequence[Recorded],
    *,
    name: str,
    since: datetime | None = None,
    until: datetime,
    timing: Timing | None = None,
    prices: bool = False,
) -> FleetTrace:
    """Return what happened to a fleet as a scenario, anonymised.

    `journal` is all there is; with `since`, what came before only tells who was there then.
    """
    return _Trace(
        pools=pools,
        nodes={node.id: node for node in nodes},
        journal=journal,
        since=since,
        until=until,
        timing=timing or Timing(),
        prices=prices,
    ).written(name)


@dataclass(slots=True, kw_only=True)
class _Life:
    """One node as the journal has it."""

    name: NodeId
    pool: PoolName | None
    began: datetime
    registered: list[datetime] = field(default_factory=list)
    retiring: bool = False
    gone: datetime | None = None


@dataclass(slots=True, kw_only=True)
class _Trace:
    pools: Sequence[PoolView]
    nodes: Mapping[NodeId, NodeView]
    journal: Sequence[Recorded]
    since: datetime | None
    until: datetime
    timing: Timing
    prices: bool
    aliases: Aliases = field(default_factory=Aliases)
    left_out: Counter[str] = field(default_factory=Counter)
    _lives: dict[NodeId, _Life] = field(default_factory=dict)
    _open: dict[NodeId, dict[str, Plain]] = field(default_factory=lambda: defaultdict(dict))
    """What is wrong with each node: the names of checks, and the events that say so."""
    _cordoned: dict[NodeId, Plain] = field(default_factory=dict)
    _lead: timedelta = timedelta(0)

    def written(self, name: str) -> FleetTrace:
        """Return the trace."""
        self._read_lives()
        self._lead = self._leading_time()
        bought, found = self._bought(), self._found()
        for life in found:
            self.aliases.of("node", life.name)
        pools = [view for view in self.pools if self._fits(view)]
        written_pools = {self._pool_alias(view.spec.name): self._pool(view) for view in pools}
        self._name_bought(bought)
        events = self._events()
        plain: Plain = {
            "name": name,
            "description": f"Recorded from a live fleet: {len(self._lives)} machines in "
            f"{len(written_pools)} pools, over {render_duration(self._span())}.",
            "duration": render_duration(self._lead + self._span()),
            "timing": {
                "heartbeat_interval": render_duration(self.timing.heartbeat_interval),
                "heartbeat_timeout": render_duration(self.timing.silence),
                "health_check_interval": render_duration(self.timing.health_check_interval),
            },
        }
        if written_pools:
            plain |= {"providers": self._providers(pools), "pools": written_pools}
        if found:
            plain["fleet"] = [self._machine(life) for life in found]
            events = [{"at": "0s", "action": str(Action.START_FLEET)}, *events]
        plain |= {"events": events, "assertions": list(self._assertions(pools))}
        return FleetTrace(
            plain=plain,
            machines=len(self._lives),
            pools=len(written_pools),
            events=len(events),
            left_out=dict(self.left_out),
        )

    # Who was there

    @property
    def _began(self) -> datetime:
        if self.since is not None:
            return self.since
        return self.journal[0].event.at if self.journal else self.until

    def _span(self) -> timedelta:
        return timedelta(seconds=max(1, round((self.until - self._began).total_seconds())))

    def _read_lives(self) -> None:
        for view in sorted(self.nodes.values(), key=lambda each: (each.created_at, each.id)):
            self._lives[view.id] = _Life(name=view.id, pool=view.pool, began=view.created_at)
        for event in self._told():
            sort, _, name = event.about.partition("/")
            life = self._lives.get(NodeId(name)) if sort == "node" else None
            if life is None:
                continue
            if event.kind == "node.registered":
                life.registered.append(event.at)
            elif event.kind == "node.gone":
                life.gone = event.at
        told = {None, *(view.spec.name for view in self.pools if self._fits(view))}
        for name, life in list(self._lives.items()):
            if life.pool not in told:
                self.left_out["machines of pools that are gone"] += 1
                del self._lives[name]
            elif life.gone is not None and life.gone <= self._began:
                del self._lives[name]

    def _told(self) -> Iterator[Event]:
        return (entry.event for entry in self.journal)

    def _bought(self) -> list[_Life]:
        return [life for life in self._lives.values() if life.pool is not None]

    def _found(self) -> list[_Life]:
        lives = (life for life in self._lives.values() if life.pool is None)
        return [life for life in lives if life.registered or self.since is not None]

    def _name_bought(self, lives: Iterable[_Life]) -> None:
        """Call bought nodes what a pool of that name will call them: in the order of requests."""
        numbers: Counter[PoolName] = Counter()
        for life in lives:
            assert life.pool is not None
            pool = self._pool_alias(life.pool)
            self.aliases.put("node", life.name, f"{pool}-{numbers[life.pool]}")
            numbers[life.pool] += 1

    def _pool_alias(self, pool: PoolName) -> str:
        return self.aliases.of("pool", pool)

    def _there_at_first(self, life: _Life) -> bool:
        return life.began < self._began

    def _leading_time(self) -> timedelta:
        """Return how long machines that were there already need to be there again."""
        if not any(self._there_at_first(life) for life in self._bought()):
            return timedelta(0)
        slowest = max(self._boots_s(self._bought()), default=BOOT_S)
        return timedelta(seconds=round(slowest + SETTLE_S))

    # What is for sale

    def _fits(self, view: PoolView) -> bool:
        """Return whether a pool can be told in a scenario."""
        return bool(view.spec.offerings)

    def _cloud(self, offering: Offering) -> str:
        """Return whose machine it is; machines of another size are somebody else's."""
        kind = (offering.provider, offering.gpus, offering.gpu_type, offering.spot)
        return self.aliases.of("provider", kind)

    def _type(self, offering: Offering) -> str:
        return self.aliases.of("type", (offering.gpus, offering.gpu_type))

    def _pool(self, view: PoolView) -> Plain:
        spec = view.spec
        lives = [life for life in self._bought() if life.pool == spec.name]
        at_first = sum(self._there_at_first(life) for life in lives)
        return {
            "providers": self._sellers(spec),
            "instance_type": self._type(spec.offerings[0]),
            "min_nodes": min(spec.nodes_min, at_first) if at_first else spec.nodes_min,
            "max_nodes": max(spec.nodes_max, at_first, 1),
            "boot_deadline": render_duration(spec.boot_deadline),
            "drain_timeout": render_duration(spec.drain_timeout),
            "spares": spec.spares,
            "health": {
                "unhealthy_after": spec.unhealthy_after,
                "silent_after": render_duration(spec.silent_after),
                "auto_replace": spec.auto_replace,
            },
            **self._remediation(spec),
        }

    def _remediation(self, spec: PoolSpec) -> Plain:
        strategy = spec.remediation.strategy
        if strategy and strategy not in BUILT_IN_STRATEGIES:
            self.left_out["remediators of one's own"] += 1
            return {}
        return {"remediation": {"strategy": strategy}} if strategy else {}

    def _sellers(self, spec: PoolSpec) -> list[Plain]:
        by_cloud: dict[str, list[Offering]] = {}
        for offering in spec.offerings:
            by_cloud.setdefault(self._cloud(offering), []).append(offering)
        return [
            {
                "name": cloud,
                "priority": priority,
                "instance_type": self._type(offerings[0]),
                **self._regions(offerings),
            }
            for priority, (cloud, offerings) in enumerate(by_cloud.items(), start=1)
        ]

    def _regions(self, offerings: Sequence[Offering]) -> Plain:
        regions = dict.fromkeys(self.aliases.of("region", x.region) for x in offerings if x.region)
        return {"regions": list(regions)} if regions else {}

    def _providers(self, pools: Sequence[PoolView]) -> Plain:
        offerings = {self._cloud(x): x for view in pools for x in view.spec.offerings}
        return {cloud: self._provider(offering) for cloud, offering in offerings.items()}

    def _provider(self, offering: Offering) -> Plain:
        lives = [x for x in self._bought() if self.nodes[x.name].provider == offering.provider]
        boots = sorted(self._boots_s(lives)) or [BOOT_S]
        middle = timedelta(seconds=round(median(boots), 1))
        found: Plain = {
            "boot_min": render_duration(min(timedelta(seconds=round(boots[0], 1)), middle)),
            "boot_max": render_duration(max(timedelta(seconds=round(boots[-1], 1)), middle)),
            "gpu_count": max(offering.gpus, 1),
            "gpu_type": offering.gpu_type,
        }
        # What was paid is somebody's secret; a price that is the same everywhere is nobody's.
        price = offering.price_per_hour if self.prices else Decimal(1)
        return {**found, "price_per_hour": float(price)}

    def _boots_s(self, lives: Iterable[_Life]) -> list[float]:
        return [
            (life.registered[0] - life.began).total_seconds() for life in lives if life.registered
        ]

    def _machine(self, life: _Life) -> Plain:
        view = self.nodes[life.name]
        up = life.registered[0] if life.registered else self._began
        rack = self.aliases.of("rack", view.labels.get("rack", ""))
        found: Plain = {
            "id": self.aliases.of("node", life.name),
            "provider": self.aliases.of("provider", view.provider),
            "region": self.aliases.of("region", view.region),
            "zone": self.aliases.of("zone", view.zone),
            "gpu_count": view.gpus,
            "after": _when(max(up - self._began, timedelta(0)) + self._lead),
        }
        return {**found, "labels": {"rack": rack}} if rack else found

    # What befell them

    def _events(self) -> list[Plain]:
        told = sorted(self._all_events(), key=lambda each: each[0])
        return [{"at": _when(at), **event} for at, event in told]

    def _all_events(self) -> Iterator[tuple[timedelta, Plain]]:
        begun = False
        for event in self._told():
            if event.at > self.until:
                break
            if not begun and event.at >= self._began:
                begun = True
                yield from ((self._lead, plain) for plain in self._wrong_at_first())
            sort, _, name = event.about.partition("/")
            found: Iterable[tuple[datetime, Plain]] = ()
            if sort == "node" and NodeId(name) in self._lives:
                found = self._of_node(self._lives[NodeId(name)], event)
            elif sort == "pool":
                found = self._of_pool(PoolName(name), event)
            elif event.kind == "launch.refused":
                self.left_out["refused launches"] += 1
            # Before the beginning, only what is wrong with whom is followed.
            yield from (
                (max(at - self._began, timedelta(0)) + self._lead, plain)
                for at, plain in found
                if begun
            )
        if self.since is not None:
            yield from self._sizes_at_first()

    def _wrong_at_first(self) -> Iterator[Plain]:
        """Yield what was wrong with machines already, and who was cordoned, when it began."""
        for wrong in self._open.values():
            yield from wrong.values()
        yield from self._cordoned.values()

    def _sizes_at_first(self) -> Iterator[tuple[timedelta, Plain]]:
        for view in self.pools:
            lives = [life for life in self._bought() if life.pool == view.spec.name]
            at_first = sum(self._there_at_first(life) for life in lives)
            if at_first > view.spec.nodes_min:
                yield timedelta(0), self._scale(view.spec.name, at_first)

    def _of_node(self, life: _Life, event: Event) -> Iterator[tuple[datetime, Plain]]:
        at, target = event.at, self.aliases.known("node", life.name)
        if target is None:
            return
        match event.kind:
            case "health.finding":
                yield from self._finding(life, target, event)
            case "node.health":
                yield from self._health(life, target, event)
            case "node.registered" if life.registered and at > life.registered[0]:
                yield at, _act(Action.RECOVER_FAILURE, target)  # It has been restarted.
                self._open[life.name].clear()
            case "node.retiring":
                life.retiring = True
                self._open.pop(life.name, None)
            case "node.uncordoned":
                self._cordoned.pop(life.name, None)
            case "node.gone" if not life.retiring:
                yield at, _act(Action.RECLAIM, target)
        command = _COMMANDS.get(event.kind)
        if command is not None and event.facts.get("by") == BY_HAND:
            ordered = _act(Action.ISSUE_COMMAND, target, command_type=command)
            if command == "cordon":
                self._cordoned[life.name] = ordered
            yield at, ordered

    def _finding(self, life: _Life, target: str, event: Event) -> Iterator[tuple[datetime, Plain]]:
        occurrence = occurrence_of(event)
        if occurrence is None or life.retiring:
            return
        result, wrong = occurrence.result, self._open[life.name]
        code = result.facts.get("code", "")
        if result.check in wrong:
            return
        if result.check.startswith("xid/") and code.isdigit() and int(code):
            gpu = self._gpu(life, result.facts.get("gpu", ""))
            struck = _broken(target, FailureType.XID_ERROR, xid_code=int(code), gpu_index=gpu)
        elif result.health in (Health.DEGRADED, Health.UNHEALTHY):
            struck = _broken(target, FailureType.CHECK, **self._said(result))
        else:
            return
        if result.health is not Health.HEALTHY:
            wrong[result.check] = struck
        yield event.at, struck

    def _said(self, result: CheckResult) -> Plain:
        told: Plain = {"check": self._check(result.check), "health": str(result.health)}
        if result.fatal:
            told["fatal"] = True
        if result.lasting:
            told["lasting"] = True
        return told

    def _check(self, check: str) -> str:
        """Return the name of a check of ours; those of one's own, and places, get a number."""
        kind, _, place = check.partition("/")
        shown = kind if kind in _OURS else self.aliases.of("check", kind)
        return f"{shown}/{self.aliases.of('place', place)}" if place else shown

    def _gpu(self, life: _Life, gpu: str) -> int:
        """Return a number for a GPU of a machine: its own, or the order in which it was met."""
        if gpu.isdigit():
            return int(gpu)
        if not gpu:
            return 0
        alias = self.aliases.of(f"gpu of {life.name}", gpu)
        return int(alias.rpartition("-")[2]) - 1

    def _health(self, life: _Life, target: str, event: Event) -> Iterator[tuple[datetime, Plain]]:
        """Yield silence, and what has passed."""
        if life.retiring:
            return
        failing = set(event.facts.get("checks", "").split())
        wrong = self._open[life.name]
        if event.facts.get("by") == BY_HAND:
            yield event.at, _act(Action.OVERRIDE, target)
            wrong.clear()
            return
        if HEARTBEAT in failing and HEARTBEAT not in wrong:
            wrong[HEARTBEAT] = _broken(target, FailureType.NETWORK)
            yield event.at - self.timing.silence, wrong[HEARTBEAT]
        for check in [check for check in wrong if check not in failing]:
            struck = wrong.pop(check)["params"]
            assert isinstance(struck, dict), struck
            named = {key: struck[key] for key in ("failure_type", "check") if key in struck}
            yield event.at, _act(Action.RECOVER_FAILURE, target, **named)

    def _of_pool(self, pool: PoolName, event: Event) -> Iterator[tuple[datetime, Plain]]:
        size = event.facts.get("size")
        if event.kind in ("pool.changed", "pool.deleted"):
            self.left_out[f"{event.kind.replace('.', 's ')} on the way"] += 1
        if event.kind in ("pool.scaled", "pool.created") and size is not None:
            spec = next((view.spec for view in self.pools if view.spec.name == pool), None)
            created = event.kind == "pool.created"
            if spec is not None and not (created and int(size) == spec.nodes_min):
                yield event.at, self._scale(pool, int(size))

    def _scale(self, pool: PoolName, nodes: int) -> Plain:
        return _act(Action.SCALE, self._pool_alias(pool), nodes=nodes)

    # What came of it

    def _assertions(self, pools: Sequence[PoolView]) -> Iterator[Plain]:
        active = Counter(
            view.pool for view in self.nodes.values() if view.status is NodeStatus.ACTIVE
        )
        for view in pools:
            pool = view.spec.name
            yield {
                "type": "node_count",
                "target": self._pool_alias(pool),
                "expected": str(active[pool]),
            }
        if not pools:
            yield {"type": "node_count", "target": "all", "expected": str(active[None])}


_OURS = frozenset(check.name.partition("/")[0] for check in standard_checks()) | {HEARTBEAT}


def _act(action: Action, target: str, **params: object) -> Plain:
    plain: Plain = {"action": str(action), "target": target}
    if action in NODE_ACTIONS:
        plain["optional"] = True  # Another policy may never buy this node.
    return {**plain, "params": params} if params else plain


def _broken(target: str, kind: FailureType, **params: object) -> Plain:
    return _act(Action.INJECT_FAILURE, target, failure_type=str(kind), **params)


def _when(moment: timedelta) -> str:
    return render_duration(timedelta(milliseconds=round(moment.total_seconds() * 1000)))
