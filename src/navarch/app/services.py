"""The services behind the doors, one set for each scope of callers."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from navarch.api.guard import guarded
from navarch.app.access import AccessService
from navarch.app.control_plane import Plane
from navarch.config import Config
from navarch.control.alerts import AlertSetup
from navarch.control.pools.ledger import Ledger
from navarch.core.access import Scope
from navarch.core.errors import NotFoundError, NotPossibleError
from navarch.core.ids import NodeId, PoolName
from navarch.fleet.money.books import Account
from navarch.health.policy.engine import PolicySet
from navarch.ports.access import AccessApi
from navarch.ports.adoption import AdoptionApi
from navarch.ports.agents import JoinApi
from navarch.ports.alerts import AlertApi
from navarch.ports.api import CostBy, DetailedFleet, JobApi
from navarch.ports.clock import Clock, Entropy
from navarch.ports.evidence import Archive, EvidenceApi
from navarch.ports.fleet_health import FleetHealthApi, HeldApi
from navarch.ports.policies import PolicyApi
from navarch.ports.shell import BringUpApi, BringUpLogs
from navarch.ports.store import Store
from navarch.ports.tokens import TokenApi
from navarch.service.alerts import AlertService
from navarch.service.evidence import EvidenceKeys, EvidenceService
from navarch.service.fleet_health import FleetHealthService, HeldService
from navarch.service.joining import BringUpService, JoinService
from navarch.service.policies import PolicyService
from navarch.service.quotas import TeamQuotas
from navarch.service.scoping import (
    CallersArchive,
    CallersBringUpLogs,
    CallersStore,
    pool_of,
    sees_budget,
)
from navarch.service.tokens import TokenService, TokenUses

SCOPES_MAX = 64
"""How many scopes have their services kept; those of others are built again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Every use case of operators."""

    fleet: DetailedFleet
    jobs: JobApi
    alerts: AlertApi
    evidence: EvidenceApi
    held: HeldApi
    bringups: BringUpApi
    joins: JoinApi
    health: FleetHealthApi
    policies: PolicyApi
    access: AccessApi
    adoption: AdoptionApi
    tokens: TokenApi


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    """What services are built from."""

    clock: Clock
    entropy: Entropy
    store: Store
    plane: Plane
    archive: Archive
    logs: BringUpLogs
    alerts: AlertSetup
    policies: Callable[[], PolicySet]
    config: Callable[[], Config]
    uses: TokenUses
    quotas: TeamQuotas
    evidence_keys: EvidenceKeys


class ScopedServices:
    """Builds and keeps the services of each scope."""

    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._kept: OrderedDict[Scope, Services] = OrderedDict()

    def of(self, scope: Scope) -> Services:
        """Return the services for some pools."""
        found = self._kept.pop(scope, None) or build_services(self._parts, scope)
        self._kept[scope] = found
        if len(self._kept) > SCOPES_MAX:
            self._kept.popitem(last=False)
        return found

    def guarded(self) -> Services:
        """Return services that serve each caller what its scope allows. Doors get only these."""
        return Services(
            fleet=guarded(DetailedFleet, lambda scope: self.of(scope).fleet),
            jobs=guarded(JobApi, lambda scope: self.of(scope).jobs),
            alerts=guarded(AlertApi, lambda scope: self.of(scope).alerts),
            evidence=guarded(EvidenceApi, lambda scope: self.of(scope).evidence),
            held=guarded(HeldApi, lambda scope: self.of(scope).held),
            bringups=guarded(BringUpApi, lambda scope: self.of(scope).bringups),
            joins=guarded(JoinApi, lambda scope: self.of(scope).joins),
            health=guarded(FleetHealthApi, lambda scope: self.of(scope).health),
            policies=guarded(PolicyApi, lambda scope: self.of(scope).policies),
            access=guarded(AccessApi, lambda scope: self.of(scope).access),
            adoption=guarded(AdoptionApi, lambda scope: self.of(scope).adoption),
            tokens=guarded(TokenApi, lambda scope: self.of(scope).tokens),
        )


def build_services(parts: ServiceParts, scope: Scope) -> Services:
    """Return the services for some pools."""
    clock, plane = parts.clock, parts.plane
    store = CallersStore(parts.store, scope)
    whole = scope.everything
    fleet = plane.fleet_over(
        store,
        plane.ledger if whole else FreshLedger(clock, store),
        plane.opinions.budgets
        if whole
        else [x for x in plane.opinions.budgets if sees_budget(scope, store.fleet().pools, x)],
        failing=plane.failing if whole else lambda: (),
        team=scope.teams[0] if len(scope.teams) == 1 else "",
        quotas=parts.quotas,
    )
    return Services(
        fleet=fleet,
        jobs=plane.jobs_over(store),
        alerts=AlertService(clock, parts.entropy, store, parts.alerts),
        evidence=EvidenceService(
            clock, store, CallersArchive(parts.archive, store, scope), parts.evidence_keys
        ),
        held=HeldService(clock, store),
        bringups=BringUpService(store, CallersBringUpLogs(parts.logs, store, scope)),
        joins=JoinService(clock, store),
        health=FleetHealthService(clock, store),
        policies=PolicyService(clock, parts.policies),
        access=AccessService(store, parts.config),
        adoption=plane.adoption_over(store),
        tokens=TokenService(clock, parts.entropy, store, parts.uses),
    )


class FreshLedger(Ledger):
    """A ledger of one scope. It is read for every question, because no commit advances it."""

    def __init__(self, clock: Clock, store: Store) -> None:
        super().__init__(clock, store)
        self._of = (clock, store)

    async def accounts(
        self, by: CostBy, *, since: datetime | None, until: datetime
    ) -> Mapping[str, Account]:
        """Return what each group has cost."""
        return await Ledger(*self._of).accounts(by, since=since, until=until)


def host_pool(store: Store, resolve: Callable[[NodeId], NodeId], node: NodeId) -> PoolName | None:
    """Return the pool that a self-registered node serves.

    `resolve` returns the node of a machine, by its name at the provider, from an index: an agent
    may ask for any name with each heartbeat. Raises NotFoundError for an unknown node, and
    NotPossibleError for a machine that was bought.
    """
    nodes = store.fleet().nodes
    known = nodes.get(node) or nodes.get(resolve(node))
    if known is None:
        raise NotFoundError(f"node not found: {node}")
    if not known.self_registered:
        raise NotPossibleError(
            f"the machine of node {known.id} was bought by Navarch, so it reports with its join "
            f"token; get one with: navarch join-token {known.id}"
        )
    return pool_of(known)
