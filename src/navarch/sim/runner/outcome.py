"""The outcome of a run: one value, from which every report is made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import yaml

from navarch.core.errors import InvalidError
from navarch.sim.figures.figures import Figures, JobRecord
from navarch.sim.figures.reactions import DurationStats
from navarch.sim.scenario.loading import parse_scenario, read_file
from navarch.sim.scenario.scenario import Scenario

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


def dump_outcome(outcome: Outcome) -> bytes:
    """Return an outcome as JSON."""
    return msgspec.json.format(msgspec.json.encode(outcome, enc_hook=_plain), indent=2) + b"\n"


def load_outcome(path: Path) -> Outcome:
    """Return the outcome in a file, or raise InvalidError."""
    try:
        held = path.read_bytes()
        outcome = msgspec.json.decode(held, type=Outcome)
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}") from error
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise InvalidError(
            f"{path}: not an outcome that `navarch sim run --out` wrote: {error}"
        ) from error
    if outcome.format != FORMAT:
        raise InvalidError(f"{path}: written in format {outcome.format}; this version has {FORMAT}")
    return outcome


def scenario_of(outcome: Outcome) -> Scenario:
    """Return the scenario that an outcome came from."""
    text = yaml.safe_dump(msgspec.to_builtins(outcome.configuration), sort_keys=False)
    folder = Path(outcome.source).absolute().parent
    return parse_scenario(text, source=outcome.scenario, folder=folder, read_file=read_file)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise NotImplementedError(f"{type(value).__name__} has no form in JSON")
