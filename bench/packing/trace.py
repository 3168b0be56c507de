"""Machines and pods, read from two CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from navarch.core.errors import InvalidError
from navarch.scheduler.packing.shape import WHOLE, MachineKind, Shape

LARGEST: Final = 10**12
"""An upper bound on every amount in the files."""

MOST_GPUS: Final = 64
"""More devices on one machine are treated as a mistake in the file."""

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
POD_COLUMNS: Final = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
GPU_SPEC: Final = "gpu_spec"


class Machine(NamedTuple):
    """One node of the cluster, when empty."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str

    @property
    def kind(self) -> MachineKind:
        """The properties that decide which pods the machine can hold."""
        return (self.cpu_milli, self.memory_mib, self.gpus, self.model)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A cluster, and the pods that were observed on it."""

    machines: tuple[Machine, ...]
    pods: tuple[Shape, ...]

    @property
    def capacity(self) -> int:
        """The thousandths of GPUs of all machines."""
        return sum(machine.gpus for machine in self.machines) * WHOLE


def read_trace(nodes: Iterable[str], pods: Iterable[str], *, names: tuple[str, str]) -> Trace:
    """Return the trace in two CSV files; errors refer to the files by `names`."""
    trace = Trace(
        machines=tuple(parse_machines(nodes, names[0])), pods=tuple(parse_pods(pods, names[1]))
    )
    if not trace.capacity:
        raise InvalidError(f"{names[0]}: no node has a GPU; give the list of GPU nodes")
    if not any(pod.demand for pod in trace.pods):
        raise InvalidError(f"{names[1]}: no pod requests a GPU, so no load can be reached")
    return trace


def parse_machines(lines: Iterable[str], name: str) -> Iterator[Machine]:
    """Yield the nodes of a CSV file."""
    seen: dict[str, int] = {}
    for row in _rows(lines, name, NODE_COLUMNS):
        node = row.text("sn")
        if not node:
            raise row.wrong("sn", "is empty; every node needs a name of its own")
        if node in seen:
            raise row.wrong("sn", f"{node!r} is also on line {seen[node]}; names are unique")
        seen[node] = row.line
        yield Machine(
            node,
            row.number("cpu_milli"),
            row.number("memory_mib"),
            row.number("gpu", most=MOST_GPUS),
            row.text("model"),
        )


def parse_pods(lines: Iterable[str], name: str) -> Iterator[Shape]:
    """Yield the pods of a CSV file; columns that do not affect placement are ignored."""
    for row in _rows(lines, name, POD_COLUMNS):
        cpu, memory = row.number("cpu_milli"), row.number("memory_mib")
        gpus = row.number("num_gpu", most=MOST_GPUS)
        if not gpus:
            yield Shape(cpu, memory, 0, 0)
            continue
        milli = row.number("gpu_milli", most=WHOLE)
        if milli == 0:
            raise row.wrong("gpu_milli", "is 0 though num_gpu is not; specify how much of each GPU")
        if gpus > 1 and milli < WHOLE:
            raise row.wrong("gpu_milli", f"is {milli} for {gpus} GPUs; only one GPU can be shared")
        models = {part.strip() for part in row.text(GPU_SPEC).split("|")} - {""}
        yield Shape(cpu, memory, gpus, milli, tuple(sorted(models)))


class _Row(NamedTuple):
    """One line of a file, with its position for error messages."""

    file: str
    line: int
    cells: Mapping[str, str]

    def text(self, column: str) -> str:
        return self.cells.get(column, "").strip()

    def number(self, column: str, *, most: int = LARGEST) -> int:
        text = self.text(column)
        if not (text.isascii() and text.isdigit()):
            raise self.wrong(column, f"{text!r} is not a whole number of 0 or more")
        if int(text) > most:
            raise self.wrong(column, f"{text} is more than {most}; check the unit")
        return int(text)

    def wrong(self, column: str, problem: str) -> InvalidError:
        return InvalidError(f"{self.file}, line {self.line}, {column}: {problem}")


def _rows(lines: Iterable[str], name: str, needed: tuple[str, ...]) -> Iterator[_Row]:
    reader = csv.reader(lines, strict=True)
    header = [cell.strip().removeprefix("\ufeff") for cell in _next(reader, name) or ()]
    if missing := [column for column in needed if column not in header]:
        raise InvalidError(
            f"{name}, line 1: no column {', '.join(missing)}; the header must name "
            f"{', '.join(needed)} (commas between, any order, others are ignored)"
        )
    found = False
    while (cells := _next(reader, name)) is not None:
        if not cells:
            continue
        found = True
        if len(cells) != len(header):
            raise InvalidError(
                f"{name}, line {reader.line_num}: {len(cells)} cells under a header of "
                f"{len(header)}; check for a missing or unquoted comma"
            )
        yield _Row(name, reader.line_num, dict(zip(header, cells, strict=True)))
    if not found:
        raise InvalidError(f"{name}: no line below the header; there is nothing to place")


def _next(reader: Iterator[list[str]], name: str) -> list[str] | None:
    try:
        return next(reader, None)
    except csv.Error as error:
        line = getattr(reader, "line_num", 0)
        raise InvalidError(f"{name}, line {line}: {error}; is this a CSV file?") from error
    except UnicodeDecodeError as error:
        line = getattr(reader, "line_num", 0) + 1
        raise InvalidError(f"{name}, line {line}: not UTF-8 text; save it as such") from error
