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
    """The result of one assertion."""

    what: str
    """The assertion as text: `node_status of node-1 is active`."""
    holds: bool
    reason: str
    """What was found."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The fleet at one moment."""

    at_s: float = 0.0
    total: int = 0
    active: int = 0
    unhealthy: int = 0
    degraded: int = 0
    cordoned: int = 0
    draining: int = 0
    failures_total: int = 0
    recoveries_total: int = 0
    active_outages: int = 0


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
    """The kind in the journal; `failure` or `mended` for a change of the machine itself."""
    text: str
    status: str = ""
    """The node's status afterwards; empty for a change of the machine itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeHistory:
    """The history of one node."""

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
    """How often a check has reported nodes degraded or unhealthy."""

    rule: str
    result: str
    hits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a completed run."""

    scenario: str
    description: str
    seed: int
    version: str
    passed: bool
    simulated_s: float
    """Its duration in scenario time."""
    configuration: Mapping[str, object] = field(default_factory=dict)
    """The parsed scenario, with defaults."""
    figures: Figures = field(default_factory=Figures)
    verdicts: tuple[Verdict, ...] = ()
    failures: Mapping[str, int] = field(default_factory=dict)
    """The number of injected faults, by type."""
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
    """Heartbeats without an answer."""
    heartbeat_answers: DurationStats = field(default_factory=DurationStats)
    """Reply times, in a run over a network."""
    silence_max_s: float = 0.0
    """The longest time between two replies to one agent, in a run over a network."""
    real_time: bool = False
    source: str = ""
    """The scenario's file; paths in it are relative to its folder."""
    format: int = FORMAT

    @property
    def broken(self) -> tuple[Verdict, ...]:
        """The assertions that did not hold."""
        return tuple(verdict for verdict in self.verdicts if not verdict.holds)
