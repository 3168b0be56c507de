"""A live fleet as an anonymised scenario.

The trace keeps external input: machines, results of checks, missing heartbeats, reclaimed machines
and commands of operators. It omits the decisions of the control plane, because a control plane that
runs the scenario decides again, with its own policy.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from navarch.core.duration import render_duration
from navarch.core.event import BY_HAND, Event, Recorded
from navarch.core.health import HEARTBEAT, Health
from navarch.core.ids import NodeId, PoolName
from navarch.core.launch import Offering
from navarch.core.node import NodeStatus
from navarch.core.recovery import BUILT_IN_STRATEGIES
from navarch.health.checks.standard import standard_checks
from navarch.health.policy.history import occurrence_of
from navarch.ports.api import NodeView, PoolSpec, PoolView
from navarch.service.agents import Timing
from navarch.sim.scenario.event import NODE_ACTIONS, Action
from navarch.sim.scenario.kinds import FailureType


@dataclass(slots=True)
class Aliases:
    """Assigns each name of a kind a number, in order of first use."""

    _known: dict[str, dict[object, str]] = field(default_factory=lambda: defaultdict(dict))

    def of(self, kind: str, name: object) -> str:
        """Return the alias of a name, such as `zone-2`; an empty name has an empty alias."""
        if not name:
            return ""
        known = self._known[kind]
        return known.setdefault(name, f"{kind}-{len(known) + 1}")

    def put(self, kind: str, name: object, alias: str) -> None:
        """Set the alias of a name."""
        self._known[kind][name] = alias

    def known(self, kind: str, name: object) -> str | None:
        """Return the alias of a name that already has one."""
        return self._known[kind].get(name)


Plain = dict[str, object]

BOOT_S = 120.0
"""The assumed boot time of machines that registered before the trace begins."""
SETTLE_S = 60.0
"""The time between the last boot of the existing machines and the start of the trace."""

_COMMANDS = {
    "node.cordoned": "cordon",
    "node.uncordoned": "uncordon",
    "node.draining": "drain",
    "node.retiring": "terminate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetTrace:
    """A scenario, and counts of what it omits."""

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
    """Return the recorded history of a fleet as an anonymised scenario.

    `journal` is the whole journal. With `since`, earlier events only determine the initial state.
    """
    return _Trace(
        pools=pools,
        nodes={node.id: node for node in nodes},
        journal=[entry.event for entry in journal],
        since=since,
        until=until,
        timing=timing or Timing(),
        prices=prices,
    ).build(name)


@dataclass(slots=True, kw_only=True)
class _NodeRecord:
    """One node, as recorded in the journal."""

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
    journal: Sequence[Event]
    since: datetime | None
    until: datetime
    timing: Timing
    prices: bool
    aliases: Aliases = field(default_factory=Aliases)
    left_out: Counter[str] = field(default_factory=Counter)
    _records: dict[NodeId, _NodeRecord] = field(default_factory=dict)
    _failing: dict[NodeId, dict[str, Plain]] = field(default_factory=lambda: defaultdict(dict))
    """The failing checks of each node, with the scenario events that inject them."""
    _cordoned: dict[NodeId, Plain] = field(default_factory=dict)
    _lead_time: timedelta = timedelta(0)

    def build(self, name: str) -> FleetTrace:
        """Return the trace."""
        pools = [view for view in self.pools if view.spec.offerings]
        self._read_records({view.spec.name for view in pools})
        bought = self._bought()
        if any(self._existed_at_start(record) for record in bought):
            # Existing machines are launched again before the trace begins.
            slowest = max(self._boots_s(bought), default=BOOT_S)
            self._lead_time = timedelta(seconds=round(slowest + SETTLE_S))
        existing = [record for record in self._records.values() if record.pool is None]
        if self.since is None:
            existing = [record for record in existing if record.registered]
        for record in existing:
            self.aliases.of("node", record.name)
        written_pools = {self._pool_alias(view.spec.name): self._pool(view.spec) for view in pools}
        # A pool names its nodes by its own name, in the order of requests.
        numbers: Counter[str] = Counter()
        for record in bought:
            assert record.pool is not None
            pool = self._pool_alias(record.pool)
            self.aliases.put("node", record.name, f"{pool}-{numbers[pool]}")
            numbers[pool] += 1
        events = [
            {"at": _render(at), **event}
            for at, event in sorted(self._events(), key=lambda each: each[0])
        ]
        plain: Plain = {
            "name": name,
            "description": f"Recorded from a live fleet: {len(self._records)} machines in "
            f"{len(written_pools)} pools, over {render_duration(self._span())}.",
            "duration": render_duration(self._lead_time + self._span()),
            "timing": {
                "heartbeat_interval": render_duration(self.timing.heartbeat_interval),
                "heartbeat_timeout": render_duration(self.timing.silence),
                "health_check_interval": render_duration(self.timing.health_check_interval),
            },
        }
        if written_pools:
            plain |= {"providers": self._providers(pools), "pools": written_pools}
        if existing:
            plain["fleet"] = [self._machine(record) for record in existing]
            events = [{"at": "0s", "action": str(Action.START_FLEET)}, *events]
        plain |= {"events": events, "assertions": list(self._assertions(pools))}
        return FleetTrace(
            plain=plain,
            machines=len(self._records),
            pools=len(written_pools),
            events=len(events),
            left_out=dict(self.left_out),
        )

    # Nodes

    @property
    def _began(self) -> datetime:
        if self.since is not None:
            return self.since
        return self.journal[0].at if self.journal else self.until

    def _span(self) -> timedelta:
        return timedelta(seconds=max(1, round((self.until - self._began).total_seconds())))

    def _read_records(self, usable: Set[PoolName]) -> None:
        """Read the journal of each node that a scenario with the usable pools can have."""
        for view in sorted(self.nodes.values(), key=lambda each: (each.created_at, each.id)):
            self._records[view.id] = _NodeRecord(
                name=view.id, pool=view.pool, began=view.created_at
            )
        for event in self.journal:
            sort, _, name = event.about.partition("/")
            record = self._records.get(NodeId(name)) if sort == "node" else None
            if record is None:
                continue
            if event.kind == "node.registered":
                record.registered.append(event.at)
            elif event.kind == "node.gone":
                record.gone = event.at
        for name, record in list(self._records.items()):
            if record.pool is not None and record.pool not in usable:
                self.left_out["machines of deleted pools"] += 1
                del self._records[name]
            elif record.gone is not None and record.gone <= self._began:
                del self._records[name]

    def _bought(self) -> list[_NodeRecord]:
        return [record for record in self._records.values() if record.pool is not None]

    def _pool_alias(self, pool: PoolName) -> str:
        return self.aliases.of("pool", pool)

    def _existed_at_start(self, record: _NodeRecord) -> bool:
        return record.began < self._began

    def _size_at_start(self, pool: PoolName) -> int:
        records = (record for record in self._bought() if record.pool == pool)
        return sum(self._existed_at_start(record) for record in records)

    # Pools and providers

    def _cloud(self, offering: Offering) -> str:
        """Return the alias of the provider; each size of machine gets a provider of its own."""
        kind = (offering.provider, offering.gpus, offering.gpu_type, offering.spot)
        return self.aliases.of("provider", kind)

    def _type(self, offering: Offering) -> str:
        return self.aliases.of("type", (offering.gpus, offering.gpu_type))

    def _pool(self, spec: PoolSpec) -> Plain:
        at_start = self._size_at_start(spec.name)
        written: Plain = {
            "providers": self._pool_providers(spec),
            "instance_type": self._type(spec.offerings[0]),
            "min_nodes": min(spec.nodes_min, at_start) if at_start else spec.nodes_min,
            "max_nodes": max(spec.nodes_max, at_start, 1),
            "boot_deadline": render_duration(spec.boot_deadline),
            "drain_timeout": render_duration(spec.drain_timeout),
            "spares": spec.spares,
            "health": {
                "unhealthy_after": spec.unhealthy_after,
                "silent_after": render_duration(spec.silent_after),
                "auto_replace": spec.auto_replace,
            },
        }
        strategy = spec.remediation.strategy
        if strategy and strategy not in BUILT_IN_STRATEGIES:
            self.left_out["custom remediators"] += 1
        elif strategy:
            written["remediation"] = {"strategy": strategy}
        return written

    def _pool_providers(self, spec: PoolSpec) -> list[Plain]:
        by_cloud: dict[str, list[Offering]] = {}
        for offering in spec.offerings:
            by_cloud.setdefault(self._cloud(offering), []).append(offering)
        written: list[Plain] = []
        for priority, (cloud, offerings) in enumerate(by_cloud.items(), start=1):
            kind = self._type(offerings[0])
            provider: Plain = {"name": cloud, "priority": priority, "instance_type": kind}
            regions = [self.aliases.of("region", x.region) for x in offerings if x.region]
            if regions:
                provider["regions"] = list(dict.fromkeys(regions))
            written.append(provider)
        return written

    def _providers(self, pools: Sequence[PoolView]) -> Plain:
        offerings = {self._cloud(x): x for view in pools for x in view.spec.offerings}
        return {cloud: self._provider(offering) for cloud, offering in offerings.items()}

    def _provider(self, offering: Offering) -> Plain:
        records = [x for x in self._bought() if self.nodes[x.name].provider == offering.provider]
        boots = sorted(self._boots_s(records)) or [BOOT_S]
        middle = timedelta(seconds=round(median(boots), 1))
        return {
            "boot_min": render_duration(min(timedelta(seconds=round(boots[0], 1)), middle)),
            "boot_max": render_duration(max(timedelta(seconds=round(boots[-1], 1)), middle)),
            "gpu_count": max(offering.gpus, 1),
            "gpu_type": offering.gpu_type,
            # Prices are confidential, so every provider gets the same one unless requested.
            "price_per_hour": float(offering.price_per_hour) if self.prices else 1.0,
        }

    def _boots_s(self, records: Iterable[_NodeRecord]) -> list[float]:
        return [
            (record.registered[0] - record.began).total_seconds()
            for record in records
            if record.registered
        ]

    def _machine(self, record: _NodeRecord) -> Plain:
        view = self.nodes[record.name]
        up = record.registered[0] if record.registered else self._began
        rack = self.aliases.of("rack", view.labels.get("rack", ""))
        found: Plain = {
            "id": self.aliases.of("node", record.name),
            "provider": self.aliases.of("provider", view.provider),
            "region": self.aliases.of("region", view.region),
            "zone": self.aliases.of("zone", view.zone),
            "gpu_count": view.gpus,
            "after": _render(max(up - self._began, timedelta(0)) + self._lead_time),
        }
        return {**found, "labels": {"rack": rack}} if rack else found

    # Events

    def _events(self) -> Iterator[tuple[timedelta, Plain]]:
        begun = False
        for event in self.journal:
            if event.at > self.until:
                break
            if not begun and event.at >= self._began:
                begun = True
                # The failures and cordons in effect at the start.
                failing = (each for checks in self._failing.values() for each in checks.values())
                for plain in (*failing, *self._cordoned.values()):
                    yield self._lead_time, plain
            sort, _, name = event.about.partition("/")
            found: Iterable[tuple[datetime, Plain]] = ()
            if sort == "node" and NodeId(name) in self._records:
                found = self._node_events(self._records[NodeId(name)], event)
            elif sort == "pool":
                found = self._pool_events(PoolName(name), event)
            elif event.kind == "launch.refused":
                self.left_out["refused launches"] += 1
            # Before the start, only the failing checks of each node are tracked.
            yield from (
                (max(at - self._began, timedelta(0)) + self._lead_time, plain)
                for at, plain in found
                if begun
            )
        for view in self.pools if self.since is not None else ():
            at_start = self._size_at_start(view.spec.name)
            if at_start > view.spec.nodes_min:
                yield timedelta(0), self._scale(view.spec.name, at_start)

    def _node_events(self, record: _NodeRecord, event: Event) -> Iterator[tuple[datetime, Plain]]:
        at, target = event.at, self.aliases.known("node", record.name)
        if target is None:
            return
        match event.kind:
            case "health.finding":
                yield from self._finding(record, target, event)
            case "node.health":
                yield from self._health(record, target, event)
            case "node.registered" if record.registered and at > record.registered[0]:
                yield at, _action(Action.RECOVER_FAILURE, target)  # The machine has restarted.
                self._failing[record.name].clear()
            case "node.retiring":
                record.retiring = True
                self._failing.pop(record.name, None)
            case "node.uncordoned":
                self._cordoned.pop(record.name, None)
            case "node.gone" if not record.retiring:
                yield at, _action(Action.RECLAIM, target)
        command = _COMMANDS.get(event.kind)
        if command is not None and event.facts.get("by") == BY_HAND:
            ordered = _action(Action.ISSUE_COMMAND, target, command_type=command)
            if command == "cordon":
                self._cordoned[record.name] = ordered
            yield at, ordered

    def _finding(
        self, record: _NodeRecord, target: str, event: Event
    ) -> Iterator[tuple[datetime, Plain]]:
        occurrence = occurrence_of(event)
        if occurrence is None or record.retiring:
            return
        result, failing = occurrence.result, self._failing[record.name]
        code = result.facts.get("code", "")
        if result.check in failing:
            return
        if result.check.startswith("xid/") and code.isdigit() and int(code):
            gpu = self._gpu(record, result.facts.get("gpu", ""))
            injected = _failure(target, FailureType.XID_ERROR, xid_code=int(code), gpu_index=gpu)
        elif result.health in (Health.DEGRADED, Health.UNHEALTHY):
            # Only what is set, as an operator would write it.
            flags = {"fatal": result.fatal, "lasting": result.lasting}
            injected = _failure(
                target,
                FailureType.CHECK,
                check=self._check(result.check),
                health=str(result.health),
                **{name: True for name, is_set in flags.items() if is_set},
            )
        else:
            return
        if result.health is not Health.HEALTHY:
            failing[result.check] = injected
        yield event.at, injected

    def _check(self, check: str) -> str:
        """Return the name of a built-in check; custom checks and places are anonymised."""
        kind, _, place = check.partition("/")
        shown = kind if kind in _BUILT_IN_CHECKS else self.aliases.of("check", kind)
        return f"{shown}/{self.aliases.of('place', place)}" if place else shown

    def _gpu(self, record: _NodeRecord, gpu: str) -> int:
        """Return the index of a GPU, or the order in which its id first appeared."""
        if gpu.isdigit():
            return int(gpu)
        if not gpu:
            return 0
        alias = self.aliases.of(f"gpu of {record.name}", gpu)
        return int(alias.rpartition("-")[2]) - 1

    def _health(
        self, record: _NodeRecord, target: str, event: Event
    ) -> Iterator[tuple[datetime, Plain]]:
        """Yield lost heartbeats and cleared failures."""
        if record.retiring:
            return
        reported = set(event.facts.get("checks", "").split())
        failing = self._failing[record.name]
        if event.facts.get("by") == BY_HAND:
            yield event.at, _action(Action.OVERRIDE, target)
            failing.clear()
            return
        if HEARTBEAT in reported and HEARTBEAT not in failing:
            failing[HEARTBEAT] = _failure(target, FailureType.NETWORK)
            yield event.at - self.timing.silence, failing[HEARTBEAT]
        for check in [check for check in failing if check not in reported]:
            injected = failing.pop(check)["params"]
            assert isinstance(injected, dict), injected
            named = {key: injected[key] for key in ("failure_type", "check") if key in injected}
            yield event.at, _action(Action.RECOVER_FAILURE, target, **named)

    def _pool_events(self, pool: PoolName, event: Event) -> Iterator[tuple[datetime, Plain]]:
        size = event.facts.get("size")
        if event.kind in ("pool.changed", "pool.deleted"):
            self.left_out[f"{event.kind.replace('.', 's ')} during the trace"] += 1
        if event.kind in ("pool.scaled", "pool.created") and size is not None:
            spec = next((view.spec for view in self.pools if view.spec.name == pool), None)
            created = event.kind == "pool.created"
            if spec is not None and not (created and int(size) == spec.nodes_min):
                yield event.at, self._scale(pool, int(size))

    def _scale(self, pool: PoolName, nodes: int) -> Plain:
        return _action(Action.SCALE, self._pool_alias(pool), nodes=nodes)

    # Assertions

    def _assertions(self, pools: Sequence[PoolView]) -> Iterator[Plain]:
        active = Counter(
            view.pool for view in self.nodes.values() if view.status is NodeStatus.ACTIVE
        )
        targets = {self._pool_alias(view.spec.name): active[view.spec.name] for view in pools}
        for target, expected in (targets or {"all": active[None]}).items():
            yield {"type": "node_count", "target": target, "expected": str(expected)}


_BUILT_IN_CHECKS = frozenset(check.name.partition("/")[0] for check in standard_checks()) | {
    HEARTBEAT
}


def _action(action: Action, target: str, **params: object) -> Plain:
    plain: Plain = {"action": str(action), "target": target}
    if action in NODE_ACTIONS:
        plain["optional"] = True  # Another policy may never buy this node.
    return {**plain, "params": params} if params else plain


def _failure(target: str, kind: FailureType, **params: object) -> Plain:
    return _action(Action.INJECT_FAILURE, target, failure_type=str(kind), **params)


def _render(moment: timedelta) -> str:
    return render_duration(timedelta(milliseconds=round(moment.total_seconds() * 1000)))
