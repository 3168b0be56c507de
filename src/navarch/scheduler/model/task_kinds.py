"""Kinds of tasks: tasks with equal requests get equal results."""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Final

from navarch.scheduler.model.cluster import TaskSpec
from navarch.scheduler.model.request import Request

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
shape_of = attrgetter(*TRAITS, "status", "created_at")
"""Everything but its name, and the place it was found in."""


def end_of_equals(specs: Sequence[TaskSpec], start: int) -> int:
    """Return the end of the run of tasks that equal the one at `start` in all but name and place.

    Most snapshots share the objects of equal fields, so these are compared by identity first:
    reading attributes one by one is four times as fast as building tuples of them.
    """
    first = specs[start]
    request, sub_group, status = first.request, first.sub_group, first.status
    labels, selector, created_at = first.labels, first.node_selector, first.created_at
    node_affinity, affinity, apart = first.node_affinity_in, first.affinity, first.anti_affinity
    preferred, tolerations, ports = first.preferred_affinity, first.tolerations, first.host_ports
    config_maps, nominated = first.config_maps, first.nominated_node
    mig, claims, priority = first.legacy_mig, first.claims, first.order_priority
    shapes: tuple[object, ...] | None = None
    for index in range(start + 1, len(specs)):
        spec = specs[index]
        if (
            spec.request is request
            and (spec.labels is labels or spec.labels == labels)
            and (spec.node_selector is selector or spec.node_selector == selector)
            and spec.status is status
            and spec.sub_group is sub_group
            and spec.created_at is created_at
            and spec.node_affinity_in is node_affinity
            and spec.affinity is affinity
            and spec.anti_affinity is apart
            and spec.preferred_affinity is preferred
            and spec.tolerations is tolerations
            and spec.host_ports is ports
            and spec.config_maps is config_maps
            and spec.nominated_node is nominated
            and spec.legacy_mig is mig
            and spec.claims is claims
            and spec.order_priority is priority
        ):
            continue
        shapes = shapes or shape_of(first)
        if shape_of(spec) != shapes:
            return index
    return len(specs)


class Kinds:
    """Numbers for kinds of tasks: the same number for equal requests."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self.exemplars: list[TaskSpec] = []
        """The first task of every kind there has been so far."""
        self._seen: dict[int, tuple[tuple[object, ...], int]] = {}
        """By the identity of a request, the traits of the last task with it, and their number. The
        caller keeps the requests alive."""

    def number(self, spec: TaskSpec) -> int:
        """Return the number of the task's kind."""
        traits = traits_of(spec)
        request = spec.request
        seen = self._seen.get(id(request))
        if seen is None or seen[0] != traits:
            others = [_frozen(trait) if trait else None for trait in traits[1:]]
            key = (_request_key(request), *others)
            number = self._numbers.setdefault(key, len(self.exemplars))
            if number == len(self.exemplars):
                self.exemplars.append(spec)
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
        _frozen(gpu.mig) if gpu.mig else None,
    )


def _frozen(value: object) -> object:
    """Return something that is not empty as a value that can be a key."""
    if isinstance(value, Mapping):
        return tuple(sorted(value.items()))
    if isinstance(value, tuple) and not isinstance(value[0], str | int):
        return repr(value)
    return value
