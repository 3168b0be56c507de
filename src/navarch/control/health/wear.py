"""Wear: records how GPUs use up spare memory rows, and predicts when none are left."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.control.runtime.controller import Controller
from navarch.control.runtime.journal import read_journal
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.health.checks.memory import Banks, spare_rows
from navarch.health.learning.wear import LOOK_BACK, WEAR, WearReading, evaluate_wear
from navarch.ports.clock import Clock
from navarch.ports.store import Store

SUBJECT = about("machines", "wear")
WORN = "gpu.worn"

NoteFindings = Callable[[NodeId, Sequence[CheckResult]], Awaitable[None]]
"""Has findings of the control plane evaluated by the policy, and recorded."""

ALL_GPUS = "all GPUs"

LOOK_EVERY = timedelta(minutes=10)
"""How often readings are evaluated. Rows last for weeks."""

KNOWN_AFTER = timedelta(hours=1)
"""A machine registered for this long has reported worn GPUs before, if it had any: a GPU that it
reports only now had no wear until now."""


@dataclass(frozen=True, slots=True)
class _Reading:
    node: NodeId
    at: datetime
    banks: Banks


class WearController(Controller):
    """Keeps the history of each worn GPU in the journal, one event for each step of wear.

    Readings arrive with every round of an agent's checks and are mostly equal to the last one. A
    reading that is lost in a crash arrives again with the next round.
    """

    name = "wear"

    def __init__(self, clock: Clock, store: Store, note_findings: NoteFindings) -> None:
        super().__init__(clock, store, [ALL_GPUS])
        self._note_findings = note_findings
        self._readings: dict[str, list[WearReading]] = {}
        self._on: dict[str, NodeId] = {}
        self._labels: dict[str, str] = {}
        self._new: dict[str, _Reading] = {}
        self._read = False

    def on_report(self, node: NodeId, report: HealthReport) -> None:
        """Take the spare rows of a report."""
        spares = [
            spare for result in report.results if result.facts for spare in spare_rows(result.facts)
        ]
        if not spares:
            return
        now = self._clock.now()
        at = min(report.at or now, now)
        for gpu, banks in spares:
            before = self._new.get(gpu)
            if before is None or before.at <= at:
                self._new[gpu] = _Reading(node, at, banks)
        self.queue.add(ALL_GPUS)

    async def reconcile(self, _keys: Sequence[str]) -> None:
        """Record wear, and evaluate how long the spare rows will last."""
        if not self._read:
            for entry in await read_journal(self._store, about=SUBJECT):
                self._take(entry.event)
            self._read = True
        new, self._new = self._new, {}
        try:
            await self._learn(new)
        except BaseException:
            self._new = {**new, **self._new}
            raise
        now = self._clock.now()
        for gpu, node in sorted(self._on.items()):
            await self._evaluate(gpu, node, now)
        if self._on:
            self.queue.add_at(ALL_GPUS, now + LOOK_EVERY)

    async def _learn(self, readings: dict[str, _Reading]) -> None:
        fleet = self._store.fleet()
        events: list[Event] = []
        for gpu, reading in sorted(readings.items()):
            node = fleet.nodes.get(reading.node)
            known = self._readings.get(gpu)
            if node is None or (known and known[-1].banks == reading.banks):
                continue
            last = known[-1] if known else None
            before = last or _unworn(node, reading)
            events.append(_worn(gpu, reading, before, now=self._clock.now()))
        if events:
            await self._store.commit(Change(events=events), based_on=fleet.revision)
        for event in events:
            self._take(event)
        for gpu, reading in readings.items():
            if gpu in self._readings:
                self._on[gpu] = reading.node

    def _take(self, event: Event) -> None:
        facts = event.facts
        at = datetime.fromisoformat(facts["at"])
        gpu, reading = facts["gpu"], WearReading(at=at, banks=_banks(facts["banks"]))
        known = self._readings.setdefault(gpu, [])
        if known and known[-1].used > reading.used:
            known.clear()  # Spare rows do not come back: it was repaired, or a reading was wrong.
        if not known and "before" in facts:
            since = datetime.fromisoformat(facts["before_at"])
            known.append(WearReading(at=since, banks=_banks(facts["before"])))
        known.append(reading)
        while len(known) > 2 and known[1].at < reading.at - LOOK_BACK:
            del known[0]
        self._on[gpu] = NodeId(facts["node"])

    async def _evaluate(self, gpu: str, name: NodeId, now: datetime) -> None:
        node = self._store.fleet().nodes.get(name)
        if node is None or node.gone:
            del self._on[gpu]
            self._labels.pop(gpu, None)
            return
        if gpu not in self._labels:
            self._labels[gpu] = await gpu_label(self._store, name, gpu)
        check = f"{WEAR}/{gpu}"
        condition = next((each for each in node.conditions if each.check == check), None)
        found = evaluate_wear(gpu, self._labels[gpu], self._readings[gpu], condition, now=now)
        if found is not None:
            await self._note_findings(name, [found])


async def gpu_label(store: Store, node: NodeId, gpu: str) -> str:
    """Return the name of a GPU on its machine; its UUID if the machine does not list it."""
    inventory = await store.inventory(node)
    gpus = inventory.gpus if inventory else ()
    return next((f"GPU {each.index}" for each in gpus if each.uuid == gpu), gpu)


def _unworn(node: Node, reading: _Reading) -> WearReading | None:
    """Return the GPU before its first reading, if that is known."""
    since = node.registered_at
    if since is None or reading.at < since + KNOWN_AFTER:
        return None
    return WearReading(at=since, banks=(sum(reading.banks), 0, 0, 0, 0))


def _worn(gpu: str, reading: _Reading, before: WearReading | None, *, now: datetime) -> Event:
    facts = {
        "gpu": gpu,
        "node": str(reading.node),
        "at": reading.at.isoformat(),
        "banks": _words(reading.banks),
    }
    if before is not None:
        facts |= {"before": _words(before.banks), "before_at": before.at.isoformat()}
    worn = WearReading(at=reading.at, banks=reading.banks)
    steps = worn.used - (before.used if before else 0)
    return Event(
        at=now,
        about=SUBJECT,
        kind=WORN,
        reason=f"{gpu} on {reading.node} has used up {steps} more steps of its spare memory rows",
        because=(about("node", reading.node),),
        facts=facts,
    )


def _words(banks: Banks) -> str:
    return " ".join(map(str, banks))


def _banks(words: str) -> Banks:
    full, high, partial, low, none = map(int, words.split())
    return full, high, partial, low, none
