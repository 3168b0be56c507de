"""The plugin: node sets to try for a group, narrowest first, and scores within them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from navarch.scheduler.framework.hooks import Subsets
from navarch.scheduler.framework.session import Session
from navarch.scheduler.model.cluster import Topology, TopologyConstraint
from navarch.scheduler.model.fit import UnschedulableJob
from navarch.scheduler.model.job import Job, PodSet, SubGroup, Task
from navarch.scheduler.model.node import Node
from navarch.scheduler.model.status import ACTIVE_ALLOCATED_MASK
from navarch.scheduler.plugins import scores
from navarch.scheduler.plugins.node_scores import BuiltInPlugin
from navarch.scheduler.plugins.topology.domains import (
    Domain,
    build_tree,
    fits,
    lowest_common,
    measure,
)

STEPS = 10
"""The number of grades of preferred domains."""


@dataclass
class TopologyPlugin(BuiltInPlugin):
    """Confines groups to one domain of their required level and prefers their preferred level."""

    name: ClassVar[str] = "topology"

    _topologies: dict[str, Topology] = field(init=False, repr=False, default_factory=dict)
    _session: Session = field(init=False, repr=False)
    _scores: dict[str, dict[str, float]] = field(init=False, repr=False, default_factory=dict)
    """The score of each node, per pod set of the job that is being placed."""

    def on_session_open(self, session: Session) -> None:
        """Register the subsets and the score."""
        self._session = session
        self._topologies = {topology.name: topology for topology in session.cluster.topologies}
        confined = {job.name for job in session.jobs.others if _is_confined(job.root)}
        if not confined:
            return

        def concerns(task: Task) -> bool:
            return task.job.name in confined

        session.add_pre_job_allocation_fn(self._begin)
        session.add_subset_nodes_fn(self._subset_nodes, only_for=concerns)
        session.add_node_order_fn(self._score, only_for=concerns)

    def _begin(self, _job: Job) -> None:
        self._scores = {}

    def _score(self, task: Task, node: Node) -> float:
        return self._scores.get(task.spec.sub_group, {}).get(node.name, 0.0)

    def _subset_nodes(
        self,
        job: Job,
        group: SubGroup | PodSet,
        pod_sets: Sequence[PodSet],
        tasks: Sequence[Task],
        nodes: Sequence[Node],
    ) -> Subsets:
        constraint = group.topology
        if constraint is None or not tasks:
            return [nodes]
        problem = self._problem(job, constraint)
        if problem is not None:
            return problem
        search = DomainSearch(self._topologies[constraint.topology], constraint, nodes, tasks)
        if constraint.preferred_level:
            grades = search.grades()
            for pod_set in pod_sets:
                self._scores[pod_set.name] = grades
        found = search.candidates(self._running_on(job, pod_sets))
        return [domain.nodes for domain in found] or search.refusal(job)

    def _problem(self, job: Job, constraint: TopologyConstraint) -> UnschedulableJob | None:
        """Return the error for a constraint on an unknown topology or level, None if valid."""
        topology = self._topologies.get(constraint.topology)
        if topology is None:
            text = f"topology {constraint.topology} does not exist"
        else:
            named = (constraint.required_level, constraint.preferred_level)
            unknown = [level for level in named if level and level not in topology.levels]
            if not unknown:
                return None
            text = f"topology {topology.name} has no level {unknown[0]}"
        return UnschedulableJob(summary=f"{text}, job <{job.namespace}/{job.name}>")

    @staticmethod
    def _running_on(job: Job, pod_sets: Sequence[PodSet]) -> set[str]:
        """Return the nodes that run tasks of the group."""
        return {
            task.node
            for pod_set in pod_sets
            for task in job.origin.pod_sets[pod_set.name].tasks
            if task.node is not None and task.status & ACTIVE_ALLOCATED_MASK
        }


class DomainSearch:
    """The domains of a node set that can hold a group, and the order in which to try them."""

    def __init__(
        self,
        topology: Topology,
        constraint: TopologyConstraint,
        nodes: Sequence[Node],
        tasks: Sequence[Task],
    ) -> None:
        self._topology = topology
        self._constraint = constraint
        self._tasks = tasks
        levels = {label: depth for depth, label in enumerate(topology.levels, start=1)}
        self._required = levels.get(constraint.required_level, 0)
        self._preferred = levels.get(constraint.preferred_level, 0)
        self._deepest = max(self._preferred, self._required)
        self._root = lowest_common(build_tree(topology, nodes), self._deepest)
        measure(self._root, tasks)
        _sort(self._root, self._deepest)

    def grades(self) -> dict[str, float]:
        """Return a score per node, by the position of its preferred domain; later is better."""
        domains = list(self._root.at_level(max(self._preferred, self._root.level)))
        return {
            node.name: float(STEPS * (position + 1) // len(domains) * scores.TOPOLOGY)
            for position, domain in enumerate(domains)
            for node in domain.nodes
        }

    def candidates(self, running_on: set[str]) -> list[Domain]:
        """Return the domains that can hold the tasks, narrow before wide, full before empty."""
        top = max(self._required, self._root.level) if self._required else self._root.level
        start = max(self._preferred, self._required, self._root.level)
        found = [
            domain
            for level in range(start, min(top, start) - 1, -1)
            for domain in self._root.at_level(level)
            if fits(domain, len(self._tasks))
        ]
        if not running_on or not self._required:
            return found
        homes = self._homes(running_on)
        return [domain for domain in found if homes.issuperset(n.name for n in domain.nodes)]

    def _homes(self, running_on: set[str]) -> set[str]:
        """Return all nodes of the required-level domains that run tasks of the group."""
        return {
            node.name
            for domain in self._root.at_level(max(self._required, self._root.level))
            if any(node.name in running_on for node in domain.nodes)
            for node in domain.nodes
        }

    def refusal(self, job: Job) -> UnschedulableJob:
        """Return why no domain can hold the tasks."""
        level = self._constraint.required_level or self._constraint.preferred_level
        summary = (
            f"topology {self._topology.name}, requirement {level} couldn't be satisfied "
            f"for job <{job.namespace}/{job.name}>"
        )
        if not fits(self._root, len(self._tasks)):
            text = f"{summary}: not enough resources in the cluster to allocate the job."
            return UnschedulableJob(summary=text)
        domains = sorted(
            self._root.at_level(max(self._required, self._root.level)), key=lambda d: d.id
        )
        return UnschedulableJob(
            summary=f"{summary}.",
            details=tuple((domain.id, self._shortage(domain)) for domain in domains),
            level=level,
            rooms=tuple((domain.id, domain.room) for domain in domains),
            wanted=len(self._tasks),
        )

    def _shortage(self, domain: Domain) -> str:
        if domain.room is None:
            return f"node-group {domain.id} lacks resources for the required pods."
        wanted = len(self._tasks)
        return f"node-group {domain.id} can allocate only {domain.room} of {wanted} required pods."


def _is_confined(group: SubGroup) -> bool:
    """Return whether the group, or a group or pod set in it, has a topology constraint."""
    if group.topology is not None:
        return True
    for pod_set in group.pod_sets:
        if pod_set.topology is not None:
            return True
    return any(map(_is_confined, group.groups))


def _sort(domain: Domain, deepest: int) -> None:
    """Sort the domains, fullest first, down to level `deepest`."""
    if domain.level >= deepest:
        return
    domain.children.sort(key=lambda child: (-child.ratio, child.id))
    for child in domain.children:
        _sort(child, deepest)
