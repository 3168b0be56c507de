"""Values that a scenario keeps in other files: health policies, recordings and capacity traces."""

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from navarch.agent.recording import Recording, RecordingError, read_recording
from navarch.config.block import Nested
from navarch.config.context import Scope
from navarch.config.document import Items, Tree
from navarch.config.errors import ConfigError
from navarch.config.kinds import BOOLEAN, DURATION_OR_ZERO, TEXT, FilePath, Integer, ListOf
from navarch.config.policy import parse_policy
from navarch.config.schema import block, key
from navarch.health.policy.engine import PolicySet, compile_policies

T = TypeVar("T")


def _read_named_file(node: Tree, scope: Scope, parse: Callable[[str, str], T], remedy: str) -> T:
    """Return `parse(path, text)` of the file that `node` names, or record why it is unusable."""
    path = FilePath().read(node, scope)
    try:
        return parse(path, scope.context.read_file(scope.context.resolve_path(path)).text)
    except (OSError, ValueError, RecordingError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise scope.refuse(node, f"{path}: {reason}", remedy) from error
    except ConfigError as error:
        problem = error.problems[0]
        place = f":{problem.place.line}:{problem.place.column}" if problem.place else ""
        raise scope.refuse(node, f"{path}{place}: {problem.message}", problem.remedy) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFile:
    """The path and text of a valid health policy."""

    path: str
    text: str

    def compile(self) -> PolicySet:
        """Return the policy as the control plane evaluates it."""
        return compile_policies(parse_policy(self.text, source=self.path))


class PolicyPath:
    """The path of a health policy."""

    noun = "the path of a policy"

    def read(self, node: Tree, scope: Scope) -> PolicyFile:
        """Return the policy, or record the first problem of its file."""
        return _read_named_file(node, scope, _parse_policy, "write the path of a policy")

    def plain(self, value: PolicyFile) -> object:
        """Return the path."""
        return value.path


def _parse_policy(path: str, text: str) -> PolicyFile:
    parse_policy(text, source=path)
    return PolicyFile(path=path, text=text)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingFile:
    """A recording of a real machine, and its path."""

    path: str
    recording: Recording


class RecordingPath:
    """The path of a recording that `navarch agent record` wrote."""

    noun = "the path of a recording"

    def read(self, node: Tree, scope: Scope) -> RecordingFile:
        """Return the recording, or record the problem of its file."""
        remedy = "write the path of a file that `navarch agent record` made"
        return _read_named_file(node, scope, _parse_recording, remedy)

    def plain(self, value: RecordingFile) -> object:
        """Return the path."""
        return value.path


def _parse_recording(path: str, text: str) -> RecordingFile:
    recording = read_recording(text.encode().splitlines())
    if not recording.gpus:
        raise ValueError("no GPU was recorded")
    return RecordingFile(path=path, recording=recording)


@block()
class CapacityStep:
    """The number of machines of one type that a cloud can provide from a moment on."""

    at: timedelta = key(DURATION_OR_ZERO, "the moment it begins", default=timedelta(0))
    instance_type: str = key(TEXT, "the instance type; `TYPE spot` for its spot machines")
    machines: int = key(
        Integer(least=0, most=1_000_000),
        "how many can run at the same time, including those already running",
    )
    reclaim: bool = key(
        BOOLEAN,
        "whether running machines above that number are reclaimed, newest first",
        default=False,
    )


_CAPACITY_STEPS = ListOf(each=Nested(cls=CapacityStep))


class CapacityPath:
    """The path of a CSV file: at_seconds, instance_type, machines[, reclaim]."""

    noun = "the path of a CSV file"

    def read(self, node: Tree, scope: Scope) -> tuple[CapacityStep, ...]:
        """Return the steps in the file. A list of steps is accepted in place of a path."""
        if isinstance(node, Items):
            return _CAPACITY_STEPS.read(node, scope)
        remedy = "write the path of a CSV file with the columns at_seconds, instance_type, machines"
        return _read_named_file(node, scope, _parse_capacity, remedy)

    def plain(self, value: tuple[CapacityStep, ...]) -> object:
        """Return the steps."""
        return _CAPACITY_STEPS.plain(value)


def _parse_capacity(_path: str, text: str) -> tuple[CapacityStep, ...]:
    try:
        return tuple(
            CapacityStep(
                at=timedelta(seconds=float(row["at_seconds"])),
                instance_type=row["instance_type"],
                machines=int(row["machines"]),
                reclaim=row.get("reclaim", "") in ("1", "true", "yes"),
            )
            for row in csv.DictReader(io.StringIO(text))
        )
    except (KeyError, ValueError, TypeError) as error:
        raise ValueError(f"not a capacity trace: {error}") from error
