"""Fuse the observations of several sources into single events.

The kernel log is first and complete, but may be unreadable or overrun. NVML follows tens of
milliseconds later, without text, and loses causes in a burst. The tracepoint is complete, on new
drivers. An error seen by any source has happened; seen by two, it has happened once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from navarch.health.kernel_faults import is_kernel_fault
from navarch.health.xid.assessment import decisive
from navarch.health.xid.catalogue import kind_of
from navarch.ports.checks import EventSource

WINDOW = timedelta(seconds=2)
"""Observations within this time may be of one event. NVML was measured 110 ms after the log."""
BURST = timedelta(milliseconds=250)
"""Repeated lines of one source within this time belong to one event: an exception takes up to four
lines, a few milliseconds apart. Later lines are a new event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One source's report of an error."""

    source: str
    at: datetime
    device: str
    code: int
    text: str = ""
    pid: int | None = None
    process: str = ""
    pci: str = ""
    place: int = 0
    """The position in its source, to acknowledge it once it is processed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XidEvent:
    """One error, with all its observations."""

    number: int
    at: datetime
    device: str
    code: int
    text: str
    observations: tuple[Observation, ...]

    @property
    def sources(self) -> frozenset[str]:
        """The sources that saw it."""
        return frozenset(observation.source for observation in self.observations)

    @property
    def pid(self) -> int | None:
        """The affected process. Only the last line of an exception may name it."""
        return next((s.pid for s in self.observations if s.pid is not None), None)

    @property
    def process(self) -> str:
        """The name of that process."""
        return next((s.process for s in self.observations if s.process), "")

    @property
    def pci(self) -> str:
        """The device's PCI address, if a source gave it."""
        return next((s.pci for s in self.observations if s.pci), "")


class Fusion:
    """Groups observations, in the order in which they arrive, into events.

    The first observation creates the event, without waiting for other sources. Later ones join it,
    or update it if they bring the text that decides and the first had none. Events before `began`,
    when not all sources were open, do not count as missed.
    """

    def __init__(self, sources: Iterable[str], *, began: datetime | None = None) -> None:
        self._began = began
        self._recent: list[XidEvent] = []
        self._made = 0
        self._sources = {source: EventSource(name=source) for source in sources}

    @property
    def sources(self) -> tuple[EventSource, ...]:
        """Every source, with its counts of seen and missed events."""
        return tuple(self._sources.values())

    def see(self, observations: Sequence[Observation], *, now: datetime) -> list[XidEvent]:
        """Return the events that `observations` create or change."""
        touched: dict[int, XidEvent] = {}
        for observation in observations:
            event = self._add(observation)
            touched[event.number] = event
        self._close(now)
        return list(touched.values())

    def _add(self, observation: Observation) -> XidEvent:
        """Add an observation to the nearest matching event, or to a new one."""
        known = self._sources.get(observation.source, EventSource(name=observation.source))
        same = [event for event in self._recent if _is_of_event(observation, event)]
        if same:
            before = min(same, key=lambda event: (abs(observation.at - event.at), event.number))
            is_new = observation.source not in before.sources
            event = replace(
                before,
                text=before.text or observation.text,
                observations=(*before.observations, observation),
            )
            self._recent[self._recent.index(before)] = event
        else:
            is_new = True
            self._made += 1
            event = XidEvent(
                number=self._made,
                at=observation.at,
                device=observation.device,
                code=observation.code,
                text=observation.text,
                observations=(observation,),
            )
            self._recent.append(event)
        self._sources[observation.source] = replace(
            known, lines=known.lines + 1, events=known.events + is_new, last_at=observation.at
        )
        return event

    def _close(self, now: datetime) -> None:
        """Drop events that can no longer be joined, and count the sources that missed them."""
        over = [event for event in self._recent if now - event.at > WINDOW]
        self._recent = [event for event in self._recent if now - event.at <= WINDOW]
        for event in over:
            if is_kernel_fault(event.code) or (self._began and event.at < self._began):
                continue  # No other source reports faults of the kernel.
            for source, known in self._sources.items():
                is_missed = source not in event.sources
                self._sources[source] = replace(
                    known,
                    missed=known.missed + is_missed,
                    missed_in_a_row=known.missed_in_a_row + 1 if is_missed else 0,
                )


def _is_of_event(observation: Observation, event: XidEvent) -> bool:
    if (event.device, event.code) != (observation.device, observation.code):
        return False
    if abs(observation.at - event.at) > WINDOW:
        return False
    earlier = [s.at for s in event.observations if s.source == observation.source]
    if earlier and observation.at - earlier[-1] > BURST:
        return False
    if not event.text or not observation.text or is_kernel_fault(event.code):
        return True
    kind, code = kind_of(event.code), event.code
    # Two links that go down, or two recovery actions, are two events however close.
    return decisive(kind, code, event.text) == decisive(kind, code, observation.text)
