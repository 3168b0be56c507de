"""The bare metal provider: leases machines of the inventory.

To provision a machine, the provider stores a lease, then claims the machine over SSH; it skips
machines that do not respond or that another control plane has claimed. To terminate one, it marks
the lease, runs the clean-up, removes the claim, and only then drops the lease. After a crash at
any step, the next call continues from there.

A claim that was sent without a response leaves the lease in doubt. The lease is kept: the same
token resumes it, no other launch gets the machine, and listings check the machine itself.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

import structlog

from navarch.core.errors import (
    CapacityError,
    CredentialError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import (
    Instance,
    InstanceCheck,
    InstanceHealth,
    InstanceStatus,
    Topology,
)
from navarch.core.ownership import CLUSTER
from navarch.ports.bmc import BmcError, BmcReader, BmcReading, Power
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import ProvisionRequest
from navarch.ports.shell import Login, LoginRefusedError, Ran, Shell, ShellError, Shells
from navarch.providers.baremetal.leases import (
    CLAIM,
    TAKEN,
    FolderLeases,
    Host,
    Inventory,
    Lease,
    LeaseState,
    claim_command,
    holds_command,
    owns_command,
    release_command,
)

log = structlog.get_logger(__name__)

CONNECT_WITHIN = timedelta(seconds=10)
COMMAND_WITHIN = timedelta(seconds=20)
ABANDONED_AFTER = timedelta(minutes=5)
"""A claim takes a minute at most, and a running control plane retries it at once."""
_HEALTH_BY_POWER = {
    Power.ON: InstanceHealth.OK,
    Power.CHANGING: InstanceHealth.INITIALIZING,
    Power.OFF: InstanceHealth.STOPPED,
}
TRIES_MAX = 3
"""The most machines that one call tries before it fails: a call has a minute."""


class BareMetal:
    """The machines of one inventory."""

    listing_lag = timedelta(0)
    """A lease is listed as soon as it is stored."""
    buys_once_per_token = True
    """One token never leases two machines: its lease is looked up first."""

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        shells: Shells,
        *,
        name: str,
        inventory: Inventory,
        leases: FolderLeases,
        bmcs: BmcReader | None = None,
        clean_up: Sequence[str] = (),
        clean_up_within: timedelta = timedelta(seconds=40),
        claim_path: str = CLAIM,
    ) -> None:
        self.name = name
        self._clock = clock
        self._offload = offload
        self._shells = shells
        self._inventory = inventory
        self._leases = leases
        self._bmcs = bmcs
        self._clean_up = tuple(clean_up)
        self._clean_up_within = clean_up_within
        self._claim_path = claim_path

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Lease one machine; raise CapacityError if none is free."""
        leases = await self._offload.run(self._leases.all)
        lease = next((each for each in leases if each.token == request.token), None)
        if lease is not None and lease.state is LeaseState.CLEANING:
            raise RejectedError(f"{lease.host} was already returned under this token")
        if lease is not None and lease.state is LeaseState.LENT:
            return self._instance(lease)
        if request.spot or request.reservation:
            raise RejectedError("bare metal machines are neither spot nor reserved")
        if request.image:
            raise RejectedError("bare metal machines boot what is installed on them; set no image")
        fitting = self._inventory.fitting(request.instance_type, request.region, request.zone)
        if not fitting:
            raise RejectedError(
                f"no machine of the inventory is a {request.instance_type}"
                + (f" in {request.zone or request.region}" if request.region else "")
            )
        return await self._lend(request, fitting, lease)

    async def terminate(self, instance: InstanceId) -> None:
        """Clean one machine and end its lease. The lease stays until the clean-up succeeds."""
        lease = await self._lease_of(instance)
        if lease is None:
            raise InstanceNotFoundError(f"{instance} is not leased")
        host = self._inventory.hosts.get(lease.host)
        if lease.state is not LeaseState.CLEANING:
            await self._set_state(lease, LeaseState.CLEANING)
        if host is not None:
            # A machine that was removed from the inventory is not cleaned.
            await self._clean(host, lease)
        await self._offload.run(partial(self._leases.drop, lease))

    async def list_instances(self) -> Sequence[Instance]:
        """Return every leased machine.

        A machine that is still being claimed is left out: a retry of `provision` completes the
        claim. A machine in doubt is listed if it holds the claim. Once either is abandoned, it
        is listed, so that the control plane terminates it.
        """
        leases = await self._offload.run(self._leases.all)
        open_ones = [x for x in leases if x.state in (LeaseState.CLAIMING, LeaseState.DOUBTFUL)]
        there = await asyncio.gather(*(self._is_listed(lease) for lease in open_ones))
        absent = {lease.token for lease, found in zip(open_ones, there, strict=True) if not found}
        return [self._instance(lease) for lease in leases if lease.token not in absent]

    async def login(self, instance: InstanceId) -> Login | None:
        """Return the SSH login of a machine, with its pinned host key."""
        lease = await self._lease_of(instance)
        host = None if lease is None else self._inventory.hosts.get(lease.host)
        if lease is None or host is None:
            return None
        if lease.state in (LeaseState.CLAIMING, LeaseState.DOUBTFUL):
            # It came from a listing. Claim it before it is used.
            await self._claim(host, lease)
            await self._set_state(lease, LeaseState.LENT)
        return host.login

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the position of machines, from the inventory."""
        leases = await self._offload.run(self._leases.all)
        wanted = set(instances)
        hosts = {x.instance: self._inventory.hosts.get(x.host) for x in leases}
        return {
            name: Topology(block=host.block, rack=host.rack, host=host.name)
            for name, host in hosts.items()
            if name in wanted and host is not None
        }

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the machines that respond over SSH, and those with a controller that responds.

        The others are left out: it may be the link. A machine that only refuses the login is left
        out, too.
        """
        wanted = set(instances)
        leases = await self._offload.run(self._leases.all)
        hosts = {
            lease.instance: self._inventory.hosts[lease.host]
            for lease in leases
            if lease.instance in wanted and lease.host in self._inventory.hosts
        }
        checks = await asyncio.gather(*(self._check(host) for host in hosts.values()))
        pairs = zip(hosts, checks, strict=True)
        return {name: check for name, check in pairs if check is not None}

    async def _check(self, host: Host) -> InstanceCheck | None:
        """Return what SSH and the controller show; a response over SSH is the stronger proof."""
        responds, reading = await asyncio.gather(self._responds(host), self._read_bmc(host))
        if responds:
            reason = "the machine responds over SSH"
            return InstanceCheck(health=InstanceHealth.RESPONDING, reason=reason)
        if reading is None:
            return None
        reason = f"its BMC reports the power as {reading.power}"
        if reading.health:
            reason += f" and the health as {reading.health}"
        return InstanceCheck(health=_HEALTH_BY_POWER[reading.power], reason=reason)

    async def _responds(self, host: Host) -> bool:
        try:
            shell = await self._shells.connect(host.login, within=CONNECT_WITHIN)
            try:
                return (await shell.run("true", within=COMMAND_WITHIN)).exit_code == 0
            finally:
                await shell.close()
        except ShellError:
            return False

    async def _read_bmc(self, host: Host) -> BmcReading | None:
        if self._bmcs is None or host.bmc is None:
            return None
        try:
            return await self._bmcs.read(host.bmc)
        except BmcError as error:
            log.warning("baremetal.bmc_unreadable", host=host.name, error=str(error))
            return None

    async def _lend(
        self, request: ProvisionRequest, fitting: Sequence[Host], begun: Lease | None
    ) -> Instance:
        troubles: list[ProviderError] = []
        leases = await self._offload.run(self._leases.all)
        lent = {lease.host for lease in leases}
        free = [host for host in fitting if host.name not in lent]
        if request.group:
            free = self._in_one_block(request, free, leases)
        if begun is not None:
            # Resume an interrupted claim before trying another machine.
            free = [host for host in fitting if host.name == begun.host] + free
        for host in free:
            if len(troubles) == TRIES_MAX:
                raise _combined(troubles, TransientError)
            lease = _lease(request, host, self._clock)
            ours = begun is not None and begun.host == host.name
            if not ours and not await self._offload.run(partial(self._leases.take, lease)):
                continue  # Another process took it first.
            try:
                await self._claim(host, lease)
            except OutcomeUnknownError:
                await self._set_state(lease, LeaseState.DOUBTFUL)
                raise
            except ProviderError as error:
                if ours and isinstance(error.__cause__, ShellError):
                    # The interrupted claim may have succeeded, which cannot be checked now.
                    raise OutcomeUnknownError(str(error)) from error
                troubles.append(error)
                await self._offload.run(partial(self._leases.drop, lease))
            else:
                return self._instance(await self._set_state(lease, LeaseState.LENT))
        if troubles:
            raise _combined(troubles, CapacityError)
        if request.group and len(lent) < len(fitting):
            raise CapacityError(f"no block has room for the group {request.group}")
        raise CapacityError(f"all {len(fitting)} machines of this type are leased")

    def _in_one_block(
        self, request: ProvisionRequest, free: Sequence[Host], leases: Sequence[Lease]
    ) -> list[Host]:
        """Return the free machines in the group's block, or in blocks with room for all of it."""
        mine = [lease for lease in leases if lease.group == request.group]
        blocks = [
            self._inventory.hosts[x.host].block for x in mine if x.host in self._inventory.hosts
        ]
        if blocks:
            return [host for host in free if host.block == blocks[0]]
        room = Counter(host.block for host in free)
        return [host for host in free if room[host.block] >= request.group_size]

    async def _is_listed(self, lease: Lease) -> bool:
        """Return True if an unfinished lease holds its machine's claim, or is abandoned."""
        host = self._inventory.hosts.get(lease.host)
        if lease.state is LeaseState.DOUBTFUL and host is not None:
            owns = owns_command(_owner(lease), path=self._claim_path)
            try:
                shell = await self._shells.connect(host.login, within=CONNECT_WITHIN)
                try:
                    return (await shell.run(owns, within=COMMAND_WITHIN)).exit_code == 0
                finally:
                    await shell.close()
            except ShellError:
                pass  # Decide by the age of the lease.
        return lease.since <= self._clock.now() - ABANDONED_AFTER

    async def _claim(self, host: Host, lease: Lease) -> None:
        """Claim a machine, or raise the reason why not."""
        try:
            shell = await self._shells.connect(host.login, within=CONNECT_WITHIN)
        except LoginRefusedError as error:
            raise CredentialError(f"{host.name}: {error}") from error
        except ShellError as error:
            raise TransientError(f"{host.name}: {error}") from error
        command = claim_command(_owner(lease), path=self._claim_path)
        try:
            ran = await _run_claim(shell, command)
            if ran.exit_code == TAKEN:
                before = ran.stdout.strip()
                if before.partition(" ")[0] != _cluster(lease):
                    raise CapacityError(f"{host.name} is claimed by {before or 'another owner'}")
                # A claim of this cluster without a lease file: the file was lost. The machine was
                # not cleaned.
                await self._clean_in(shell, host, before)
                ran = await _run_claim(shell, command)
        except ShellError as error:
            raise OutcomeUnknownError(f"{host.name}: {error}") from error
        finally:
            await shell.close()
        if ran.exit_code:
            what = ran.stderr.strip() or ran.exit_code
            raise TransientError(f"{host.name} cannot be claimed: {what}")

    async def _clean(self, host: Host, lease: Lease) -> None:
        owner = _owner(lease)
        holds = holds_command(owner, path=self._claim_path)
        try:
            shell = await self._shells.connect(host.login, within=CONNECT_WITHIN)
            try:
                ran = await shell.run(holds, within=COMMAND_WITHIN)
                if ran.exit_code == TAKEN:
                    return  # Another owner has claimed it since: do not clean it.
                await self._clean_in(shell, host, owner)
            finally:
                await shell.close()
        except ShellError as error:
            raise TransientError(f"{host.name} cannot be cleaned: {error}") from error

    async def _clean_in(self, shell: Shell, host: Host, owner: str) -> None:
        release = release_command(owner, path=self._claim_path)
        for command in (*self._clean_up, release):
            ran = await shell.run(command, within=self._clean_up_within)
            if ran.exit_code:
                raise TransientError(
                    f"{host.name} is not clean: {command!r} ended with exit code {ran.exit_code}: "
                    f"{ran.stderr.strip()[-200:]}"
                )

    async def _lease_of(self, instance: InstanceId) -> Lease | None:
        leases = await self._offload.run(self._leases.all)
        return next((lease for lease in leases if lease.instance == instance), None)

    async def _set_state(self, lease: Lease, state: LeaseState) -> Lease:
        changed = replace(lease, state=state)
        await self._offload.run(partial(self._leases.change, changed))
        return changed

    def _instance(self, lease: Lease) -> Instance:
        host = self._inventory.hosts.get(lease.host)
        statuses = {
            LeaseState.CLAIMING: InstanceStatus.PENDING,
            LeaseState.DOUBTFUL: InstanceStatus.PENDING,
            LeaseState.LENT: InstanceStatus.RUNNING,
            LeaseState.CLEANING: InstanceStatus.TERMINATING,
        }
        return Instance(
            id=lease.instance,
            provider=ProviderName(self.name),
            status=statuses[lease.state],
            instance_type=lease.instance_type,
            region=lease.region,
            zone=lease.zone,
            public_address=host.address if host else "",
            private_address=host.private_address if host else "",
            labels=lease.labels,
            launched_at=lease.since,
        )


