"""The contract of every provider. Subclass it, supply a provider, and run it with pytest.

The control plane relies on these promises: no machine is bought twice, and none is forgotten.
Implement `run`, `settle` and `request`; the other hooks inject faults. A hook that cannot inject
its fault returns False, and its tests are skipped.
"""

import contextlib
import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence

import pytest

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    QuotaError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.instance import Instance, InstanceHealth, InstanceStatus
from navarch.core.ownership import Cluster, Owner
from navarch.core.records import evolve
from navarch.ports.provider import (
    AnnouncesNotices,
    BuysOncePerToken,
    ChecksInstances,
    DescribesTopology,
    LabelsMachines,
    Provider,
    ProvisionRequest,
    ProvisionsMany,
)

Story = Callable[[Provider], Awaitable[None]]

LABELS = {"navarch-cluster": "c-1", "navarch-token": "t-1", "team": "research"}

REFUSALS: tuple[type[ProviderError], ...] = (
    CapacityError,
    QuotaError,
    CredentialError,
    RejectedError,
    TransientError,
)
"""The errors of a launch that bought nothing, for: try elsewhere, alert an operator, fix the
credentials, fix the pool, wait."""

DEAD = (InstanceHealth.IMPAIRED, InstanceHealth.STOPPED, InstanceHealth.TERMINATED)

TERMINATE_TRIES = 20
"""How often a machine is terminated, and its listing awaited, before the test fails."""


