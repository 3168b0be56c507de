"""Launch: requests from providers the machines that the journal has recorded."""

from collections.abc import Callable
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
from navarch.core.ids import ProviderName
from navarch.core.launch import Launch
from navarch.core.node import LIVE, Node, Phase
from navarch.core.ownership import Owner
from navarch.core.pool import Pool
from navarch.core.records import evolve
from navarch.fleet.launching import accepted, never_bought, refused
from navarch.ports.clock import Clock
from navarch.ports.provider import ProvisionRequest
from navarch.ports.store import Store

UserData = Callable[[ProvisionRequest, ProviderName], str]
"""Returns the boot script of a machine in a pool without one. It must return the same each
time: some providers refuse a token that comes with a different request than before."""

MissingAgent = Callable[[Pool], str | None]
"""Returns why no agent would start on machines bought for a pool; None if one would."""

TRANSIENT_MAX = 3
"""How many transient failures an offering may have before the next one is tried."""

LOOK_AGAIN = timedelta(seconds=5)
"""How often to check whether the listings have settled a launch of unknown outcome."""


class LaunchController(NodeController):
    """Turns every open launch into exactly one machine, whatever the provider answers."""

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
    ) -> None:
        self._user_data = user_data
        self._missing_agent = missing_agent
        self._providers = providers
        self._observations = observations
        self._transient_failures: dict[str, int] = {}
        super().__init__(clock, store, operations)

    def concerns(self, node: Node) -> bool:
        """Return whether the launch of `node` is open."""
        return node.launch is not None and node.launch.open

    def advance(self, node: Node, now: datetime) -> datetime | None:
        """Take the next step of an open launch."""
        launch = node.launch
        assert launch is not None, node.id
        key = f"launch/{launch.token}"
        if self._operations.busy(key):
            return None
        observed, provider = self._observations, launch.offering.provider
        if launch.asked_at < observed.started_at:
            # Recorded before this process started: the previous one may have made the call.
            observed.unsure_since.setdefault(launch.token, observed.started_at)
        unsure_since = observed.unsure_since.get(launch.token)
        if unsure_since is not None:
            settled_at = unsure_since + (
                self._providers.may_ask_again_after(provider)
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
            return self.start(node.id, key, partial(self._buy, launch))
        if node.phase is Phase.TERMINATING:
            return self.start(node.id, key, partial(self._close, launch))
        return now + LOOK_AGAIN

    async def _buy(self, launch: Launch) -> None:
        pool = self._store.fleet().pools[launch.pool]
        provider = self._providers.get(launch.offering.provider)
        self._observations.unsure_since[launch.token] = self._clock.now()
        try:
            instance = await provider.provision(self._request(launch, pool))
        except OutcomeUnknownError as error:
            event = Event(
                at=self._clock.now(),
                about=about("launch", launch.token),
                kind="launch.unsure",
                reason=f"{error}; looking for it before anything else is bought",
                because=(about("node", launch.node),),
            )
            await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)
        except ProviderError as error:
            self._observations.unsure_since.pop(launch.token, None)
            failures = self._transient_failures.pop(launch.token, 0) + 1
            if isinstance(error, TransientError) and failures < TRANSIENT_MAX:
                self._transient_failures[launch.token] = failures
                raise
            now = self._clock.now()
            answer = partial(refused, token=launch.token, error=error, now=now)
            await update_with_retry(self._store, launch.node, answer)
        else:
            self._observations.unsure_since.pop(launch.token, None)
            self._transient_failures.pop(launch.token, None)
            now = self._clock.now()
            answer = partial(accepted, token=launch.token, instance=instance, now=now)
            await update_with_retry(self._store, launch.node, answer)

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
            spot=launch.offering.spot,
            ssh_keys=pool.ssh_keys,
            labels={**pool.labels, **self._store.cluster.labels(owner)},
            user_data=pool.user_data,
            reservation=launch.offering.reservation,
            group=launch.gang.id if launch.gang else "",
            group_size=launch.gang.nodes if launch.gang else 0,
        )
        if request.user_data.strip() or self._user_data is None:
            return request
        return evolve(request, user_data=self._user_data(request, launch.offering.provider))