async def _run_claim(shell: Shell, command: str) -> Ran:
    ran = await shell.run(command, within=COMMAND_WITHIN)
    if ran.timed_out:
        raise ShellError(f"no response within {COMMAND_WITHIN.total_seconds():.0f} s")
    return ran


def _combined(troubles: Sequence[ProviderError], otherwise: type[ProviderError]) -> ProviderError:
    """Return one error for several machines that could not be claimed.

    If a single machine refuses the login, that machine may be misconfigured; if all do, the key
    is wrong.
    """
    text = "; ".join(str(each) for each in troubles)
    if all(isinstance(each, CredentialError) for each in troubles):
        return CredentialError(text)
    return otherwise(text)


def _lease(request: ProvisionRequest, host: Host, clock: Clock) -> Lease:
    # A machine is leased many times, under a new instance id each time.
    suffix = hashlib.sha256(request.token.encode()).hexdigest()[:10]
    return Lease(
        instance=InstanceId(f"{host.name}.{suffix}"),
        host=host.name,
        token=request.token,
        state=LeaseState.CLAIMING,
        since=clock.now(),
        instance_type=request.instance_type,
        region=request.region,
        zone=request.zone,
        group=request.group,
        labels=dict(request.labels),
    )


def _owner(lease: Lease) -> str:
    return f"{_cluster(lease)} {lease.token}"


def _cluster(lease: Lease) -> str:
    return lease.labels.get(CLUSTER, "")
