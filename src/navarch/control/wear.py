"""The wear reconciler: remembers how GPUs use up spare memory, and says when it will be gone."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from navarch.control.agenda import LONG_AGO
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.health import CheckResult, Condition, HealthReport
from navarch.core.ids import NodeId
from navarch.core.node import Node
from navarch.health.checks.rows import Banks, spare_rows
from navarch.health.learning.wear import LOOK_BACK, WEAR, WearReading, evaluate_wear
from navarch.ports.clock import Clock
from navarch.ports.store import Store

SUBJECT = about("machines", "wear")
WORN = "gpu.worn"

NoteFindings = Callable[[NodeId, Sequence[CheckResult]], Awaitable[None]]
"""Has findings of the control plane's own judged by the policy, and written down."""

LOOK_EVERY = timedelta(minutes=10)
"""How often readings are looked at. Rows last for weeks."""

KNOWN_AFTER = timedelta(hours=1)
"""A machine that has been here for so long would have told of worn GPUs before: those that it
tells of only now were new until now."""


@dataclass(frozen=True, slots=True)
class _Heard:
    node: NodeId
    at: datetime
    banks: Banks


class WearReconciler:
    """Keeps the history of each worn GPU in the journal, one event for each step that it wears.

    Readings come with every round of an agent's checks and mostly say what the last one said.
    One that is lost in a crash comes again with the next.
    """

    name = "wear"

    def __init__(self, clock: Clock, store: Store, note_findings: NoteFindings) -> None:
        self._clock = clock
        self._store = store
        self._note_findings = note_findings
        self._readings: dict[str, list[WearReading]] = {}
        self._on: dict[str, NodeId] = {}
        self._labels: dict[str, str] = {}
        self._heard: dict[str, _Heard] = {}
        self._read = False
        self.on_sooner: Callable[[], None] = lambda: None

    def hear(self, node: NodeId, report: HealthReport) -> None:
        """Take in what a report says about spare rows."""
        told = [
            spare for result in report.results if result.facts for spare in spare_rows(result.facts)
        ]
        if not told:
            return  # As most: there is nothing to date.
        now = self._clock.now()
        at = min(report.at or now, now)
        for gpu, banks in told:
            before = self._heard.get(gpu)
            if before is None or before.at <= at:
                self._heard[gpu] = _Heard(node, at, banks)
        self.on_sooner()

    async def reconcile(self) -> datetime | None:
        """Write down what has worn, and say how long the rest will last."""
        if not self._read:
            await self._remember()
        heard, self._heard = self._heard, {}
        try:
            await self._learn(heard)
        except BaseException:
            self._heard = {**heard, **self._heard}
            raise
        now = self._clock.now()
        for gpu, node in sorted(self._on.items()):
            await self._judge(gpu, node, now)
        return now + LOOK_EVERY

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do: while no GPU wears, never."""
        return LONG_AGO if self._heard or self._on or not self._read else None

    async def _remember(self) -> None:
        number = 0
        while page := await self._store.events(after=number, about=SUBJECT):
            number = page[-1].number
            for entry in page:
                self._take(entry.event)
        self._read = True

    async def _learn(self, heard: dict[str, _Heard]) -> None:
        fleet = self._store.fleet()
        events: list[Event] = []
        for gpu, news in sorted(heard.items()):
            node = fleet.nodes.get(news.node)
            known = self._readings.get(gpu)
            if node is None or (known and known[-1].banks == news.banks):
                continue
            last = known[-1] if known else None
            before = last or _unworn(node, news)
            events.append(_worn(gpu, news, before, now=self._clock.now()))
        if events:
            await self._store.commit(Change(events=events), based_on=fleet.revision)
        for event in events:
            self._take(event)
        for gpu, news in heard.items():
            if gpu in self._readings:
                self._on[gpu] = news.node

    def _take(self, event: Event) -> None:
        facts = event.facts
        at = datetime.fromisoformat(facts["at"])
        gpu, reading = facts["gpu"], WearReading(at=at, banks=_banks(facts["banks"]))
        known = self._readings.setdefault(gpu, [])
        if known and known[-1].used > reading.used:
            known.clear()  # Nobody gets spare rows back: it was repaired, or read wrongly before.
        if not known and "before" in facts:
            since = datetime.fromisoformat(facts["before_at"])
            known.append(WearReading(at=since, banks=_banks(facts["before"])))
        known.append(reading)
        while len(known) > 2 and known[1].at < reading.at - LOOK_BACK:
            del known[0]
        self._on[gpu] = NodeId(facts["node"])

    async def _judge(self, gpu: str, name: NodeId, now: datetime) -> None:
        node = self._store.fleet().nodes.get(name)
        if node is None or node.gone:
            del self._on[gpu]
            self._labels.pop(gpu, None)
            return
        label = await self._label(name, gpu)
        found = evaluate_wear(gpu, label, self._readings[gpu], _said(node, gpu), now=now)
        if found is not None:
            await self._note_findings(name, [found])

    async def _label(self, node: NodeId, gpu: str) -> str:
        """Return what people on the machine call a GPU."""
        if gpu not in self._labels:
            inventory = await self._store.inventory(node)
            gpus = inventory.gpus if inventory else ()
            named = (f"GPU {each.index}" for each in gpus if each.uuid == gpu)
            self._labels[gpu] = next(named, gpu)
        return self._labels[gpu]


def _said(node: Node, gpu: str) -> Condition | None:
    check = f"{WEAR}/{gpu}"
    return next((c for c in node.conditions if c.check == check), None)


def _unworn(node: Node, news: _Heard) -> WearReading | None:
    """Return the GPU as it was before it was first told of, if that is known."""
    since = node.registered_at
    if since is None or news.at < since + KNOWN_AFTER:
        return None
    return WearReading(at=since, banks=(sum(news.banks), 0, 0, 0, 0))


def _worn(gpu: str, news: _Heard, before: WearReading | None, *, now: datetime) -> Event:
    facts = {
        "gpu": gpu,
        "node": str(news.node),
        "at": news.at.isoformat(),
        "banks": _words(news.banks),
    }
    if before is not None:
        facts |= {"before": _words(before.banks), "before_at": before.at.isoformat()}
    reading = WearReading(at=news.at, banks=news.banks)
    steps = reading.used - (before.used if before else 0)
    return Event(
        at=now,
        about=SUBJECT,
        kind=WORN,
        reason=f"{gpu} on {news.node} has used up {steps} more steps of its spare memory rows",
        because=(about("node", news.node),),
        facts=facts,
    )


def _words(banks: Banks) -> str:
    return " ".join(map(str, banks))


def _banks(words: str) -> Banks:
    full, high, partial, low, none = map(int, words.split())
    return full, high, partial, low, none
