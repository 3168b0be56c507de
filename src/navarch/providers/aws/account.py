"""The AWS provider: one account, in every region it may use."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from navarch.core.errors import (
    CapacityError,
    InstanceNotFoundError,
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceCheck, Topology
from navarch.core.launch import Offering
from navarch.core.records import evolve
from navarch.ports.clock import Clock, Offload
from navarch.ports.provider import Announcement, ProvisionRequest
from navarch.providers.aws.ec2 import HOME, AwsSettings, Ec2
from navarch.providers.aws.events import (
    EVENT_CODES,
    SPOT_CODES,
    EventQueue,
    end_of_block,
    ending_blocks,
    read_events,
    read_spot_requests,
)
from navarch.providers.aws.fleet_calls import FleetCalls
from navarch.providers.aws.prices import PAGE as PRICES_PAGE
from navarch.providers.aws.prices import SERVICE, price_filters, read_prices
from navarch.providers.aws.request import Site, group_name, run_instances, run_many, tags_of
from navarch.providers.aws.translation import (
    GPU_TYPES,
    MISMATCH,
    code_of_cause,
    gpus_by_type,
    newest_prices,
    read_check,
    read_instance,
    read_offerings,
    unknown_instances,
)

T = TypeVar("T")

PAGE = 1000
"""The largest page of machines that EC2 returns; a page may hold fewer."""

_NOT_YET = ("scheduled", "pending", "payment-pending", "assessing", "delayed")
_NO_MORE = ("expired", "cancelled", "failed", "payment-failed", "unsupported")


class AwsAccount:
    """The EC2 machines of one account.

    One token starts at most one machine, even when responses are lost: EC2 keeps tokens for
    longer than any launch stays open. Tokens are kept per region.
    """

    listing_lag = timedelta(minutes=1)
    """EC2 is eventually consistent, nearly always within seconds."""
    buys_once_per_token = True
    """EC2 keeps this promise through `ClientToken`."""
    buys_many_once_per_token = False
    """EC2 recognises the token of a shared call, and not those of its machines."""
    covers_zones = True

    def __init__(self, clock: Clock, offload: Offload, settings: AwsSettings) -> None:
        self.name = settings.name
        self._clock = clock
        self._ec2 = Ec2(offload, settings)
        self._settings = settings
        self._region_of: dict[InstanceId, str] = {}
        """The region of each machine: EC2 finds a machine only in its own region."""
        self._subnets: dict[str, list[tuple[str, str]]] = {}
        self._fleets = FleetCalls(clock, self._ec2, settings)
        queue = settings.event_queue
        self._events = (
            EventQueue(clock, self._ec2, queue, region=settings.region) if queue else None
        )

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine."""
        site = await self._site(request)
        region = site.region
        params = run_instances(request, self._settings, site)
        try:
            answer = await self._ec2.write(region, "run_instances", **params)
        except ProviderError as error:
            if code_of_cause(error) != MISMATCH:
                raise
            # This token has bought a machine with other parameters: the pool's labels or user data
            # changed between two attempts. If the first attempt started nothing, the launch fails
            # a few more times, is abandoned, and gets a new token.
            machines = await self._machines(region, client_token=[request.token])
            if not machines:
                raise TransientError(str(error)) from error
            return self._read(machines[0], region)
        return self._read(answer["Instances"][0], region)

    @property
    def machines_per_call(self) -> int:
        """The most machines of one call."""
        return self._settings.machines_per_call

    async def provision_many(
        self, requests: Sequence[ProvisionRequest]
    ) -> Sequence[Instance | ProviderError]:
        """Start as many of these machines as EC2 has, in one call if their parameters allow it."""
        first = requests[0]
        site = await self._site(first)
        if first.zones and self._fleets.permitted:
            subnets = await self._subnets_of(site.region, (first.zone, *first.zones))
            try:
                results = await self._fleets.start(requests, site, subnets)
            except ProviderError as error:
                if code_of_cause(error) != "UnauthorizedOperation":
                    raise
                self._fleets.permitted = False
            else:
                if results is not None:
                    self._region_of |= {
                        x.id: site.region for x in results if isinstance(x, Instance)
                    }
                    return results
        return await self._run_in_each_zone(requests, site)

    async def _run_in_each_zone(
        self, requests: Sequence[ProvisionRequest], site: Site
    ) -> Sequence[Instance | ProviderError]:
        """Start machines in one zone after the other, until EC2 has them: RunInstances is for one.

        A group that started in part stays in its zone, as its placement group does.
        """
        results = list(await self._run_many(requests, site))
        for zone in requests[0].zones:
            missing = [n for n, result in enumerate(results) if isinstance(result, CapacityError)]
            if not missing or (requests[0].group and len(missing) < len(requests)):
                break
            there = [evolve(requests[n], zone=zone, zones=()) for n in missing]
            try:
                answers = await self._run_many(there, await self._site(there[0]))
            except ProviderError as error:
                # The machines of the zones before have started.
                answers = [error] * len(there)
            for n, answer in zip(missing, answers, strict=True):
                results[n] = answer
        return results

    async def _run_many(
        self, requests: Sequence[ProvisionRequest], site: Site
    ) -> Sequence[Instance | ProviderError]:
        """Start machines in one zone."""
        params = run_many(requests, self._settings, site)
        if params is None:
            return await asyncio.gather(*(self._result(request) for request in requests))
        try:
            answer = await self._ec2.write(site.region, "run_instances", **params)
        except CapacityError as error:
            return [error] * len(requests)
        except ProviderError as error:
            if code_of_cause(error) == MISMATCH:
                # The first attempt had other parameters, and may have started machines.
                raise OutcomeUnknownError(str(error)) from error
            raise
        started = {
            raw["AmiLaunchIndex"]: self._read(raw, site.region) for raw in answer["Instances"]
        }
        missing = CapacityError(
            f"{site.region}: EC2 had {len(started)} of {len(requests)} {requests[0].instance_type}"
        )
        return [started.get(index, missing) for index in range(len(requests))]

    async def _result(self, request: ProvisionRequest) -> Instance | ProviderError:
        try:
            return await self.provision(request)
        except ProviderError as error:
            return error

    async def _site(self, request: ProvisionRequest) -> Site:
        region = self._region(request)
        return Site(
            region=region,
            subnet=await self._subnet(region, request.zone),
            block=await self._is_block(request.reservation, region),
            group=await self._group(request, region) if request.group else "",
        )

    async def terminate(self, instance: InstanceId) -> None:
        """Terminate one machine, whichever its region."""
        region = self._region_of.get(instance) or await self._find(instance)
        await self._ec2.write(region, "terminate_instances", InstanceIds=[instance])

    async def reboot(self, instance: InstanceId) -> None:
        """Reboot the operating system of one machine, which keeps its disks and its host."""
        region = self._region_of.get(instance) or await self._find(instance)
        await self._ec2.write(region, "reboot_instances", InstanceIds=[instance])

    async def put_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Tag one machine."""
        region = self._region_of.get(instance) or await self._find(instance)
        tags = tags_of({key: value})
        await self._ec2.write(region, "create_tags", Resources=[instance], Tags=tags)

    async def remove_label(self, instance: InstanceId, key: str, value: str) -> None:
        """Remove a tag of one machine if it has that value."""
        region = self._region_of.get(instance) or await self._find(instance)
        tags = tags_of({key: value})
        await self._ec2.write(region, "delete_tags", Resources=[instance], Tags=tags)

    async def list_instances(self) -> Sequence[Instance]:
        """Return the machines of every region, or raise if one region fails."""
        return await self._in_every_region(self._list)

    async def notices(self) -> Sequence[Announcement]:
        """Return what EC2 announces: maintenance, reclaims, capacity blocks that end.

        With an event queue, this includes the spot machines that EC2 recommends to replace.
        """
        if self._events is None:
            return await self._in_every_region(self._notices)
        polled, queued = await asyncio.gather(
            self._in_every_region(self._notices), self._events.announcements()
        )
        return [*polled, *queued]

    async def topology(self, instances: Sequence[InstanceId]) -> Mapping[InstanceId, Topology]:
        """Return the network position of machines; EC2 has it a few minutes after their start."""
        found: dict[InstanceId, Topology] = {}
        for region, names in self._by_region(instances).items():
            for raw in await self._ec2.pages(
                region, "describe_instance_topology", "Instances", InstanceIds=names
            ):
                found[InstanceId(raw["InstanceId"])] = _topology(raw.get("NetworkNodes", ()))
        return found

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the states and status checks of machines."""
        found: dict[InstanceId, InstanceCheck] = {}
        for region, names in self._by_region(instances).items():
            try:
                statuses = await self._statuses(region, names)
            except InstanceNotFoundError as error:
                # EC2 refuses the whole call if it does not know one of the machines.
                unknown = unknown_instances(error)
                known = [name for name in names if name not in unknown]
                statuses = await self._statuses(region, known)
            found |= {InstanceId(raw["InstanceId"]): read_check(raw) for raw in statuses}
        return found

    async def _statuses(self, region: str, names: Sequence[InstanceId]) -> list[Mapping[str, Any]]:
        if not names:
            return []
        return await self._ec2.pages(
            region,
            "describe_instance_status",
            "InstanceStatuses",
            InstanceIds=names,
            IncludeAllInstances=True,
        )

    def _by_region(self, instances: Sequence[InstanceId]) -> Mapping[str, list[InstanceId]]:
        """Return those machines whose region is known."""
        found: dict[str, list[InstanceId]] = {}
        for instance in instances:
            region = self._region_of.get(instance)
            if region is not None:
                found.setdefault(region, []).append(instance)
        return found

    async def offerings(self) -> Sequence[Offering]:
        """Return the GPU machines that are sold in each zone, with today's prices."""
        return await self._in_every_region(self._offerings)

    def _region(self, request: ProvisionRequest) -> str:
        region = request.region or request.zone.rstrip("abcdefghijklmnop") or self._settings.region
        if not region:
            raise RejectedError(f"{self.name}: no region; write one in the pool or the provider")
        if self._settings.regions and region not in self._settings.regions:
            # Listings would not find the machine there.
            raise RejectedError(
                f"{self.name}: {region} is not among its regions; add it to `regions` in the "
                "configuration and start the server again"
            )
        return region

    async def _subnet(self, region: str, zone: str) -> str:
        subnets = await self._subnets_of(region, (zone,))
        if not subnets:
            raise RejectedError(f"{self.name}: none of its subnets is in {zone or region}")
        return subnets[zone]

    async def _subnets_of(self, region: str, zones: Sequence[str]) -> Mapping[str, str]:
        """Return the zones in which machines may start, each with its subnet.

        Without configured subnets EC2 takes the default subnet of the zone.
        """
        if not self._settings.subnets:
            return dict.fromkeys(zones, "")
        if region not in self._subnets:
            # A filter, not ids: EC2 rejects ids of other regions, which are allowed here.
            wanted = _filters(subnet_id=self._settings.subnets)
            known = await self._ec2.pages(region, "describe_subnets", "Subnets", Filters=wanted)
            places = {each["SubnetId"]: each["AvailabilityZone"] for each in known}
            self._subnets[region] = [(x, places[x]) for x in self._settings.subnets if x in places]
        found: dict[str, str] = {}
        for zone in zones:
            fitting = [name for name, at in self._subnets[region] if zone in ("", at)]
            if fitting:
                found[zone] = fitting[0]
        return found

    async def _is_block(self, reservation: str, region: str) -> bool:
        """Return True if a reservation is a capacity block; raise if it cannot be used now."""
        if not reservation or reservation.startswith("arn:"):
            return False
        answer = await self._ec2.read(
            region, "describe_capacity_reservations", CapacityReservationIds=[reservation]
        )
        known = answer["CapacityReservations"][0]
        state = known.get("State", "active")
        if state in _NOT_YET:
            raise CapacityError(f"{reservation} is {state} until {known.get('StartDate', 'later')}")
        if state in _NO_MORE:
            raise RejectedError(f"{reservation} is {state}; take it out of the pool")
        return bool(known.get("ReservationType") == "capacity-block")

    async def _group(self, request: ProvisionRequest, region: str) -> str:
        name = group_name(request)
        try:
            await self._make_group(name, request, region)
        except ProviderError as error:
            if code_of_cause(error) != "PlacementGroupLimitExceeded":
                raise
            # Delete unused placement groups. EC2 refuses to delete those that hold machines.
            known = await self._ec2.read(
                region, "describe_placement_groups", Filters=_filters(group_name=["navarch-*"])
            )
            for group in known.get("PlacementGroups", ()):
                unused = group["GroupName"]
                with contextlib.suppress(RejectedError):
                    await self._ec2.write(region, "delete_placement_group", GroupName=unused)
            await self._make_group(name, request, region)
        return name

    async def _make_group(self, name: str, request: ProvisionRequest, region: str) -> None:
        try:
            await self._ec2.write(
                region,
                "create_placement_group",
                GroupName=name,
                Strategy="cluster",
                TagSpecifications=[
                    {"ResourceType": "placement-group", "Tags": tags_of(request.labels)}
                ],
            )
        except ProviderError as error:
            if code_of_cause(error) != "InvalidPlacementGroup.Duplicate":
                raise

    async def _find(self, instance: InstanceId) -> str:
        """Return the region of a machine that this process has not seen."""

        async def search(region: str) -> list[str]:
            return [region] if await self._machines(region, instance_id=[instance]) else []

        places = await self._in_every_region(search)
        if not places:
            raise InstanceNotFoundError(f"{self.name}: no machine {instance} in any region")
        return places[0]

    async def _list(self, region: str) -> list[Instance]:
        found = await self._ec2.pages(region, "describe_instances", "Reservations", MaxResults=PAGE)
        machines = [raw for each in found for raw in each["Instances"]]
        await self._fleets.number(region, machines)
        return [self._read(raw, region) for raw in machines]

    async def _machines(self, region: str, **wanted: Sequence[str]) -> list[Mapping[str, Any]]:
        """Return the machines of a region that match all filters."""
        found = await self._ec2.pages(
            region, "describe_instances", "Reservations", Filters=_filters(**wanted)
        )
        return [raw for reservation in found for raw in reservation["Instances"]]

    async def _notices(self, region: str) -> list[Announcement]:
        statuses = await self._ec2.pages(
            region,
            "describe_instance_status",
            "InstanceStatuses",
            Filters=[{"Name": "event.code", "Values": list(EVENT_CODES)}],
        )
        requests = await self._ec2.pages(
            region,
            "describe_spot_instance_requests",
            "SpotInstanceRequests",
            Filters=_filters(status_code=SPOT_CODES),
        )
        reservations = await self._ec2.pages(
            region,
            "describe_capacity_reservations",
            "CapacityReservations",
            Filters=_filters(state=["active"]),
        )
        found = [*read_events(statuses), *read_spot_requests(requests)]
        for block, at in ending_blocks(reservations, self._clock.now()):
            machines = await self._machines(region, capacity_reservation_id=[block])
            found += [end_of_block(InstanceId(raw["InstanceId"]), block, at) for raw in machines]
        return found

    async def _offerings(self, region: str) -> list[Offering]:
        wanted = _filters(instance_type=GPU_TYPES)
        types = await self._ec2.pages(
            region, "describe_instance_types", "InstanceTypes", Filters=wanted
        )
        gpus = gpus_by_type(types)
        if not gpus:
            return []
        sold = await self._ec2.pages(
            region,
            "describe_instance_type_offerings",
            "InstanceTypeOfferings",
            LocationType="availability-zone",
            Filters=wanted,
        )
        history = await self._ec2.pages(
            region,
            "describe_spot_price_history",
            "SpotPriceHistory",
            InstanceTypes=sorted(gpus),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=self._clock.now(),
        )
        types_sold = sorted({each["InstanceType"] for each in sold} & set(gpus))
        return list(
            read_offerings(
                sold,
                gpus,
                newest_prices(history),
                await self._prices(region, types_sold),
                provider=ProviderName(self.name),
                region=region,
            )
        )

    async def _prices(self, region: str, types: Sequence[str]) -> Mapping[str, Decimal]:
        """Return on-demand prices by type; empty if the account may not read the price list.

        Few accounts grant that permission. Without it the catalogue supplies prices and their
        age. One query covers all GPU machines; types missing from it are queried by name.
        """
        found: dict[str, Decimal] = {}
        with contextlib.suppress(ProviderError):
            found |= read_prices(await self._price_list(price_filters(region)))
            for missing in [name for name in types if name not in found]:
                found |= read_prices(await self._price_list(price_filters(region, missing)))
        return found

    async def _price_list(self, filters: Sequence[Mapping[str, str]]) -> list[str]:
        return await self._ec2.pages(
            HOME,
            "get_products",
            "PriceList",
            service="pricing",
            ServiceCode=SERVICE,
            Filters=filters,
            MaxResults=PRICES_PAGE,
        )

    async def _in_every_region(self, query: Callable[[str], Awaitable[list[T]]]) -> list[T]:
        """Return the results of every region, or raise the error of the first that fails."""
        regions = self._settings.regions
        if not regions:
            enabled = await self._ec2.read(self._settings.region or HOME, "describe_regions")
            regions = sorted(region["RegionName"] for region in enabled["Regions"])
        answers = await asyncio.gather(
            *(query(region) for region in regions), return_exceptions=True
        )
        found: list[T] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            found += answer
        return found

    def _read(self, raw: Mapping[str, Any], region: str) -> Instance:
        number = self._fleets.number_of(raw)
        instance = read_instance(
            raw, provider=ProviderName(self.name), region=region, number=number
        )
        self._region_of[instance.id] = region
        return instance


def _topology(nodes: Sequence[str]) -> Topology:
    """Return the levels of EC2's network, which EC2 lists from widest to narrowest."""
    block, rack, switch = ([*nodes, "", "", ""])[:3]
    return Topology(block=block, rack=rack, switch=switch)


def _filters(**values: Sequence[str]) -> list[dict[str, object]]:
    """Return EC2's form of filters; all must match."""
    return [
        {"Name": name.replace("_", "-"), "Values": list(accepted)}
        for name, accepted in values.items()
    ]
