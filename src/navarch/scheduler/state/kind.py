"""Telling tasks apart by what they ask for: equal tasks get equal answers."""

from collections.abc import Mapping
from operator import attrgetter
from typing import Final

from navarch.scheduler.cluster import TaskSpec
from navarch.scheduler.request import Request

TRAITS: Final = (
    "request",
    "sub_group",
    "labels",
    "node_selector",
    "node_affinity_in",
    "affinity",
    "anti_affinity",
    "preferred_affinity",
    "tolerations",
    "host_ports",
    "config_maps",
    "nominated_node",
    "legacy_mig",
    "claims",
    "order_priority",
)
"""Everything of a task that decides where it may go, and when; the first is its request."""

traits_of = attrgetter(*TRAITS)
looks_of = attrgetter(*TRAITS, "status", "created_at")
"""Everything but its name, and the place it was found in."""


class Kinds:
    """Numbers for kinds of tasks: the same number for those that ask for the same."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._seen: dict[int, tuple[tuple[object, ...], int]] = {}
        """By the identity of a request, what tasks with it looked like last, and their number.
        Whoever asks keeps the requests."""

    def number(self, spec: TaskSpec) -> int:
        """Return the number of the task's kind."""
        traits = traits_of(spec)
        request = spec.request
        seen = self._seen.get(id(request))
        if seen is None or seen[0] != traits:
            key = (_request_key(request), *map(_frozen, traits[1:]))
            number = self._numbers.setdefault(key, len(self._numbers))
            seen = self._seen[id(request)] = (traits, number)
        return seen[1]


def _request_key(request: Request) -> object:
    gpu = request.gpu
    return (
        request.cpu_milli,
        request.memory_bytes,
        request.pods,
        request.dra_gpus,
        gpu.kind,
        gpu.count,
        gpu.fraction,
        gpu.memory_mib,
        gpu.devices,
        _frozen(gpu.mig),
    )


def _frozen(value: object) -> object:
    if not value:
        return value if isinstance(value, bool) else None
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    if isinstance(value, tuple) and not isinstance(value[0], str | int):
        return repr(value)
    return value
