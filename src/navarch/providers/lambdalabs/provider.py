"""The Lambda provider."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from navarch.core.errors import (
    OutcomeUnknownError,
    ProviderError,
    RejectedError,
    TransientError,
)
from navarch.core.ids import InstanceId, ProviderName
from navarch.core.instance import Instance, InstanceCheck, InstanceStatus
from navarch.core.launch import Offering
from navarch.core.machine_setup import is_public_key
from navarch.core.ownership import TOKEN
from navarch.ports.clock import Clock
from navarch.ports.provider import ProvisionRequest
from navarch.providers.lambdalabs.account import Json, LambdaAccount
from navarch.providers.lambdalabs.refusals import not_found
from navarch.providers.lambdalabs.translation import (
    check_request,
    key_material,
    key_name,
    launch_body,
    parse_check,
    parse_instance,
    parse_offerings,
)

LISTING_LAG = timedelta(seconds=30)
"""Lambda documents no bound. New machines appear within seconds; ten times that delays a launch in
doubt by half a minute."""


class LambdaCloud:
    """The machines of one Lambda account.

    Lambda has no idempotency tokens, so every launch carries Navarch's token as a tag. The provider
    searches the account's machines for the tag before a launch, and again if the response to the
    launch was lost. Listings can lag, so one token may still buy two machines: the provider has no
    `buys_once_per_token`, and the control plane waits for the listings before it retries.
    """

    listing_lag = LISTING_LAG

    def __init__(
        self, clock: Clock, account: LambdaAccount, *, name: str, ssh_key: str = ""
    ) -> None:
        """Use `ssh_key`, a name or a public key, for requests without keys."""
        self._clock = clock
        self.account = account
        self.name = ProviderName(name)
        self._default_keys = (ssh_key,) if ssh_key else ()
        self._known_keys: dict[str, str] = {}

    async def provision(self, request: ProvisionRequest) -> Instance:
        """Start one machine, or return the one that this token already started."""
        keys = request.ssh_keys or self._default_keys
        check_request(request, keys)
        ssh_key = await self._ssh_key(keys[0])
        found = await self._find(request)
        if found is not None:
            return found
        body = launch_body(request, ssh_key=ssh_key, now=self._clock.now())
        try:
            started = await self.account.launch(body)
        except OutcomeUnknownError as error:
            # The response was lost; the machine may be listed already.
            try:
                found = await self._find(request)
            except ProviderError:
                raise error from None
            if found is None:
                raise
            return found
        except RejectedError:
            # The SSH key may have been deleted: the next launch checks it again.
            self._known_keys.clear()
            raise
        return self._started(request, started)

    async def terminate(self, instance: InstanceId) -> None:
        """Terminate one machine."""
        answer = await self._operate("terminate", instance)
        if not _names(answer, "terminated_instances", instance):
            raise TransientError(f"Lambda did not confirm the termination of {instance}")

    async def reboot(self, instance: InstanceId) -> None:
        """Restart one machine."""
        answer = await self._operate("restart", instance)
        if not _names(answer, "restarted_instances", instance):
            raise TransientError(f"Lambda did not confirm the restart of {instance}")

    async def _operate(self, operation: str, instance: InstanceId) -> Json:
        try:
            return await self.account.operate(operation, instance)
        except RejectedError as error:
            raise not_found(error) from error

    async def offerings(self) -> Sequence[Offering]:
        """Return the machine types with stock, by region, with prices."""
        return [offering for offering in await self._sold() if offering.region]

    async def sold_out(self) -> Sequence[Offering]:
        """Return the machine types without stock in any region, with prices."""
        return [offering for offering in await self._sold() if not offering.region]

    async def _sold(self) -> Sequence[Offering]:
        types = await self.account.instance_types()
        try:
            return list(parse_offerings(types, self.name))
        except (KeyError, TypeError) as error:
            raise TransientError(f"the instance types cannot be read: {error!r}") from error

    async def list_instances(self) -> Sequence[Instance]:
        """Return every machine of the account."""
        listed = await self.account.instances()
        try:
            return [parse_instance(bytes(each), self.name) for each in listed]
        except ValueError as error:
            # A machine left out would look terminated, so a partial listing is an error.
            raise TransientError(f"Lambda's listing cannot be read: {error!r}") from error

    async def instance_checks(
        self, instances: Sequence[InstanceId]
    ) -> Mapping[InstanceId, InstanceCheck]:
        """Return the states of machines, from one listing."""
        wanted, listed = set(instances), await self.account.instances()
        try:
            found = [parse_check(bytes(each)) for each in listed]
        except ValueError as error:
            raise TransientError(f"Lambda's listing cannot be read: {error!r}") from error
        return {each[0]: each[1] for each in found if each is not None and each[0] in wanted}

    async def _find(self, request: ProvisionRequest) -> Instance | None:
        for instance in await self.list_instances():
            if instance.labels.get(TOKEN) == request.token:
                return instance
        return None

    def _started(self, request: ProvisionRequest, answer: Json) -> Instance:
        ids = answer.get("instance_ids") if isinstance(answer, dict) else None
        if not isinstance(ids, list) or not ids:
            raise OutcomeUnknownError("Lambda accepted a launch without naming the machine")
        return Instance(
            id=InstanceId(str(ids[0])),
            provider=self.name,
            status=InstanceStatus.PENDING,
            instance_type=request.instance_type,
            region=request.region,
            labels=request.labels,
            launched_at=self._clock.now(),
        )

    async def _ssh_key(self, key: str) -> str:
        """Return the name of a key at Lambda; register a public key that Lambda does not have."""
        if not is_public_key(key):
            return key
        if key in self._known_keys:
            return self._known_keys[key]
        name = key_name(key)
        for known in await self.account.ssh_keys():
            if key_material(str(known.get("public_key", ""))) == key_material(key):
                name = str(known["name"])
                break
        else:
            try:
                await self.account.add_ssh_key(name, key)
            except OutcomeUnknownError as error:
                # Nothing was bought, and the next attempt lists the keys again.
                raise TransientError(str(error)) from error
        self._known_keys[key] = name
        return name


def _names(answer: Json, field: str, instance: InstanceId) -> bool:
    """Return True if a response's list of machines contains this one."""
    found = answer.get(field) if isinstance(answer, dict) else None
    if not isinstance(found, list):
        return False
    return any(isinstance(one, dict) and one.get("id") == instance for one in found)
