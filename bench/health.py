"""How long it takes to decide about a thousand nodes that break at once, and about one line.

usage: python -m bench.health [--nodes 10000] [--faulty 1000] [--rules 50] [--repeat 3]

A control plane with all its loops and a SQLite store on a disk. At one moment `faulty` nodes each
report a burst (a memory error and what follows from it), all at once: every report is judged by
the policy, becomes a condition and an incident and is committed, and the remediation loop plans.
`decided` is when every one of them is retiring, or held back with the reason. Then nodes break one
at a time, and `report_to_plan` is from the arrival of the report to the committed decision. The
policy is the default one, and then one of `rules` rules that count, none of which matches before
the last. `kernel_line_to_decision` is the whole way: from a line in the kernel's log through the
real agent and HTTP to the committed decision, in a pool that is a dry run, so that one machine can
break again and again.
"""

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import structlog

from bench.kernel_line import NODE, figures, measure
from navarch.api.metrics import settle_collector
from navarch.app.control_plane import Plane
from navarch.clock import SystemClock, SystemEntropy, ThreadOffload
from navarch.config.policy import default_policy
from navarch.control.runtime.controller import retried
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Health, HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.core.recovery import Remediation
from navarch.fleet.verdicts import overridden
from navarch.health.checks.xid import assess_xid
from navarch.health.policy.engine import Engine, compile_policies
from navarch.health.policy.occurrence import Occurrence
from navarch.health.policy.policy import MachinePhase, Policy, Rule
from navarch.notifiers.log import LogWorkloads
from navarch.ports.store import Committed
from navarch.providers.simulated import SimulatedCloud
from navarch.service.agents import AgentService
from navarch.stores.sqlite import SqliteStore
from navarch.stores.telemetry import TelemetryTable
from navarch.testing.worlds import a_node, a_pool

POOLS = 10
SINGLES = 100
BURST = (48, 171, 63, 45, 154)
DEADLINE_S = 120.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--faulty", type=int, default=1000)
    parser.add_argument("--rules", type=int, default=50)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    found: dict[str, object] = {"nodes": options.nodes, "faulty": options.faulty}
    for name, policy in (("default", default_policy()), ("large", large_policy(options.rules))):
        runs = [
            asyncio.run(storm(policy, options.nodes, options.faulty)) for _ in range(options.repeat)
        ]
        found[f"{name}_policy"] = {
            "rules": len(policy.rules),
            "microseconds_per_event": evaluation_us(policy),
            "runs": runs,
            "decided_s": spread([run["decided_s"] for run in runs]),
            "cpu_s": spread([run["cpu_s"] for run in runs]),
            "report_to_plan_p99_ms": spread([run["report_to_plan_ms"]["p99"] for run in runs]),
        }
    with tempfile.TemporaryDirectory() as folder:
        sent, kept = asyncio.run(measure(Path(folder), options.lines))
    found["kernel_line_to_verdict_ms"] = figures(kept)
    found["kernel_line_on_the_wire_ms"] = figures(sent)
    with tempfile.TemporaryDirectory() as folder:
        _, decided = asyncio.run(measure(Path(folder), options.lines, decisions=DryRun()))
    found["kernel_line_to_decision_ms"] = figures(decided)
    print(json.dumps(found, indent=2))


class DryRun:
    """A control plane that decides about the node of the kernel's log, and does nothing."""

    async def begin(self, store: SqliteStore, tasks: asyncio.TaskGroup) -> None:
        """Put a control plane behind the store."""
        clock = SystemClock()
        self._store, self._clock = store, clock
        self._decided = asyncio.Event()
        self._at = 0.0
        pool = a_pool("bench", size=1, remediation=Remediation(dry_run=True))
        node = a_node(NODE, "bench", launch=None, health=Health.HEALTHY)
        await store.commit(Change(pools=[pool], nodes=[node]), based_on=store.fleet().revision)
        store.subscribe(self._changed)
        plane = Plane(
            clock,
            SystemEntropy(),
            store,
            providers=[],
            notifier=LogWorkloads(),
            liveness=TelemetryTable(clock, timeout=timedelta(hours=1), nodes=[NODE]),
        )
        self._running = tasks.create_task(plane.run())

    async def made(self) -> float:
        """Return when it was decided, and make the node well again."""
        async with asyncio.timeout(DEADLINE_S):
            await self._decided.wait()
        at = self._at
        await retried(self._make_well)()
        await _until(lambda: self._store.fleet().nodes[NODE].held is None)
        self._decided.clear()
        return at

    def end(self) -> None:
        """Stop the control plane."""
        self._running.cancel()

    async def _make_well(self) -> None:
        fleet = self._store.fleet()
        node, events = overridden(fleet.nodes[NODE], "the bench", now=self._clock.now())
        await self._store.commit(Change(nodes=[node], events=events), based_on=fleet.revision)

    def _changed(self, committed: Committed) -> None:
        for node in committed.change.nodes:
            if node.held is not None and not self._decided.is_set():
                self._at = time.perf_counter()
                self._decided.set()


def spread(values: list[float]) -> dict[str, float]:
    """Return the middle of several runs, and how far apart they are."""
    return {
        "median": round(statistics.median(values), 3),
        "least": round(min(values), 3),
        "most": round(max(values), 3),
    }


