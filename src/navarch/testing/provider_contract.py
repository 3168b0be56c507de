"""What every provider promises. Subclass it, give it a provider, and run it with pytest."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from navarch.core.errors import InstanceNotFoundError, ProviderError
from navarch.core.ids import InstanceId, Token
from navarch.core.instance import Instance, InstanceStatus
from navarch.ports.provider import (
    AnnouncesNotices,
    DescribesTopology,
    Provider,
    ProvisionRequest,
)

Story = Callable[[Provider], Awaitable[None]]

LABELS = {"navarch-cluster": "c-1", "navarch-token": "t-1", "team": "research"}


class ProviderContract:
    """One promise per test.

    `run` tells a story to a fresh provider on a good day; `settle` lets as much time pass
    as its listings need; `request` is something the provider sells.
    """

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