def story(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a test of an async method: the `run` of its class supplies its first argument."""

    @functools.wraps(test)
    def run(contract: "ProviderContract", **parameters: object) -> None:
        contract.run(lambda subject: test(contract, subject, **parameters))

    # Pytest reads from the signature which arguments to supply.
    contract, _subject, *others = inspect.signature(test).parameters.values()
    run.__signature__ = inspect.Signature([contract, *others])  # type: ignore[attr-defined]
    return run


class ProviderContract:
    """One promise per test.

    `run` runs a story with a new provider without faults; `settle` waits for as long as its
    listings lag; `request` is a request that the provider can fulfil. The other hooks inject
    faults, from the next call until `recover`.
    """

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        """Make launches fail in the way that the adapter must report as `error`."""
        del provider, error
        return False

    def sell_out(self, provider: Provider, zone: str) -> bool:
        """Make the type of `request` sold out in that zone, until `recover`."""
        del provider, zone
        return False

    def other_zone(self) -> str:
        """Return another zone of the region of `request`."""
        return "zone-2"

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        """Lose the responses to launches; `effect`: the launches take effect nevertheless."""
        del provider, effect
        return False

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        """Lose the responses to terminations; `effect`: they take effect nevertheless."""
        del provider, effect
        return False

    def lag(self, provider: Provider) -> bool:
        """Make listings lag by the provider's maximum."""
        del provider
        return False

    def small_pages(self, provider: Provider) -> bool:
        """Make listings come in pages of two machines."""
        del provider
        return False

    def impair(self, provider: Provider, instance: InstanceId) -> bool:
        """Let the provider's status check of a machine fail."""
        del provider, instance
        return False

    def recover(self, provider: Provider) -> None:
        """Remove all faults."""
        del provider

    def run(self, story: Story) -> None:
        raise NotImplementedError

    async def settle(self) -> None:
        raise NotImplementedError

    def request(self) -> ProvisionRequest:
        return ProvisionRequest(
            token=Token("t-1"),
            name="training-0",
            instance_type="h100-8x",
            region="region-1",
            zone="zone-1",
            ssh_keys=("ssh-ed25519 AAAA me",),
            labels=LABELS,
            user_data="#cloud-config\n",
        )

    @story
    async def test_a_new_machine_is_listed_with_all_its_attributes(
        self, provider: Provider
    ) -> None:
        request = self.request()
        bought = await provider.provision(request)
        await self.settle()
        listed = await _listed(provider, bought.id)
        assert listed is not None
        assert listed.provider == provider.name
        assert listed.instance_type == request.instance_type
        assert listed.region == request.region
        assert listed.status.alive
        assert listed.labels.items() >= LABELS.items()
        assert listed.launched_at is not None
        assert listed.launched_at.tzinfo is not None

    @story
    async def test_two_launches_with_one_token_buy_one_machine(self, provider: Provider) -> None:
        first = await provider.provision(self.request())
        await self.settle()
        second = await provider.provision(self.request())
        await self.settle()
        assert first.id == second.id
        mine = [x for x in await provider.list_instances() if x.status.alive]
        assert [x.id for x in mine] == [first.id]

    @story
    async def test_two_launches_with_two_tokens_buy_two_machines(self, provider: Provider) -> None:
        first = await provider.provision(self.request())
        second = await provider.provision(self.numbered(1))
        assert first.id != second.id

    @story
    async def test_a_terminated_machine_is_soon_not_listed_as_alive(
        self, provider: Provider
    ) -> None:
        bought = await provider.provision(self.request())
        await self.settle()
        await provider.terminate(bought.id)
        await self.settle()
        listed = await _listed(provider, bought.id)
        assert listed is None or listed.status in (
            InstanceStatus.TERMINATING,
            InstanceStatus.TERMINATED,
        )

    @story
    async def test_terminating_twice_is_harmless(self, provider: Provider) -> None:
        bought = await provider.provision(self.request())
        await self.settle()
        await provider.terminate(bought.id)
        await self.settle()
        with contextlib.suppress(InstanceNotFoundError):
            await provider.terminate(bought.id)

    @story
    async def test_terminating_an_unknown_machine_raises_not_found(
        self, provider: Provider
    ) -> None:
        with pytest.raises(InstanceNotFoundError):
            await provider.terminate(InstanceId("i-never-was"))

    @story
    async def test_a_label_is_put_on_a_machine_and_removed_again(self, provider: Provider) -> None:
        if not isinstance(provider, LabelsMachines):
            pytest.skip("the provider cannot label a running machine")
        bought = await provider.provision(self.request())
        await self.settle()
        before = await _labels(provider, bought.id)
        for _ in range(2):
            await provider.put_label(bought.id, "adopted-by", "c-1")
        await self.settle()
        assert await _labels(provider, bought.id) == {**before, "adopted-by": "c-1"}
        # The label of another is not removed.
        await provider.remove_label(bought.id, "adopted-by", "c-2")
        await self.settle()
        assert await _labels(provider, bought.id) == {**before, "adopted-by": "c-1"}
        for _ in range(2):
            await provider.remove_label(bought.id, "adopted-by", "c-1")
        await self.settle()
        assert await _labels(provider, bought.id) == before

    @story
    async def test_labelling_an_unknown_machine_raises_not_found(self, provider: Provider) -> None:
        if not isinstance(provider, LabelsMachines):
            pytest.skip("the provider cannot label a running machine")
        for call in (provider.put_label, provider.remove_label):
            with pytest.raises(InstanceNotFoundError):
                await call(InstanceId("i-never-was"), "adopted-by", "c-1")

    @story
    async def test_machines_of_one_group_are_in_one_block(self, provider: Provider) -> None:
        if not isinstance(provider, DescribesTopology):
            pytest.skip("the provider does not describe topology")
        bought = []
        for number in range(3):
            request = evolve(self.numbered(number), group="training-g0", group_size=3)
            bought.append((await provider.provision(request)).id)
        await self.settle()
        found = await provider.topology(bought)
        assert found.keys() <= set(bought)
        assert len({place.block for place in found.values() if place.block}) <= 1

    @story
    async def test_notices_are_empty_if_nothing_is_announced(self, provider: Provider) -> None:
        if not isinstance(provider, AnnouncesNotices):
            pytest.skip("the provider announces nothing")
        await provider.provision(self.request())
        await self.settle()
        assert list(await provider.notices()) == []

    @story
    async def test_a_working_machine_is_not_reported_as_dead(self, provider: Provider) -> None:
        if not isinstance(provider, ChecksInstances):
            pytest.skip("the provider does not check instances")
        bought = await provider.provision(self.request())
        await self.settle()
        found = await provider.instance_checks([bought.id, InstanceId("i-never-was")])
        assert found.keys() <= {bought.id}
        assert all(check.health not in DEAD and check.reason for check in found.values())

    @story
    async def test_a_machine_with_a_failed_status_check_is_reported_as_impaired(
        self, provider: Provider
    ) -> None:
        if not isinstance(provider, ChecksInstances):
            pytest.skip("the provider does not check instances")
        bought = await provider.provision(self.request())
        other = await provider.provision(self.numbered(1))
        await self.settle()
        if not self.impair(provider, bought.id):
            pytest.skip("status checks cannot fail here")
        await self.settle()
        found = await provider.instance_checks([bought.id, other.id])
        assert found[bought.id].health is InstanceHealth.IMPAIRED
        assert found[bought.id].reason
        assert found[other.id].health not in DEAD

    @story
    async def test_a_terminated_machine_is_not_reported_as_working(
        self, provider: Provider
    ) -> None:
        if not isinstance(provider, ChecksInstances):
            pytest.skip("the provider does not check instances")
        bought = await provider.provision(self.request())
        await self.settle()
        await provider.terminate(bought.id)
        await self.settle()
        found = await provider.instance_checks([bought.id])
        ended = (InstanceHealth.STOPPED, InstanceHealth.TERMINATED)
        assert all(check.health in ended for check in found.values())

    @pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.__name__)
    @story
    async def test_a_refused_launch_raises_its_error_and_buys_nothing(
        self, provider: Provider, error: type[ProviderError]
    ) -> None:
        if not self.refuse(provider, error):
            pytest.skip(f"nothing here is refused with {error.__name__}")
        with pytest.raises(error):
            await provider.provision(self.request())
        await self.settle()
        self.recover(provider)
        assert await self._mine(provider) == []
        bought = await provider.provision(self.request())
        await self.settle()
        assert await self._mine(provider) == [bought.id], "the token can be used again"

    @story
    async def test_a_launch_with_a_lost_response_is_found_by_its_token(
        self, provider: Provider
    ) -> None:
        if not self.lose_answers(provider, effect=True):
            pytest.skip("responses cannot be lost here")
        with pytest.raises(OutcomeUnknownError):
            await provider.provision(self.request())
        await self.settle()
        found = await self._mine(provider)
        assert len(found) == 1
        self.recover(provider)
        again = await provider.provision(self.request())
        await self.settle()
        assert [again.id] == found
        assert await self._mine(provider) == found

    @story
    async def test_a_launch_with_a_lost_request_can_be_repeated(self, provider: Provider) -> None:
        if not self.lose_answers(provider, effect=False):
            pytest.skip("requests cannot be lost here")
        with pytest.raises(OutcomeUnknownError):
            await provider.provision(self.request())
        await self.settle()
        assert await self._mine(provider) == []
        self.recover(provider)
        bought = await provider.provision(self.request())
        await self.settle()
        assert await self._mine(provider) == [bought.id]

    @story
    async def test_a_repeated_launch_buys_one_machine_while_listings_lag(
        self, provider: Provider
    ) -> None:
        if not self.lag(provider):
            pytest.skip("listings do not lag here")
        if not isinstance(provider, BuysOncePerToken) or not provider.buys_once_per_token:
            pytest.skip("the provider does not promise to buy once per token")
        first = await provider.provision(self.request())
        second = await provider.provision(self.request())
        assert first.id == second.id
        await self.settle()
        assert await self._mine(provider) == [first.id]

    @story
    async def test_a_listing_of_several_pages_has_every_machine_once(
        self, provider: Provider
    ) -> None:
        if not self.small_pages(provider):
            pytest.skip("listings are not in pages here")
        bought = [(await provider.provision(self.numbered(n))).id for n in range(5)]
        await self.settle()
        listed = [x.id for x in await provider.list_instances() if x.status.alive]
        assert sorted(listed) == sorted(bought)

    @story
    async def test_listed_labels_prove_the_owner_of_a_machine(self, provider: Provider) -> None:
        cluster = Cluster(id="c-1", secret=bytes(32))
        owner = Owner(node=NodeId("training-0"), pool=PoolName("training"), token=Token("t-1"))
        request = evolve(self.request(), labels=cluster.labels(owner))
        bought = await provider.provision(request)
        await self.settle()
        listed = await _listed(provider, bought.id)
        assert listed is not None
        assert cluster.owner(listed.labels) == owner
        assert Cluster(id="c-1", secret=b"another secret").owner(listed.labels) is None

    @story
    async def test_a_machine_that_is_terminated_repeatedly_ends(self, provider: Provider) -> None:
        bought = await provider.provision(self.request())
        await self.settle()
        for _ in range(TERMINATE_TRIES):
            with contextlib.suppress(InstanceNotFoundError):
                await provider.terminate(bought.id)
            await self.settle()
            listed = await _listed(provider, bought.id)
            if listed is None or listed.status is InstanceStatus.TERMINATED:
                return
        raise AssertionError(f"{bought.id} is still there")

    @pytest.mark.parametrize("effect", [True, False], ids=["after its effect", "before its effect"])
    @story
    async def test_a_termination_with_a_lost_response_can_be_repeated(
        self, provider: Provider, effect: bool
    ) -> None:
        bought = await provider.provision(self.request())
        await self.settle()
        if not self.lose_terminations(provider, effect=effect):
            pytest.skip("responses cannot be lost here")
        with pytest.raises(ProviderError):
            await provider.terminate(bought.id)
        self.recover(provider)
        with contextlib.suppress(InstanceNotFoundError):
            await provider.terminate(bought.id)
        await self.settle()
        assert await self._mine(provider) == []

    @story
    async def test_machines_of_one_call_carry_the_labels_of_their_own_requests(
        self, provider: Provider
    ) -> None:
        many = sells_many(provider)
        requests = [self.numbered(number) for number in range(3)]
        results = await many.provision_many(requests)
        await self.settle()
        listed = {each.id: each for each in await provider.list_instances()}
        assert len(results) == len(requests)
        for request, result in zip(requests, results, strict=True):
            assert isinstance(result, Instance), result
            assert result.labels.items() >= request.labels.items()
            assert listed[result.id].labels.items() >= request.labels.items()
            assert listed[result.id].status.alive

    @pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.__name__)
    @story
    async def test_a_refused_call_for_several_machines_buys_none(
        self, provider: Provider, error: type[ProviderError]
    ) -> None:
        many = sells_many(provider)
        if not self.refuse(provider, error):
            pytest.skip(f"nothing here is refused with {error.__name__}")
        requests = [self.numbered(number) for number in range(3)]
        results = await results_of(many, requests)
        assert all(isinstance(result, error) for result in results), results
        await self.settle()
        self.recover(provider)
        assert not [x for x in await provider.list_instances() if x.status.alive]

    @pytest.mark.parametrize("effect", [True, False], ids=["after its effect", "before its effect"])
    @story
    async def test_machines_of_a_call_with_a_lost_response_are_found_by_their_tokens(
        self, provider: Provider, effect: bool
    ) -> None:
        many = sells_many(provider)
        if not self.lose_answers(provider, effect=effect):
            pytest.skip("responses cannot be lost here")
        requests = [self.numbered(number) for number in range(3)]
        results = await results_of(many, requests)
        assert [type(result) for result in results] == [OutcomeUnknownError] * 3
        await self.settle()
        self.recover(provider)
        alive = [x for x in await provider.list_instances() if x.status.alive]
        tokens = sorted(each.labels["navarch-token"] for each in alive)
        assert tokens == (["n-0", "n-1", "n-2"] if effect else [])

    @story
    async def test_a_token_of_a_call_for_several_machines_buys_one_machine(
        self, provider: Provider
    ) -> None:
        many = sells_many(provider)
        requests = [self.numbered(number) for number in range(3)]
        first = await many.provision_many(requests)
        again = await many.provision_many(requests)
        assert ids_of(first) == ids_of(again)
        if many.buys_many_once_per_token:
            alone = await provider.provision(requests[1])
            assert alone.id == ids_of(first)[1]
        await self.settle()
        alive = [x.id for x in await provider.list_instances() if x.status.alive]
        assert sorted(alive) == sorted(ids_of(first))

    @story
    async def test_a_call_for_several_zones_starts_machines_where_there_are_any(
        self, provider: Provider
    ) -> None:
        many = covers_zones(provider)
        first, other = self.request().zone, self.other_zone()
        if not self.sell_out(provider, first):
            pytest.skip("zones cannot be sold out here")
        requests = [self.in_zones(number) for number in range(3)]
        results = await many.provision_many(requests)
        assert {x.zone for x in results if isinstance(x, Instance)} == {other}
        await self.settle()
        self.recover(provider)
        listed = [x for x in await provider.list_instances() if x.status.alive]
        assert sorted(x.id for x in listed) == sorted(ids_of(results))
        assert {(x.labels["navarch-token"], x.zone) for x in listed} == {
            (f"n-{number}", other) for number in range(3)
        }

    @story
    async def test_a_call_for_several_zones_that_are_all_sold_out_is_refused(
        self, provider: Provider
    ) -> None:
        many = covers_zones(provider)
        if not all(self.sell_out(provider, x) for x in (self.request().zone, self.other_zone())):
            pytest.skip("zones cannot be sold out here")
        results = await results_of(many, [self.in_zones(number) for number in range(3)])
        assert [type(result) for result in results] == [CapacityError] * 3
        await self.settle()
        self.recover(provider)
        assert not [x for x in await provider.list_instances() if x.status.alive]

    @story
    async def test_one_machine_can_be_requested_in_several_zones(self, provider: Provider) -> None:
        many = covers_zones(provider)
        (result,) = await many.provision_many([self.in_zones(0)])
        assert isinstance(result, Instance)
        (again,) = await many.provision_many([self.in_zones(0)])
        assert isinstance(again, Instance)
        await self.settle()
        alive = [x.id for x in await provider.list_instances() if x.status.alive]
        assert alive == [result.id] == [again.id]

    def in_zones(self, number: int) -> ProvisionRequest:
        """Return a numbered request that may start in a second zone too."""
        return evolve(self.numbered(number), zones=(self.other_zone(),))

    def numbered(self, number: int) -> ProvisionRequest:
        """Return a request with its own token and name."""
        token = f"n-{number}"
        labels = {**LABELS, "navarch-token": token}
        return evolve(self.request(), token=Token(token), name=f"training-{number}", labels=labels)

    async def _mine(self, provider: Provider) -> list[InstanceId]:
        """Return the machines that are alive under the token of `request`."""
        token = self.request().token
        return [
            x.id
            for x in await provider.list_instances()
            if x.status.alive and x.labels.get("navarch-token") == token
        ]

    @story
    async def test_every_failed_launch_raises_a_provider_error(self, provider: Provider) -> None:
        nonsense = evolve(self.request(), instance_type="no-such-type")
        with contextlib.suppress(ProviderError):
            await provider.provision(nonsense)


