"""The outcome of a run: one value, from which every report is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from navarch.sim.figures.durations import DurationStats
from navarch.sim.figures.figures import Figures
from navarch.sim.figures.goodput import JobRecord

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of one thing that had to hold."""

    what: str
    """In words: `node_status of node-1 is active`."""
    holds: bool
    reason: str
    """What was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The fleet at one moment."""

    at_s: float
    total: int
    active: int
    unhealthy: int
    degraded: int
    cordoned: int
    draining: int
    failures_total: int
    recoveries_total: int
    active_outages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """Something that the scenario did, or wrote into its log."""

    at_s: float
    kind: str
    """An event's action, or `failure`."""
    target: str
    text: str


class NodeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a node's history."""

    at_s: float
    kind: str
    """The journal's, or `failure` and `mended` for what was done to the machine."""
    text: str
    status: str = ""
    """How the node stood after it, by the journal; empty for what was done to the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    """All that happened to one node."""

    node: str
    provider: str
    region: str
    zone: str
    instance_type: str
    gpus: int
    gpu_type: str
    labels: Mapping[str, str]
    pool: str
    status: str
    health: str
    failures: int
    entries: tuple[NodeEntry, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleHits:
    """How often a check has called nodes degraded or unhealthy."""

    rule: str
    result: str
    hits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A scenario that has been played."""

    scenario: str
    description: str
    seed: int
    version: str
    passed: bool
    simulated_s: float
    """How long it lasted, in its own time."""
    configuration: Mapping[str, object] = field(default_factory=dict)
    """The scenario as it was understood, defaults filled in."""
    figures: Figures = field(default_factory=Figures)
    verdicts: tuple[Verdict, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    """How much was broken, by type."""
    xids: Mapping[str, int] = field(default_factory=dict)
    causes: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    """Failures for which no sound machine was left."""
    timeline: tuple[Moment, ...] = ()
    happenings: tuple[Happening, ...] = ()
    nodes: Sequence[NodeHistory] = ()
    jobs: tuple[JobRecord, ...] = ()
    rules: tuple[RuleHits, ...] = ()
    trace: str = ""
    """A digest of the journal: two runs with the same one did the same."""
    crashes: int = 0
    heartbeats_sent: int = 0
    heartbeats_lost: int = 0
    """Those that no answer came to, for whatever reason."""
    heartbeat_answers: DurationStats = field(default_factory=DurationStats)
    """How long answers took, over a wire."""
    silence_max_s: float = 0.0
    """The longest time between two answers to one agent, over a wire."""
    real_time: bool = False
    source: str = ""
    """The scenario's file, beside which others are that it names."""
    format: int = FORMAT

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """What did not hold."""
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)
