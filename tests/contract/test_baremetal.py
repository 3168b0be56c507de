"""The bare metal provider passes the provider contract, on machines that run real commands."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.ssh_machines import (
    SshMachine,
    a_key,
    keep_connections,
    lose_connections,
    real_sshd,
    ssh_servers,
    sshd_missing,
)

from navarch.clock import SystemClock, ThreadOffload
from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import Token
from navarch.core.instance import InstanceStatus
from navarch.core.records import evolve
from navarch.ports.provider import Provider, ProvisionRequest
from navarch.providers.baremetal import BareMetal, FolderLeases, Host, Inventory
from navarch.ssh.client import SshShells
from navarch.testing.provider_contract import ProviderContract, Story

OTHER_HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
CLEAN = "rm -rf work && echo cleaned >> history"


def a_request(number: int = 1, cluster: str = "c-1") -> ProvisionRequest:
    labels = {"navarch-cluster": cluster, "navarch-token": f"t-{number}"}
    return evolve(
        ProviderContract().request(),
        token=Token(f"t-{number}"),
        name=f"training-{number}",
        labels=labels,
    )


def a_provider(
    machines: Sequence[SshMachine], leases: Path, *, clean_up: Sequence[str] = (CLEAN,)
) -> BareMetal:
    hosts = {
        f"rack1-{index}": Host(
            name=f"rack1-{index}",
            address=machine.login.address,
            instance_type="h100-8x",
            host_key=machine.login.host_key,
            ssh_port=machine.login.port,
            ssh_key_file=machine.login.key_file,
            rack=f"rack{index % 2}",
            block="a" if index else "b",
        )
        for index, machine in enumerate(machines)
    }
    return BareMetal(
        SystemClock(),
        ThreadOffload("leases"),
        SshShells(),
        name="rack",
        inventory=Inventory(hosts=hosts),
        leases=FolderLeases(leases),
        clean_up=clean_up,
        claim_path="claim",
    )


def with_machines(
    count: int, story: Callable[[Sequence[SshMachine], Path], Awaitable[None]]
) -> None:
    async def main() -> None:
        with tempfile.TemporaryDirectory() as folder:
            async with ssh_servers(Path(folder) / "ssh", count) as machines:
                await story(machines, Path(folder))

    asyncio.run(main())


class RackContract(ProviderContract):
    """The provider contract with the faults of a rack."""

    machines: Sequence[SshMachine]
    _good: Inventory | None = None

    def refuse(self, provider: Provider, error: type[ProviderError]) -> bool:
        assert isinstance(provider, BareMetal)
        self._good = provider._inventory
        mismatched = {
            name: replace(host, host_key=OTHER_HOST_KEY) for name, host in self._good.hosts.items()
        }
        if error is RejectedError:
            provider._inventory = Inventory(hosts={})
        elif error is CapacityError:
            provider._inventory = Inventory(hosts=dict(list(mismatched.items())[:1]))
        elif error is TransientError:
            provider._inventory = Inventory(hosts=mismatched)
        elif error is CredentialError:
            other = self.machines[0].folder.parent / "another-key"
            a_key(other)
            keyless = {
                name: replace(host, ssh_key_file=str(other))
                for name, host in self._good.hosts.items()
            }
            provider._inventory = Inventory(hosts=keyless)
        else:
            return False
        return True

    def lose_answers(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        lose_connections(self.machines, "after" if effect else "before", "set -C")
        return True

    def lose_terminations(self, provider: Provider, *, effect: bool) -> bool:
        del provider
        lose_connections(self.machines, "after" if effect else "before", "rm -f claim")
        return True

    def recover(self, provider: Provider) -> None:
        assert isinstance(provider, BareMetal)
        keep_connections(self.machines)
        if self._good is not None:
            provider._inventory = self._good


class TestBareMetal(RackContract):
    def run(self, story: Story) -> None:
        async def scenario(machines: Sequence[SshMachine], folder: Path) -> None:
            self.machines = machines
            await story(a_provider(machines, folder / "leases"))

        with_machines(4, scenario)

    async def settle(self) -> None:
        pass


@pytest.mark.skipif(sshd_missing() is not None, reason=str(sshd_missing()))
class TestBareMetalOverOpenSsh(RackContract):
    def run(self, story: Story) -> None:
        async def scenario(machines: Sequence[SshMachine], folder: Path) -> None:
            self.machines = machines
            await story(a_provider(machines, folder / "leases"))

        with tempfile.TemporaryDirectory() as folder, real_sshd(Path(folder) / "ssh", 4) as found:
            asyncio.run(scenario(found, Path(folder)))

    async def settle(self) -> None:
        pass


def test_two_control_planes_never_claim_one_machine() -> None:
    """Each has its own lease folder, so only the claim on the machine distinguishes them."""

    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        ours, theirs = (a_provider(machines, folder / name) for name in ("ours", "theirs"))
        first = await ours.provision(a_request(cluster="c-1"))
        with pytest.raises(CapacityError, match=r"rack1-0 is claimed by c-1 t-1"):
            await theirs.provision(a_request(cluster="c-2"))
        await ours.terminate(first.id)
        await theirs.provision(a_request(cluster="c-2"))

    with_machines(1, story)


def test_two_concurrent_processes_get_two_machines() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        one, two = (a_provider(machines, folder / "leases") for _ in range(2))
        got = await asyncio.gather(one.provision(a_request(1)), two.provision(a_request(2)))
        assert len({each.public_address for each in got}) == 2

    with_machines(2, story)


def test_a_machine_is_cleaned_before_its_next_lease() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        bought = await provider.provision(a_request())
        (machines[0].folder / "work").mkdir()
        await provider.terminate(bought.id)
        assert not (machines[0].folder / "work").exists()
        assert not (machines[0].folder / "claim").exists()
        assert (machines[0].folder / "history").read_text() == "cleaned\n"
        again = await provider.provision(a_request(2))
        assert again.id != bought.id, "each lease has its own instance id"

    with_machines(1, story)


def test_a_machine_that_cannot_be_cleaned_is_not_leased() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        clean_up = ["test -e may-be-cleaned"]
        provider = a_provider(machines, folder / "leases", clean_up=clean_up)
        bought = await provider.provision(a_request())
        with pytest.raises(TransientError, match="rack1-0 is not clean"):
            await provider.terminate(bought.id)
        (listed,) = await provider.list_instances()
        assert listed.status is InstanceStatus.TERMINATING
        with pytest.raises(CapacityError):
            await provider.provision(a_request(2))
        (machines[0].folder / "may-be-cleaned").touch()
        await provider.terminate(bought.id)
        assert await provider.list_instances() == []
        with pytest.raises(InstanceNotFoundError):
            await provider.terminate(bought.id)

    with_machines(1, story)


def test_a_machine_with_another_host_key_receives_nothing_and_is_skipped(tmp_path: Path) -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        other = a_key(tmp_path / "other")
        impostor = replace(machines[0], login=replace(machines[0].login, host_key=other))
        provider = a_provider([impostor, machines[1]], folder / "leases")
        bought = await provider.provision(a_request())
        assert bought.public_address == machines[1].login.address
        assert not (machines[0].folder / "claim").exists()
        with pytest.raises(CapacityError, match=r"rack1-0.*host key"):
            await provider.provision(a_request(2))

    with_machines(2, story)


def test_an_interrupted_claim_is_finished_by_the_same_token() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        dying = a_provider(machines, folder / "leases")

        async def dies(*_: object) -> None:
            raise asyncio.CancelledError

        dying._claim = dies  # type: ignore[method-assign, assignment]
        with pytest.raises(asyncio.CancelledError):
            await dying.provision(a_request())
        assert await dying.list_instances() == [], "it is not a machine yet"
        (begun,) = FolderLeases(folder / "leases").all()
        again = await a_provider(machines, folder / "leases").provision(a_request())
        assert again.id == begun.instance
        assert (machines[0].folder / "claim").read_text() == "c-1 t-1\n"

    with_machines(2, story)


def test_a_machine_in_doubt_is_not_leased_to_another_token() -> None:
    """Skipping it would leave a claim on it without a lease."""

    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        lose_connections(machines, "after", "set -C")
        with pytest.raises(OutcomeUnknownError, match="rack1-0"):
            await provider.provision(a_request(1))
        keep_connections(machines)
        other = await provider.provision(a_request(2))
        assert other.public_address == machines[1].login.address
        mine = await provider.provision(a_request(1))
        assert mine.public_address == machines[0].login.address
        with pytest.raises(CapacityError, match="all 2 machines"):
            await provider.provision(a_request(3))

    with_machines(2, story)


def test_an_abandoned_machine_in_doubt_is_listed_and_cleaned() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        lose_connections(machines, "after", "set -C")
        with pytest.raises(OutcomeUnknownError):
            await provider.provision(a_request())
        (orphan,) = await provider.list_instances()
        assert orphan.status is InstanceStatus.PENDING
        await provider.terminate(orphan.id)
        assert await provider.list_instances() == []
        assert not (machines[0].folder / "claim").exists()

    with_machines(1, story)


def test_one_machine_that_refuses_the_login_is_skipped_without_a_credential_error() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        a_key(folder / "another-key")
        locked = replace(machines[0].login, key_file=str(folder / "another-key"))
        provider = a_provider([replace(machines[0], login=locked), machines[1]], folder / "leases")
        bought = await provider.provision(a_request())
        assert bought.public_address == machines[1].login.address
        with pytest.raises(CredentialError, match=r"rack1-0.*refuses the key of root"):
            await provider.provision(a_request(2))

    with_machines(2, story)


def test_a_claim_with_a_lost_lease_is_cleaned_and_made_anew() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        await a_provider(machines, folder / "lost").provision(a_request(1))
        await a_provider(machines, folder / "new").provision(a_request(2))
        assert (machines[0].folder / "history").read_text() == "cleaned\n"
        assert (machines[0].folder / "claim").read_text() == "c-1 t-2\n"

    with_machines(1, story)


def test_a_type_that_the_inventory_lacks_is_rejected() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        with pytest.raises(RejectedError, match="no machine of the inventory is a b200"):
            await provider.provision(evolve(a_request(), instance_type="b200"))

    with_machines(1, story)


def test_an_image_is_rejected_instead_of_ignored() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        with pytest.raises(RejectedError, match="boot what is installed on them; set no image"):
            await provider.provision(evolve(a_request(), image="ubuntu"))

    with_machines(1, story)


def test_a_damaged_lease_file_blocks_new_leases() -> None:
    async def story(machines: Sequence[SshMachine], folder: Path) -> None:
        provider = a_provider(machines, folder / "leases")
        await provider.provision(a_request())
        (file,) = (folder / "leases").glob("*.json")
        file.write_text("{")
        with pytest.raises(TransientError, match="is damaged"):
            await provider.provision(a_request(2))

    with_machines(2, story)
