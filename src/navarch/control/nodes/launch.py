"""Launch: requests from providers the machines that the journal has recorded."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial

from navarch.control.nodes.controller import NodeController
from navarch.control.providers.guard import Providers
from navarch.control.providers.inventory import PendingObservations
from navarch.control.runtime.controller import update_with_retry
from navarch.control.runtime.operations import OperationRunner
from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.core.event import Event, about
from navarch.core.fleet import Change
from navarch.core.ids import NodeId, ProviderName, Token
from navarch.core.instance import Instance
from navarch.core.launch import Launch
from navarch.core.node import LIVE, Node, Phase
from navarch.core.ownership import Owner
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.launching import accepted, calls_for, never_bought, refused, withdrawn
from navarch.ports.clock import Clock
from navarch.ports.provider import ProvisionRequest
from navarch.ports.store import Store

UserData = Callable[[ProvisionRequest, Pool, ProviderName], str]
"""Returns the user data of a machine in a pool without one. It must return the same each
time: some providers refuse a token that comes with a different request than before."""

MissingAgent = Callable[[Pool], str | None]
"""Returns why no agent would start on machines bought for a pool; None if one would."""

RefusedSince = Callable[[Launch], str | None]
"""Returns why the offering of a launch was refused to another one after the launch was decided on;
None if it was not."""

TRANSIENT_MAX = 3
"""How many transient failures an offering may have before the next one is tried."""

LOOK_AGAIN = timedelta(seconds=5)
"""How often to check whether the listings have settled a launch of unknown outcome."""


class LaunchController(NodeController):
    """Turns every open launch into exactly one machine, whatever the provider answers.

    Launches of one round that are alike share a call, at providers that start many machines at
    once.
    """

    name = "launches"
    phases = frozenset({*LIVE, Phase.TERMINATING})

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        operations: OperationRunner,
        observations: PendingObservations,
        *,
        user_data: UserData | None = None,
        missing_agent: MissingAgent = lambda _: None,
        refused_since: RefusedSince = lambda _: None,
        alone: Callable[[Pool], bool] = lambda _: False,
    ) -> None:
        self._user_data = user_data
        self._missing_agent = missing_agent
        self._providers = providers
        self._observations = observations
        self._refused_since = refused_since
        self._alone = alone
        self._transient_failures: dict[str, int] = {}
        self._due: list[Launch] = []
        """The launches that the present round requests."""
        self._calls: set[Token] = set()
        """The launches whose call is in flight."""
        super().__init__(clock, store, operations)

    def concerns(self, node: Node) -> bool:
        """Return whether the launch of `node` is open."""
        return node.launch is not None and node.launch.open

    async def reconcile(self, keys: Sequence[NodeId]) -> None:
        """Advance these nodes, and request their machines in as few calls as possible."""
        await super().reconcile(keys)
        due, self._due = self._due, []
        # A provider recognises the token of an earlier call, if at all, in a call of its own.
        asked, pools = self._observations.unsure_since, self._store.fleet().pools
        alone = {x.token for x in due if x.token in asked or self._alone(pools[x.pool])}
        for launches in calls_for(due, self._providers.machines_per_call, alone=alone):
            again_at = self._request_machines(launches)
            for launch in launches:
                self.queue.reschedule(launch.node, again_at)

    def _request_machines(self, launches: Sequence[Launch]) -> datetime | None:
        """Start the call for these launches; return when to come back if it has failed lately."""
        key = f"launch/{launches[0].token}"

        def then() -> None:
            for launch in launches:
                self._calls.discard(launch.token)
                self.look_at(launch.node)

        provider = launches[0].offering.provider
        again_at = self._operations.send(
            key, partial(self._buy, launches), then=then, system=provider
        )
        if again_at is None:
            self._calls |= {launch.token for launch in launches}
        return again_at

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Take the next step of an open launch."""
        launch = node.launch
        assert launch is not None, node.id
        key = f"launch/{launch.token}"
        if launch.token in self._calls or self._operations.busy(key):
            return None
        observed, provider = self._observations, launch.offering.provider
        if launch.asked_at < observed.started_at:
            # Recorded before this process started: the previous one may have made the call.
            observed.unsure_since.setdefault(launch.token, observed.started_at)
        unsure_since = observed.unsure_since.get(launch.token)
        shared = launch.token in observed.shared or launch.asked_at < observed.started_at
        if unsure_since is not None:
            settled_at = unsure_since + (
                self._providers.may_repeat_after(provider, shared=shared)
                if node.phase is Phase.REQUESTED
                else self._providers.settles_after(provider)
            )
            listed_at = observed.listed_at.get(provider)
            if listed_at is None or listed_at < settled_at:
                return max(settled_at, now) + LOOK_AGAIN
        # Either no call was made yet, or the listings show that it had no effect.
        if node.phase is Phase.REQUESTED:
            if self._missing_agent(self._store.fleet().pools[launch.pool]) is not None:
                # It was recorded when an agent would have started, or by an older version.
                return now + LOOK_AGAIN
            self._due.append(launch)
            return None
        if node.phase is Phase.TERMINATING:
            return self.start(node.id, key, partial(self._close, launch))
        return now + LOOK_AGAIN

    async def _buy(self, launches: Sequence[Launch]) -> None:
        """Request a machine for each of these launches, in one call, and record the results."""
        pool, observed = self._store.fleet().pools[launches[0].pool], self._observations
        provider = self._providers.get(launches[0].offering.provider)
        wanted = []
        for launch in launches:
            # A launch without a call so far has no machine, and need not repeat a refused call.
            why = None if launch.token in observed.unsure_since else self._refused_since(launch)
            if why is not None:
                end = partial(withdrawn, token=launch.token, why=why, now=self._clock.now())
                await update_with_retry(self._store, launch.node, end)
            else:
                wanted.append(launch)
        for launch in wanted:
            observed.unsure_since[launch.token] = self._clock.now()
            if len(wanted) > 1 or launch.zones:
                observed.shared.add(launch.token)
        if not wanted:
            return
        results = await provider.provision_all([self._request(launch, pool) for launch in wanted])
        transient = None
        for launch, result in zip(wanted, results, strict=True):
            if isinstance(result, TransientError) and self._may_retry(launch):
                observed.settle(launch.token)
                transient = result
            else:
                await self._record(launch, result)
        if transient is not None:
            raise transient

    def _may_retry(self, launch: Launch) -> bool:
        """Count a transient failure; return whether the launch may be repeated at this offering."""
        failures = self._transient_failures.pop(launch.token, 0) + 1
        if failures < TRANSIENT_MAX:
            self._transient_failures[launch.token] = failures
        return failures < TRANSIENT_MAX

    async def _record(self, launch: Launch, result: Instance | ProviderError) -> None:
        now = self._clock.now()
        if isinstance(result, OutcomeUnknownError):
            event = Event(
                at=now,
                about=about("launch", launch.token),
                kind="launch.unsure",
                reason=f"{result}; looking for it before anything else is bought",
                because=(about("node", launch.node),),
            )
            await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)
            return
        if isinstance(result, ProviderError):
            answer = partial(refused, token=launch.token, error=result, now=now)
        else:
            answer = partial(accepted, token=launch.token, instance=result, now=now)
        await update_with_retry(self._store, launch.node, answer)
        # Not before the commit: a launch that is asked again must not buy a second machine.
        self._observations.settle(launch.token)
        self._transient_failures.pop(launch.token, None)

    async def _close(self, launch: Launch) -> None:
        end = partial(never_bought, token=launch.token, now=self._clock.now())
        await update_with_retry(self._store, launch.node, end)
        self._observations.forget(launch.node, launch.token)

    def _request(self, launch: Launch, pool: Pool) -> ProvisionRequest:
        owner = Owner(node=launch.node, pool=launch.pool, token=launch.token)
        request = ProvisionRequest(
            token=launch.token,
            name=launch.node,
            instance_type=launch.offering.instance_type,
            region=launch.offering.region,
            zone=launch.offering.zone,
            zones=launch.zones,
            spot=launch.offering.spot,
            ssh_keys=pool.ssh_keys,
            labels={**pool.labels, **self._store.cluster.labels(owner)},
            user_data=pool.user_data,
            image=pool.setup.image,
            reservation=launch.offering.reservation,
            group=launch.gang.id if launch.gang else "",
            group_size=launch.gang.nodes if launch.gang else 0,
        )
        if request.user_data.strip() or self._user_data is None:
            return request
        return evolve(request, user_data=self._user_data(request, pool, launch.offering.provider))
