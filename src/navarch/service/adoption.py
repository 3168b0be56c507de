"""The use cases of machines that Navarch did not buy."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence

from navarch.control.runtime.controller import retried
from navarch.core.errors import InvalidError, NotFoundError, NotPossibleError
from navarch.core.event import BY_HAND
from navarch.core.fleet import Change, Fleet
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Instance
from navarch.core.node import Node
from navarch.core.ownership import Cluster
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet import lifecycle
from navarch.fleet.adoption import (
    Found,
    adopted,
    pool_event,
    released,
    size_with,
    why_not_adopted,
    why_not_released,
)
from navarch.fleet.silence import heartbeat_condition
from navarch.ports.adoption import MachineChoice
from navarch.ports.api import NodeView
from navarch.ports.clock import Clock, Entropy
from navarch.ports.store import Store
from navarch.service.views import node_view

ListMachines = Callable[[], Awaitable[Sequence[Instance]]]
"""Returns the machines of every provider."""


class AdoptionService:
    """Serves AdoptionApi. One commit is each decision and its effect, so no crash divides them."""

    def __init__(
        self, clock: Clock, entropy: Entropy, store: Store, list_machines: ListMachines
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._store = store
        self._list_machines = list_machines

    @retried
    async def forget(self, node: NodeId, *, reason: str) -> NodeView:
        """Remove a self-registered node whose host no longer reports."""
        fleet = self._store.fleet()
        before = _node(fleet, node)
        _check_forgettable(before)
        if before.gone:
            return _view(fleet, before)
        why = f"forgotten by hand: {reason}" if reason.strip() else "forgotten by hand"
        after, event = lifecycle.forgotten(before, why, now=self._clock.now())
        event = evolve(event, facts={**event.facts, "by": BY_HAND})
        change = Change(nodes=[after], events=[event])
        return _view(await self._store.commit(change, based_on=fleet.revision), after)

    async def adopt(
        self, pool: PoolName, machines: MachineChoice, *, reason: str
    ) -> Sequence[NodeView]:
        """Take running machines with agents into a pool: all of them, or none."""
        if not machines.names and not machines.labels:
            raise InvalidError("name machines, or labels that they have")
        listed = [
            machine
            for machine in await self._list_machines()
            if machines.provider in ("", machine.provider)
        ]
        return await self._adopt(pool, machines, listed, reason)

    @retried
    async def _adopt(
        self, name: PoolName, machines: MachineChoice, listed: Sequence[Instance], reason: str
    ) -> Sequence[NodeView]:
        fleet, now = self._store.fleet(), self._clock.now()
        pool = fleet.pools.get(name)
        if pool is None or pool.deleted:
            raise NotFoundError(f"pool not found: {name}")
        if pool.gang:
            raise NotPossibleError(f"pool {name} buys gangs; machines cannot join one later")
        search = _Search(fleet, pool, listed, self._store.cluster)
        found = search.find(machines)
        if search.refusals:
            raise NotPossibleError(f"nothing is adopted: {'; '.join(search.refusals)}")
        if found:
            size = size_with(pool, fleet, len(found))
            if size > pool.nodes_max:
                raise NotPossibleError(
                    f"pool {name} holds at most {pool.nodes_max} nodes and would need {size}; "
                    "raise its maximum first"
                )
            after = evolve(pool, nodes_wanted=size, scaled_at=now)
            taken = [
                adopted(after, each, Token(self._entropy.new_id("launch")), now=now)
                for each in found
            ]
            nodes = [node for node, _ in taken]
            verb = f"adopted ({reason})" if reason.strip() else "adopted"
            change = Change(
                pools=[after],
                nodes=nodes,
                events=[
                    *(event for _, event in taken),
                    pool_event(pool, after, nodes, verb, now=now),
                ],
                guards=[name],
            )
            fleet = await self._store.commit(change, based_on=fleet.revision)
        names = [*search.present, *(each.node.id for each in found)]
        return [_view(fleet, fleet.nodes[each]) for each in names]

    @retried
    async def release(self, node: NodeId, *, reason: str) -> NodeView:
        """Give up an adopted machine without terminating it."""
        fleet, now = self._store.fleet(), self._clock.now()
        before = _node(fleet, node)
        refusal = why_not_released(before)
        if refusal is not None:
            raise NotPossibleError(refusal)
        after, launch, event = released(before, reason.strip(), now=now)
        pools, events = [], [event]
        pool = None if before.pool is None else fleet.pools.get(before.pool)
        # A host that still names the pool counts in it, and needs no successor.
        if pool is not None and after.host_of != pool.name and pool.size > pool.nodes_min:
            smaller = evolve(pool, nodes_wanted=pool.size - 1, scaled_at=now)
            pools.append(smaller)
            events.append(pool_event(pool, smaller, [after], "released", now=now))
        change = Change(
            pools=pools,
            nodes=[after],
            launches=[launch],
            events=events,
            guards=[each.name for each in pools],
        )
        return _view(await self._store.commit(change, based_on=fleet.revision), after)


class _Search:
    """The machines that a pool is to adopt, with the reasons against each."""

    def __init__(
        self, fleet: Fleet, pool: Pool, listed: Sequence[Instance], cluster: Cluster
    ) -> None:
        self._cluster = cluster
        self._fleet = fleet
        self._pool = pool
        self._listed: dict[InstanceId, list[Instance]] = {}
        for instance in listed:
            self._listed.setdefault(instance.id, []).append(instance)
        self._owners = {
            (node.provider, node.instance): node
            for node in fleet.nodes.values()
            if node.instance and not node.gone
        }
        self.present: list[NodeId] = []
        """The nodes of the pool that were adopted earlier."""
        self.refusals: list[str] = []

    def find(self, machines: MachineChoice) -> list[Found]:
        """Return the machines to adopt, each once."""
        chosen: dict[InstanceId, Instance] = {}
        for name in machines.names:
            listed = self._listed.get(InstanceId(name), [])
            if len(listed) == 1:
                chosen[listed[0].id] = listed[0]
            else:
                self.refusals.append(f"{name}: {_unclear(name, listed, self._fleet)}")
        if machines.labels:
            labelled = {x.id: x for x in self._labelled(machines)}
            if not labelled:
                words = ", ".join(f"{key}={word}" for key, word in machines.labels.items())
                self.refusals.append(f"no running machine has the label {words}")
            chosen |= labelled
        agents = {name: NodeId(machines.agents.get(name, name)) for name in chosen}
        twice = [node for node, times in Counter(agents.values()).items() if times > 1]
        self.refusals += [f"node {node} cannot run on several machines" for node in twice]
        found = [self._found(instance, agents[name]) for name, instance in chosen.items()]
        return [each for each in found if each is not None]

    def _labelled(self, machines: MachineChoice) -> Iterator[Instance]:
        for each in self._listed.values():
            for instance in each:
                if instance.status.alive and machines.labels.items() <= instance.labels.items():
                    yield instance

    def _found(self, instance: Instance, agent: NodeId) -> Found | None:
        """Return the machine with its node; None if it is adopted already, or refused."""
        owner = self._owners.get((instance.provider, instance.id))
        if owner is not None:
            if owner.pool == self._pool.name and owner.launch is not None and owner.launch.adopted:
                self.present.append(owner.id)
            else:
                self.refusals.append(f"{instance.id}: it is node {owner.id} of pool {owner.pool}")
            return None
        node = self._fleet.nodes.get(agent)
        if node is None or node.gone:
            refusal: str | None = (
                f"no agent has registered as {agent}; start its agent with --node-id "
                f"{instance.id}, or name its node: {instance.id}=NODE"
            )
        else:
            refusal = why_not_adopted(self._pool, Found(instance, node), self._cluster)
        if refusal is not None:
            self.refusals.append(f"{instance.id}: {refusal}")
            return None
        assert node is not None
        return Found(instance, node)


def _unclear(name: str, listed: Sequence[Instance], fleet: Fleet) -> str:
    """Return why `name` does not name one machine."""
    if listed:
        providers = " and ".join(instance.provider for instance in listed)
        return f"{providers} list a machine of that id; pass --provider"
    if NodeId(name) in fleet.nodes:
        return f"it is a node; name the machine under it as well: ID={name}"
    return "no provider lists such a machine"


def _node(fleet: Fleet, name: NodeId) -> Node:
    node = fleet.nodes.get(name)
    if node is None:
        raise NotFoundError(f"node not found: {name}")
    return node


def _view(fleet: Fleet, node: Node) -> NodeView:
    return node_view(node, None if node.pool is None else fleet.pools.get(node.pool), None)


def _check_forgettable(node: Node) -> None:
    """Raise NotPossibleError if the machine of `node` costs money here, or still reports."""
    if node.launch is not None and node.launch.adopted:
        raise NotPossibleError(
            f"node {node.id} was adopted; give it up with `navarch release {node.id}` first"
        )
    if not node.self_registered:
        raise NotPossibleError(
            f"node {node.id} was bought by Navarch; end it with `navarch terminate {node.id}`"
        )
    if not node.gone and heartbeat_condition(node) is None:
        raise NotPossibleError(
            f"node {node.id} still reports; stop its agent (systemctl stop navarch-agent), wait "
            f"until `navarch get {node.id}` shows that it is silent, and forget it then"
        )