async def _labels(provider: Provider, name: InstanceId) -> dict[str, str]:
    listed = await _listed(provider, name)
    assert listed is not None
    return dict(listed.labels)


async def _listed(provider: Provider, instance: InstanceId) -> Instance | None:
    found = [x for x in await provider.list_instances() if x.id == instance]
    assert len(found) <= 1, f"{instance} is listed {len(found)} times"
    return found[0] if found else None


def sells_many(provider: Provider) -> ProvisionsMany:
    """Return a provider that starts several machines in one call; skip the test of any other."""
    if not isinstance(provider, ProvisionsMany) or provider.machines_per_call < 3:
        pytest.skip("every machine needs a call of its own here")
    return provider


def covers_zones(provider: Provider) -> ProvisionsMany:
    """Return a provider whose calls cover several zones; skip the test of any other."""
    many = sells_many(provider)
    if not many.covers_zones:
        pytest.skip("a call is for one zone here")
    return many


async def results_of(
    provider: ProvisionsMany, requests: Sequence[ProvisionRequest]
) -> list[Instance | ProviderError]:
    """Return the result of each request; an error that is raised is the result of all."""
    try:
        return list(await provider.provision_many(requests))
    except ProviderError as error:
        return [error] * len(requests)


def ids_of(results: Sequence[Instance | ProviderError]) -> list[InstanceId]:
    """Return the machines of results that are all machines."""
    assert all(isinstance(result, Instance) for result in results), results
    return [result.id for result in results if isinstance(result, Instance)]
