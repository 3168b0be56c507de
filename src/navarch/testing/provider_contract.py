"""What every provider promises. Subclass it, give it a provider, and run it with pytest.

The promises are those that the control plane relies on so that nothing is bought twice and
nothing is forgotten. Three methods must be written; the others arrange bad days. A provider
whose stand-in cannot arrange one says so by returning False, and the test is skipped, by name.
"""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

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
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.ownership import Cluster, Owner
from navarch.ports.provider import (
    AnnouncesNotices,
    BuysOncePerToken,
    DescribesTopology,
    Provider,
    ProvisionRequest,
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
"""What a provider may say instead of selling: go elsewhere, tell a human, fix the credentials,
fix the pool, wait. In all of them nothing was bought."""

PATIENCE = 20
"""How often a machine is told to end, and its listing awaited, before the promise is broken."""


class ProviderContract:
    """One promise per test.

    `run` tells a story to a fresh provider on a good day; `settle` lets as much time pass
    as its listings need; `request` is something the provider sells. All that follows is about
    bad days, which begin with the next call and last until `recover`.
    """

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        """Let purchases be refused in the way that the adapter must report as `error`."""
        del provider, error
        return False

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        """Let the answers to purchases get lost, after they had their effect or before."""
        del provider, effect
        return False

    def lose_farewells(self, provider: Provider, *, effect: bool) -> bool:
        """Let the answers to terminations get lost, after they had their effect or before."""
        del provider, effect
        return False

    def lag(self, provider: Provider) -> bool:
        """Let listings lag by as much as the provider ever does."""
        del provider
        return False

    def small_pages(self, provider: Provider) -> bool:
        """Let listings come in pages of two machines."""
        del provider
        return False

    def recover(self, provider: Provider) -> None:
        """Let the provider have a good day again."""
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

    def test_a_machine_that_was_bought_is_listed_with_all_that_we_need_to_know(self) -> None:
        async def story(provider: Provider) -> None:
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

        self.run(story)

    def test_asking_twice_with_one_token_buys_one_machine(self) -> None:
        async def story(provider: Provider) -> None:
            first = await provider.provision(self.request())
            await self.settle()
            second = await provider.provision(self.request())
            await self.settle()
            assert first.id == second.id
            mine = [x for x in await provider.list_instances() if x.status.alive]
            assert [x.id for x in mine] == [first.id]

        self.run(story)

    def test_asking_with_two_tokens_buys_two_machines(self) -> None:
        async def story(provider: Provider) -> None:
            first = await provider.provision(self.request())
            labels = {**LABELS, "navarch-token": "t-2"}
            other = replace(self.request(), token=Token("t-2"), name="training-1", labels=labels)
            second = await provider.provision(other)
            assert first.id != second.id

        self.run(story)

    def test_a_terminated_machine_is_soon_not_listed_as_alive(self) -> None:
        async def story(provider: Provider) -> None:
            bought = await provider.provision(self.request())
            await self.settle()
            await provider.terminate(bought.id)
            await self.settle()
            listed = await _listed(provider, bought.id)
            assert listed is None or listed.status in (
                InstanceStatus.TERMINATING,
                InstanceStatus.TERMINATED,
            )

        self.run(story)

    def test_terminating_twice_is_harmless(self) -> None:
        async def story(provider: Provider) -> None:
            bought = await provider.provision(self.request())
            await self.settle()
            await provider.terminate(bought.id)
            await self.settle()
            with contextlib.suppress(InstanceNotFoundError):
                await provider.terminate(bought.id)

        self.run(story)

    def test_a_machine_that_never_was_is_not_found(self) -> None:
        async def story(provider: Provider) -> None:
            with pytest.raises(InstanceNotFoundError):
                await provider.terminate(InstanceId("i-never-was"))

        self.run(story)

    def test_machines_of_one_group_stand_in_one_block(self) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, DescribesTopology):
                pytest.skip("the provider does not say where machines stand")
            bought = []
            for number in range(3):
                labels = {**LABELS, "navarch-token": f"g-{number}"}
                request = replace(
                    self.request(),
                    token=Token(f"g-{number}"),
                    name=f"training-{number}",
                    labels=labels,
                    group="training-g0",
                    group_size=3,
                )
                bought.append((await provider.provision(request)).id)
            await self.settle()
            found = await provider.topology(bought)
            assert found.keys() <= set(bought)
            assert len({place.block for place in found.values() if place.block}) <= 1

        self.run(story)

    def test_where_nothing_is_announced_the_answer_is_empty_and_not_an_error(self) -> None:
        async def story(provider: Provider) -> None:
            if not isinstance(provider, AnnouncesNotices):
                pytest.skip("the provider announces nothing")
            await provider.provision(self.request())
            await self.settle()
            assert list(await provider.notices()) == []

        self.run(story)

    @pytest.mark.parametrize("error", REFUSALS, ids=lambda error: error.__name__)
    def test_a_refusal_says_what_to_do_next_and_buys_nothing(
        self, error: type[ProviderError]
    ) -> None:
        async def story(provider: Provider) -> None:
            if not self.refuse(provider, error):
                pytest.skip(f"nothing here is refused with {error.__name__}")
            with pytest.raises(error):
                await provider.provision(self.request())
            await self.settle()
            self.recover(provider)
            assert await self._mine(provider) == []
            bought = await provider.provision(self.request())
            await self.settle()
            assert await self._mine(provider) == [bought.id], "the token was not free any more"

        self.run(story)

    def test_a_purchase_whose_answer_is_lost_is_found_by_its_token(self) -> None:
        async def story(provider: Provider) -> None:
            if not self.lose_answers(provider, effect=True):
                pytest.skip("no answers get lost here")
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

        self.run(story)

    def test_a_purchase_that_got_lost_on_its_way_can_be_made_again(self) -> None:
        async def story(provider: Provider) -> None:
            if not self.lose_answers(provider, effect=False):
                pytest.skip("no requests get lost here")
            with pytest.raises(OutcomeUnknownError):
                await provider.provision(self.request())
            await self.settle()
            assert await self._mine(provider) == []
            self.recover(provider)
            bought = await provider.provision(self.request())
            await self.settle()
            assert await self._mine(provider) == [bought.id]

        self.run(story)

    def test_asking_again_before_the_listings_know_buys_one_machine(self) -> None:
        async def story(provider: Provider) -> None:
            if not self.lag(provider):
                pytest.skip("listings do not lag here")
            if not isinstance(provider, BuysOncePerToken) or not provider.buys_once_per_token:
                pytest.skip("the provider does not claim to know its tokens")
            first = await provider.provision(self.request())
            second = await provider.provision(self.request())
            assert first.id == second.id
            await self.settle()
            assert await self._mine(provider) == [first.id]

        self.run(story)

    def test_a_listing_has_every_machine_once_however_many_pages_there_are(self) -> None:
        async def story(provider: Provider) -> None:
            if not self.small_pages(provider):
                pytest.skip("listings are not in pages here")
            bought = [(await provider.provision(self.numbered(n))).id for n in range(5)]
            await self.settle()
            listed = [x.id for x in await provider.list_instances() if x.status.alive]
            assert sorted(listed) == sorted(bought)

        self.run(story)

    def test_labels_come_back_as_proof_of_whose_machine_it_is(self) -> None:
        async def story(provider: Provider) -> None:
            cluster = Cluster(id="c-1", secret=bytes(32))
            owner = Owner(node=NodeId("training-0"), pool=PoolName("training"), token=Token("t-1"))
            request = replace(self.request(), labels=cluster.labels(owner))
            bought = await provider.provision(request)
            await self.settle()
            listed = await _listed(provider, bought.id)
            assert listed is not None
            assert cluster.owner(listed.labels) == owner
            assert Cluster(id="c-1", secret=b"another secret").owner(listed.labels) is None

        self.run(story)

    def test_a_machine_that_is_told_to_end_until_it_is_gone_is_gone(self) -> None:
        async def story(provider: Provider) -> None:
            bought = await provider.provision(self.request())
            await self.settle()
            for _ in range(PATIENCE):
                with contextlib.suppress(InstanceNotFoundError):
                    await provider.terminate(bought.id)
                await self.settle()
                listed = await _listed(provider, bought.id)
                if listed is None or listed.status is InstanceStatus.TERMINATED:
                    return
            raise AssertionError(f"{bought.id} is still there")

        self.run(story)

    @pytest.mark.parametrize("effect", [True, False], ids=["after its effect", "before its effect"])
    def test_a_termination_whose_answer_is_lost_is_repeated_until_it_has_worked(
        self, effect: bool
    ) -> None:
        async def story(provider: Provider) -> None:
            bought = await provider.provision(self.request())
            await self.settle()
            if not self.lose_farewells(provider, effect=effect):
                pytest.skip("no answers get lost here")
            with pytest.raises(ProviderError):
                await provider.terminate(bought.id)
            self.recover(provider)
            with contextlib.suppress(InstanceNotFoundError):
                await provider.terminate(bought.id)
            await self.settle()
            assert await self._mine(provider) == []

        self.run(story)

    def numbered(self, number: int) -> ProvisionRequest:
        """Return a request like the usual one, with a token and a name of its own."""
        token = f"n-{number}"
        labels = {**LABELS, "navarch-token": token}
        return replace(self.request(), token=Token(token), name=f"training-{number}", labels=labels)

    async def _mine(self, provider: Provider) -> list[InstanceId]:
        """Return the machines that are alive under the usual token."""
        token = self.request().token
        return [
            x.id
            for x in await provider.list_instances()
            if x.status.alive and x.labels.get("navarch-token") == token
        ]

    def test_every_refusal_is_one_of_our_errors(self) -> None:
        async def story(provider: Provider) -> None:
            nonsense = replace(self.request(), instance_type="no-such-type")
            with contextlib.suppress(ProviderError):
                await provider.provision(nonsense)

        self.run(story)


async def _listed(provider: Provider, instance: InstanceId) -> Instance | None:
    found = [x for x in await provider.list_instances() if x.id == instance]
    assert len(found) <= 1, f"{instance} is listed {len(found)} times"
    return found[0] if found else None
