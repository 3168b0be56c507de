"""The calls that start fleets, and those that find the numbers of their machines."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from navarch.core.errors import (
    OutcomeUnknownError,
    ProviderError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceStatus
from navarch.core.ownership import CLUSTER
from navarch.ports.clock import Clock
from navarch.ports.provider import ProvisionRequest
from navarch.providers.aws.ec2 import AwsSettings, Ec2
from navarch.providers.aws.fleets import (
    FLEET,
    create_fleet,
    is_complete,
    launch_template,
    why_missing,
    zones_of,
)
from navarch.providers.aws.request import Site, tags_of
from navarch.providers.aws.translation import MISMATCH, NUMBERED, code_of_cause
from navarch.providers.shared_calls import common_labels

NEW = timedelta(hours=1)
"""How long a machine may belong to an open launch. Its number is then needed to find its owner."""

FLEETS_PER_CALL = 100

TEMPLATE_KEPT = timedelta(days=1)
"""After this time, a launch template is deleted when another one is made."""

_EXISTS = "InvalidLaunchTemplateName.AlreadyExistsException"
_NO_TEMPLATE = (
    "InvalidLaunchTemplateName.NotFoundException",
    "InvalidLaunchTemplateId.NotFound",
)


class FleetCalls:
    """The fleets of one account.

    A machine's number decides whose it is, so it is taken only from a fleet that lists all its
    machines. Until it does, a listing with a new machine fails, and is repeated.
    """

    def __init__(self, clock: Clock, ec2: Ec2, settings: AwsSettings) -> None:
        self.permitted = True
        """False once EC2 refused a fleet for lack of permission."""
        self._clock = clock
        self._ec2 = ec2
        self._settings = settings
        self._numbers: dict[InstanceId, int] = {}
        self._templates: set[tuple[str, str]] = set()
        """The region and the name of each template that this process has found or made."""
        self._making = asyncio.Lock()

    async def start(
        self, requests: Sequence[ProvisionRequest], site: Site, subnets: Mapping[str, str]
    ) -> Sequence[Instance | ProviderError] | None:
        """Start machines in any of the zones of `subnets`; None if they cannot share a call."""
        name, data = launch_template(requests, self._settings, site)
        call = create_fleet(requests, self._settings, site, template=name, subnets=subnets)
        if call is None:
            return None
        region, first = site.region, requests[0]
        await self._make_template(region, name, data, common_labels(requests))
        try:
            fleet = await self._ec2.write(region, "create_fleet", **call)
        except ProviderError as error:
            code = code_of_cause(error)
            if code == MISMATCH:
                # The first attempt had other parameters, and may have started machines.
                raise OutcomeUnknownError(str(error)) from error
            if code in _NO_TEMPLATE:
                self._templates.discard((region, name))
                raise TransientError(str(error)) from error
            raise
        zone_of_subnet = {subnet: zone for zone, subnet in subnets.items() if subnet}
        started = list(zones_of(fleet, zone_of_subnet).items())
        self._numbers |= {machine: number for number, (machine, _) in enumerate(started)}
        missing = why_missing(
            fleet,
            zone_of_subnet,
            first_zone=first.zone,
            what=f"{region}: {len(started)} of {len(requests)} {first.instance_type} started",
        )
        machines = [
            self._new(machine, request, region, zone)
            for request, (machine, zone) in zip(requests, started, strict=False)
        ]
        return [*machines, *[missing] * (len(requests) - len(machines))]

    def _new(
        self, machine: InstanceId, request: ProvisionRequest, region: str, zone: str
    ) -> Instance:
        """Return a machine as it is until it is listed: CreateFleet returns little about it."""
        return Instance(
            id=machine,
            provider=ProviderName(self._settings.name),
            status=InstanceStatus.PENDING,
            instance_type=request.instance_type,
            region=region,
            zone=zone,
            labels=request.labels,
            launched_at=self._clock.now(),
        )

    def number_of(self, raw: Mapping[str, Any]) -> int | None:
        """Return the number of a machine within its call; None if it is not known."""
        if NUMBERED in _tags(raw):
            return self._numbers.get(InstanceId(raw["InstanceId"]))
        return int(raw.get("AmiLaunchIndex", 0))

    async def number(self, region: str, machines: Sequence[Mapping[str, Any]]) -> None:
        """Find the numbers of those machines of fleets that have none yet.

        Raises TransientError while a fleet does not list a machine that may be of an open launch.
        An older machine is known by its id.
        """
        wanted: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for raw in machines:
            tags = _tags(raw)
            if NUMBERED in tags and raw["InstanceId"] not in self._numbers:
                wanted[tags.get(FLEET, "")].append(raw)
        names = sorted(filter(None, wanted))
        for start in range(0, len(names), FLEETS_PER_CALL):
            await self._look_up(region, names[start : start + FLEETS_PER_CALL])
        oldest = self._clock.now() - NEW
        for fleet, members in wanted.items():
            unknown = [x["InstanceId"] for x in members if x["InstanceId"] not in self._numbers]
            if unknown and any(_launched_at(raw) > oldest for raw in members):
                named = ", ".join(sorted(unknown))
                raise TransientError(
                    f"{region}: {fleet or 'a fleet'} does not list all its machines: {named}"
                )

    async def _look_up(self, region: str, names: Sequence[str]) -> None:
        fleets = await self._ec2.pages(region, "describe_fleets", "Fleets", FleetIds=names)
        for fleet in fleets:
            if is_complete(fleet):
                found = zones_of(fleet, {})
                self._numbers |= {machine: number for number, machine in enumerate(found)}

    async def _make_template(
        self, region: str, name: str, data: Mapping[str, Any], labels: Mapping[str, str]
    ) -> None:
        async with self._making:
            if (region, name) in self._templates:
                return
            try:
                await self._ec2.write(
                    region,
                    "create_launch_template",
                    LaunchTemplateName=name,
                    LaunchTemplateData=data,
                    TagSpecifications=[
                        {"ResourceType": "launch-template", "Tags": tags_of(labels)}
                    ],
                )
            except ProviderError as error:
                if code_of_cause(error) != _EXISTS:
                    raise
            else:
                await self._delete_old_templates(region, labels.get(CLUSTER, ""))
            self._templates.add((region, name))

    async def _delete_old_templates(self, region: str, cluster: str) -> None:
        """Delete this cluster's templates that this process does not use; an account has 5,000."""
        known = await self._ec2.pages(
            region,
            "describe_launch_templates",
            "LaunchTemplates",
            Filters=[{"Name": f"tag:{CLUSTER}", "Values": [cluster]}],
        )
        oldest = self._clock.now() - TEMPLATE_KEPT
        for template in known:
            name = template["LaunchTemplateName"]
            if (region, name) not in self._templates and template["CreateTime"] < oldest:
                with contextlib.suppress(ProviderError):
                    await self._ec2.write(region, "delete_launch_template", LaunchTemplateName=name)


def _tags(raw: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}


def _launched_at(raw: Mapping[str, Any]) -> datetime:
    launched_at: datetime = raw["LaunchTime"]
    return launched_at