async def storm(policy: Policy, nodes: int, faulty: int) -> dict[str, Any]:
    """Return how long it took until everything was decided."""
    with tempfile.TemporaryDirectory() as folder:
        clock, offload = SystemClock(), ThreadOffload("store")
        store = SqliteStore.open(Path(folder), offload, SystemEntropy())
        try:
            return await _storm(clock, store, policy, nodes, faulty)
        finally:
            offload.close()  # What is being written has been, before the file is closed.
            store.close()


async def _storm(
    clock: SystemClock, store: SqliteStore, policy: Policy, nodes: int, faulty: int
) -> dict[str, Any]:
    each = nodes // POOLS
    pools = [a_pool(f"pool-{i}", size=each) for i in range(POOLS)]
    members = [
        a_node(f"{pool.name}-{i}", pool.name, health=Health.HEALTHY, boot_id="boot")
        for pool in pools
        for i in range(each)
    ]
    await store.commit(Change(pools=pools, nodes=members), based_on=0)
    liveness = TelemetryTable(
        clock, timeout=timedelta(hours=1), nodes=[node.id for node in members]
    )
    policies = compile_policies(policy)
    plane = Plane(
        clock,
        SystemEntropy(),
        store,
        providers=[SimulatedCloud(clock, SystemEntropy(), name="sim")],
        notifier=LogWorkloads(),
        liveness=liveness,
        policies=lambda: policies,
    )
    victims = [node.id for node in members[:: max(1, nodes // faulty)]][:faulty]
    report = HealthReport(results=tuple(xid(code, clock) for code in BURST))
    running = asyncio.get_running_loop().create_task(plane.run())
    await asyncio.sleep(0.5)  # The loops have looked around and are quiet.
    settle_collector()  # As a server does once everything has been built.
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(plane.agents.report_health(name, report) for name in victims))
    weighed_s = time.perf_counter() - began
    await _until(lambda: _decided(store, victims))
    decided_s = time.perf_counter() - began
    cpu_s = time.process_time() - cpu
    await asyncio.sleep(2.0)  # The storm is over; what follows comes one at a time.
    sound = [node.id for node in members if node.id not in set(victims)][:: nodes // SINGLES]
    planned = [await _single(plane.agents, store, name, clock) for name in sound[:SINGLES]]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    incidents = store.fleet().incidents.values()
    expected = len(victims) + len(planned)
    assert len(incidents) == expected, f"{len(incidents)} incidents for {expected} nodes"
    return {
        "weighed_s": round(weighed_s, 3),
        "decided_s": round(decided_s, 3),
        "cpu_s": round(cpu_s, 3),
        "report_to_plan_ms": figures(planned),
    }


async def _single(
    agents: AgentService, store: SqliteStore, name: NodeId, clock: SystemClock
) -> float:
    """Return how long it takes from a report of one node to the decision about it."""
    began = time.perf_counter()
    await agents.report_health(name, HealthReport(results=(xid(79, clock),)))
    await _until(lambda: _decided(store, [name]))
    return time.perf_counter() - began


def _decided(store: SqliteStore, victims: list[NodeId]) -> bool:
    fleet = store.fleet()

    def is_decided(node: Node) -> bool:
        return node.retiring is not None or node.held is not None

    return all(is_decided(fleet.nodes[name]) for name in victims)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not holds():  # noqa: ASYNC110 - no event marks a complete plan
            await asyncio.sleep(0.005)


def xid(code: int, clock: SystemClock) -> CheckResult:
    """Return an XID as an agent reports it."""
    assessment = assess_xid(code)
    return CheckResult(
        check=f"xid/{code}/GPU-0",
        health=assessment.health,
        reason=f"XID {code} on GPU 0",
        fatal=assessment.fatal,
        lasting=True,
        action=str(assessment.action),
        facts={
            "code": str(code),
            "kind": "xid",
            "class": str(assessment.entry.origin),
            "gpu": "GPU-0",
            "gpu_index": "0",
            "at": clock.now().isoformat(),
            "sources": "kmsg",
        },
    )


def large_policy(rules: int) -> Policy:
    """Return a policy in which every rule is evaluated and most rules count."""
    counting = tuple(
        Rule(
            name=f"rule-{i}",
            condition='event.event_type == "xid" && '
            f"event.metrics.xid_code in [{i}, {i + 1000}, 48]"
            f" && (has(event.metrics.pid) || size(event.sources) < {i + 9})",
            result=Health.DEGRADED,
            count=100 + i,
            within=timedelta(hours=24),
        )
        for i in range(rules - len(default_policy().rules))
    )
    return Policy(name="large", rules=(*counting, *default_policy().rules))


def evaluation_us(policy: Policy) -> float:
    """Return what one event costs to judge, in microseconds of CPU."""
    engine, clock = Engine(policy), SystemClock()
    node = a_node("pool-0-0", boot_id="boot")
    seen = [
        Occurrence(result=xid(code, clock), node=node, at=clock.now(), phase=MachinePhase.BUSY)
        for code in BURST
    ]
    began, count = time.process_time(), 0
    while time.process_time() - began < 0.5:
        for occurrence in seen:
            engine.judge(occurrence)
            count += 1
    return round((time.process_time() - began) / count * 1e6, 1)


if __name__ == "__main__":
    main()
