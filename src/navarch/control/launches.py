"""The launch reconciler: asks providers for the machines that were written down."""

from collections.abc import Callable
from datetime import datetime, timedelta

from navarch.control.nodes import NodeFollower
from navarch.control.operations import OperationRunner
from navarch.control.pending_observations import PendingObservations
from navarch.control.providers import Providers
from navarch.control.updates import update_with_retry
from navarch.core.errors import OutcomeUnknownError, ProviderError, TransientError
from navarch.core.event import Event, about
from navarch.core.evolve import evolve
from navarch.core.fleet import Change
from navarch.core.ids import ProviderName
from navarch.core.instance import Instance
from navarch.core.launch import Launch
from navarch.core.node import LIVE, Node, Phase
from navarch.core.ownership import Owner
from navarch.core.pool import Pool
from navarch.fleet.launching import accepted, never_bought, refused
from navarch.ports.clock import Clock
from navarch.ports.provider import ProvisionRequest
from navarch.ports.store import Store

UserData = Callable[[ProvisionRequest, ProviderName], str]
"""What a machine is told at its first boot, where its pool does not say. It must be the same
each time: some providers refuse a token that comes with another request than before."""

MissingAgent = Callable[[Pool], str | None]
"""Returns why no agent would start on machines bought for a pool; None if one would."""

TRANSIENT_MAX = 3
"""How often an offering may fail for no reason of its own before the next one is tried."""

LOOK_AGAIN = timedelta(seconds=5)
"""How often to see whether the listings have settled a launch that nobody is sure of."""

_UNTIL_GONE = (*LIVE, Phase.TERMINATING)


class LaunchReconciler:
    """Turns open launches into machines: each into one, whatever the provider says."""

    name = "launches"

    def __init__(
        self,
        clock: Clock,
        store: Store,
        providers: Providers,
        errands: OperationRunner,
        evidence: PendingObservations,
        *,
        user_data: UserData | None = None,
        missing_agent: MissingAgent = lambda _: None,
    ) -> None:
        self._user_data = user_data
        self._missing_agent = missing_agent
        self._clock = clock
        self._store = store
        self._providers = providers
        self._errands = errands
        self._evidence = evidence
        self._in_vain: dict[str, int] = {}
        self._nodes = NodeFollower(
            clock, store, phases=_UNTIL_GONE, concerns=_is_open, advance=self._advance
        )
        self.agenda = self._nodes.agenda

    async def reconcile(self) -> datetime | None:
        """Move every open launch on by one step."""
        return self._nodes.round()

    def _advance(self, node: Node, now: datetime) -> datetime | None:
        launch = node.launch
        assert launch is not None, node.id
        key = f"launch/{launch.token}"
        if self._errands.busy(key):
            return None
        unsure_since = self._unsure_since(launch)
        if unsure_since is not None:
            settled_at = unsure_since + self._doubt(node, launch)
            if not self._evidence.listed_since(launch.offering.provider, settled_at):
                return max(settled_at, now) + LOOK_AGAIN
        # Here either nobody has been asked yet, or the listings show that nothing came of it.
        if node.phase is Phase.REQUESTED:
            if self._missing_agent(self._store.fleet().pools[launch.pool]) is not None:
                # It was written down when an agent would have started, or by an older version.
                return now + LOOK_AGAIN
            return self._errands.send(key, lambda: self._buy(node, launch))
        if node.phase is Phase.TERMINATING:
            return self._errands.send(key, lambda: self._close(node, launch))
        return now + LOOK_AGAIN

    def _doubt(self, node: Node, launch: Launch) -> timedelta:
        """Return for how long after the last call nothing may be concluded from a listing."""
        provider = launch.offering.provider
        if node.phase is Phase.REQUESTED:
            return self._providers.may_ask_again_after(provider)
        return self._providers.settles_after(provider)

    def _unsure_since(self, launch: Launch) -> datetime | None:
        if launch.asked_at < self._evidence.started_at:
            # Written down before this process began: the one before may have made the call.
            self._evidence.unsure_since.setdefault(launch.token, self._evidence.started_at)
        return self._evidence.unsure_since.get(launch.token)

    async def _buy(self, node: Node, launch: Launch) -> None:
        pool = self._store.fleet().pools[launch.pool]
        provider = self._providers.get(launch.offering.provider)
        self._evidence.unsure_since[launch.token] = self._clock.now()
        try:
            instance = await provider.provision(self._request(launch, pool))
        except OutcomeUnknownError as error:
            await self._record_doubt(launch, error)
        except TransientError as error:
            self._settle(launch)
            await self._try_elsewhere_after(launch, error)
        except ProviderError as error:
            self._settle(launch)
            await self._record_refusal(launch, error)
        else:
            self._settle(launch)
            self._in_vain.pop(launch.token, None)
            await self._record_purchase(launch, instance)
        finally:
            self._nodes.look_at(node.id)

    def _settle(self, launch: Launch) -> None:
        self._evidence.unsure_since.pop(launch.token, None)

    async def _try_elsewhere_after(self, launch: Launch, error: TransientError) -> None:
        failures = self._in_vain.get(launch.token, 0) + 1
        if failures < TRANSIENT_MAX:
            self._in_vain[launch.token] = failures
            raise error
        self._in_vain.pop(launch.token, None)
        await self._record_refusal(launch, error)

    async def _record_purchase(self, launch: Launch, instance: Instance) -> None:
        now = self._clock.now()
        await update_with_retry(
            self._store,
            launch.node,
            lambda _, node: accepted(node, launch.token, instance, now=now),
        )

    async def _record_refusal(self, launch: Launch, error: ProviderError) -> None:
        now = self._clock.now()
        await update_with_retry(
            self._store,
            launch.node,
            lambda _, node: refused(node, launch.token, error, now=now),
        )

    async def _record_doubt(self, launch: Launch, error: OutcomeUnknownError) -> None:
        event = Event(
            at=self._clock.now(),
            about=about("launch", launch.token),
            kind="launch.unsure",
            reason=f"{error}; looking for it before anything else is bought",
            because=(about("node", launch.node),),
        )
        await self._store.commit(Change(events=[event]), based_on=self._store.fleet().revision)

    async def _close(self, node: Node, launch: Launch) -> None:
        now = self._clock.now()
        await update_with_retry(
            self._store, node.id, lambda _, newest: never_bought(newest, launch.token, now=now)
        )
        self._evidence.forget(node.id, launch.token)

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


def _is_open(node: Node) -> bool:
    return node.launch is not None and node.launch.open
