"""A local EC2: moto's server, behind a front that adds what moto lacks.

moto responds with EC2's XML, but it ignores tokens, has unlimited stock and no quotas. The front
adds, as EC2's documentation describes: tokens that buy one machine and refuse other parameters,
zones without stock, quotas in vCPUs, fleets, placement groups, capacity reservations and blocks,
topology, announcements, lagging listings, lost responses, and a price list. Queues and EventBridge
are moto's own.

Run as a program, it prints its port. Needs `moto[ec2]`, `flask` and `flask-cors`.
"""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode
from xml.sax.saxutils import escape

from navarch.clock import SystemClock
from navarch.ports.clock import Clock

CONTROL = "/navarch-control"
ACCOUNT = "123456789012"
"""The account of every caller in moto."""
ACCESS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}

Start = Callable[[str, list[tuple[str, str]]], object]
Environ = dict[str, Any]


@dataclass
class Conditions:
    """The state and faults of the local EC2. All of it can be set while the server runs."""

    stock: dict[str, int] = field(default_factory=dict)
    """The remaining stock of `zone/type`; unlimited without an entry."""
    vcpus: dict[str, int] = field(default_factory=dict)
    """Quotas by region, in vCPUs; unlimited without an entry."""
    groups_max: int = 500
    reservations: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By id: type, zone, total, kind (default or capacity-block), state, end."""
    faults: list[dict[str, Any]] = field(default_factory=list)
    """Faults of the next calls: an action, and an error code, how the response is lost, or how many
    seconds it is late (`late_s`)."""
    events: dict[str, dict[str, str]] = field(default_factory=dict)
    """Planned events by machine: code and description."""
    reclaims: list[str] = field(default_factory=list)
    """Spot machines that are about to be reclaimed."""
    impaired: dict[str, list[str]] = field(default_factory=dict)
    """The status checks that fail by machine: `system`, `instance`, `attachedEbs`."""
    lag_s: float = 0.0
    """How long a new machine is missing from listings."""
    frozen: bool = False
    """Serve listings from memory, for client benchmarks: moto's listings are slow."""
    prices: dict[str, dict[str, str]] = field(default_factory=dict)
    """On-demand dollars per hour by region and type; without any, access to the list is denied."""
    families: dict[str, str] = field(default_factory=dict)
    """The price list's family of a type, if it is not `GPU instance`."""
    hidden_fleets: bool = False
    """Fleets are missing from DescribeFleets."""
    short_fleets: bool = False
    """Fleets lack their last machine in DescribeFleets."""
    untagged_fleets: bool = False
    """The machines of fleets do not have EC2's tag yet."""
    page: int = 0
    """The most machines on a page; if zero, as many as requested."""


class Front:
    """The parts of EC2 that moto lacks."""

    def __init__(self, clock: Clock, inner: Callable[[Environ, Start], Iterable[bytes]]) -> None:
        self._clock = clock
        self._inner = inner
        self._lock = threading.RLock()
        self._late = threading.Event()
        self.reset()

    def reset(self) -> None:
        """Reset all state."""
        self.conditions = Conditions()
        self._tokens: dict[tuple[str, str], tuple[str, bytes, str]] = {}
        self._groups: dict[tuple[str, str], None] = {}
        self._placed: dict[str, str] = {}
        """The placement group of each machine that has one."""
        self._reserved: dict[str, str] = {}
        """The reservation of each machine that has one."""
        self._born: dict[str, float] = {}
        self._listings: dict[str, _Answer] = {}
        self._templates: dict[tuple[str, str], dict[str, str]] = {}
        """The parameters in each launch template, by region and name."""
        self._fleets: dict[str, dict[str, list[str]]] = {}
        """The machines of each fleet by zone."""
        self.calls: dict[str, int] = {}
        self.effects: list[dict[str, Any]] = []
        """The calls that start or end machines, in their order: what `Ec2Effect` holds."""

    def __call__(self, environ: Environ, start: Start) -> Iterable[bytes]:
        """Handle one request."""
        if environ["PATH_INFO"] == CONTROL:
            return self._control(environ, start)
        if environ["PATH_INFO"].startswith("/moto-api"):
            return self._inner(environ, start)
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if "json" in environ.get("CONTENT_TYPE", ""):
            return self._beside(body, environ, start)
        call = {key: values[0] for key, values in parse_qs(body.decode()).items()}
        region = _region(environ)
        action = call.get("Action", "")
        with self._lock:
            self.calls[action] = self.calls.get(action, 0) + 1
            fault = self._fault(action)
        if fault is not None and fault.get("lost") == "before":
            return _hang_up(environ)
        if fault is not None and "code" in fault:
            return _error(start, fault["code"], fault.get("status", 400))
        answer = self._answer(action, call, region, environ)
        lost = fault is not None and fault.get("lost") == "after"
        self._record(action, call, environ, answer, delivered=not lost)
        if lost:
            return _hang_up(environ)
        if fault is not None and "late_s" in fault:
            self._late.wait(fault["late_s"])
        start(f"{answer.status} {'OK' if answer.status < 400 else 'Refused'}", answer.headers)
        return [answer.body]

    def _record(
        self,
        action: str,
        call: dict[str, str],
        environ: Environ,
        answer: "_Answer",
        *,
        delivered: bool,
    ) -> None:
        """Note a call that started or ended machines."""
        if action not in ("RunInstances", "TerminateInstances") or answer.status != 200:
            return
        effect = {
            "at": self._clock.now().timestamp(),
            "action": action,
            "caller": _caller(environ),
            "token": call.get("ClientToken", ""),
            "tags": _tags_of(call),
            "machines": _all(answer.body, "instanceId"),
            "delivered": delivered,
        }
        with self._lock:
            self.effects.append(effect)

    def _beside(self, body: bytes, environ: Environ, start: Start) -> Iterable[bytes]:
        """Handle a call to another service than EC2."""
        target = environ.get("HTTP_X_AMZ_TARGET", "")
        if target == "AWSPriceListService.GetProducts":
            answer = self._get_products(json.loads(body))
        elif target == "AmazonSQS.ReceiveMessage":
            # One server has every message: a wait for more would only take time.
            answer = self._forward(
                json.dumps({**json.loads(body), "WaitTimeSeconds": 0}).encode(), environ
            )
        else:
            answer = self._forward(body, environ)
        start(f"{answer.status} Done", answer.headers)
        return [answer.body]

    def _get_products(self, asked: dict[str, Any]) -> "_Answer":
        """Return entries of the price list, in AWS's documented format."""
        assert asked["ServiceCode"] == "AmazonEC2", asked
        if not self.conditions.prices:
            denied = {"__type": "AccessDeniedException", "Message": "not authorized"}
            return _json(denied, 400)
        wanted = {each["Field"]: each["Value"] for each in asked["Filters"]}
        assert all(each["Type"] == "TERM_MATCH" for each in asked["Filters"]), asked
        entries = [
            entry
            for region, prices in self.conditions.prices.items()
            for kind, price in prices.items()
            for entry in _products(
                region, kind, price, self.conditions.families.get(kind, "GPU instance")
            )
            if wanted.items() <= entry["product"]["attributes"].items()
        ]
        first = int(asked.get("NextToken") or 0)
        page = entries[first : first + 2]
        following = {"NextToken": str(first + 2)} if first + 2 < len(entries) else {}
        listed = [json.dumps(entry) for entry in page]
        return _json({"FormatVersion": "aws_v1", "PriceList": listed, **following})

    def _answer(
        self, action: str, call: dict[str, str], region: str, environ: Environ
    ) -> "_Answer":
        known: dict[str, Callable[[], _Answer]] = {
            "RunInstances": lambda: self._run(call, region, environ),
            "CreateLaunchTemplate": lambda: self._create_template(call, region, environ),
            "CreateFleet": lambda: self._create_fleet(call, region, environ),
            "DescribeFleets": lambda: self._describe_fleets(call),
            "CreatePlacementGroup": lambda: self._create_group(call, region),
            "DeletePlacementGroup": lambda: self._delete_group(call, region),
            "DescribePlacementGroups": lambda: self._describe_groups(region),
            "DescribeCapacityReservations": lambda: self._describe_reservations(call),
            "DescribeInstanceTopology": lambda: self._describe_topology(call),
            "DescribeInstanceStatus": lambda: self._describe_status(call, region),
            "DescribeSpotInstanceRequests": self._describe_spot_requests,
            "DescribeInstances": lambda: self._describe_instances(call, region, environ),
        }
        make = known.get(action)
        return make() if make else self._moto(_expanded(call), environ)

    def _fault(self, action: str) -> dict[str, Any] | None:
        for fault in self.conditions.faults:
            if fault["action"] == action:
                self.conditions.faults.remove(fault)
                return fault
        return None

    def _run(self, call: dict[str, str], region: str, environ: Environ) -> "_Answer":
        token = (region, call.get("ClientToken", ""))
        words = json.dumps({k: v for k, v in call.items() if k != "ClientToken"}, sort_keys=True)
        # Serialised: the second of two calls with one token finds the first one's machine.
        with self._lock:
            if token[1] and token in self._tokens:
                first, body, _ = self._tokens[token]
                if first == words:
                    return _Answer(200, body)
                return _refuse("IdempotentParameterMismatch")
            granted, refused = self._granted(call, region)
            if not granted:
                assert refused is not None
                return refused
            answer = self._start(call, granted, environ)
            if answer.status == 200:
                names = _all(answer.body, "instanceId")
                for name in names:
                    self._note(name, call)
                self._tokens[token] = (words, answer.body, names[0])
            return answer

    def _create_template(self, call: dict[str, str], region: str, environ: Environ) -> "_Answer":
        answer = self._moto(call, environ)
        if answer.status == 200:
            prefix = "LaunchTemplateData."
            self._templates[region, call["LaunchTemplateName"]] = {
                key.removeprefix(prefix): value
                for key, value in call.items()
                if key.startswith(prefix)
            }
        return answer

    def _create_fleet(self, call: dict[str, str], region: str, environ: Environ) -> "_Answer":
        """Start the machines of an instant fleet, zone by zone in the order of their priorities."""
        assert call["Type"] == "instant", call
        config = "LaunchTemplateConfigs.1."
        name = call[f"{config}LaunchTemplateSpecification.LaunchTemplateName"]
        token = (region, call["ClientToken"])
        words = json.dumps({k: v for k, v in call.items() if k != "ClientToken"}, sort_keys=True)
        with self._lock:
            if token in self._tokens:
                first, body, _ = self._tokens[token]
                if first == words:
                    return _Answer(200, body)
                return _refuse("IdempotentParameterMismatch")
            if (region, name) not in self._templates:
                return _refuse("InvalidLaunchTemplateName.NotFoundException")
            total = int(call["TargetCapacitySpecification.TotalTargetCapacity"])
            least = _option(call, "MinTargetCapacity")
            one_zone = _option(call, "SingleAvailabilityZone") == "true"
            common = _machine_of_fleet(call, self._templates[region, name])
            zones, errors = self._start_fleet(
                call, common, region, environ, total=total, least=int(least or 1), one_zone=one_zone
            )
            fleet = f"fleet-{len(self._fleets):08x}-0000-4000-8000-000000000000"
            started = "".join(_fleet_item(zone, names) for zone, names in zones.items())
            refused = "".join(errors)
            answer = _reply(
                "CreateFleetResponse",
                f"<fleetId>{fleet}</fleetId><errorSet>{refused}</errorSet>"
                f"<fleetInstanceSet>{started}</fleetInstanceSet>",
            )
            self._fleets[fleet] = zones
            self._tokens[token] = (words, answer.body, fleet)
            return answer

    def _start_fleet(
        self,
        call: dict[str, str],
        common: dict[str, str],
        region: str,
        environ: Environ,
        *,
        total: int,
        least: int,
        one_zone: bool,
    ) -> tuple[dict[str, list[str]], list[str]]:
        """Return the machines that started by zone, and the errors of the other zones."""
        zones: dict[str, list[str]] = {}
        errors: list[str] = []
        for zone, subnet in _zones_of_fleet(call):
            wanted = total - sum(len(names) for names in zones.values())
            if not wanted or (one_zone and zones):
                break
            run = {**common, "Placement.AvailabilityZone": zone, "MaxCount": str(wanted)}
            run |= {"MinCount": str(least)} | ({"SubnetId": subnet} if subnet else {})
            granted, refused = self._granted(run, region)
            if granted:
                answer = self._start(run, granted, environ)
                if answer.status == 200:
                    zones[zone] = _all(answer.body, "instanceId")
                    for name in zones[zone]:
                        self._note(name, run)
                else:
                    refused = answer
            if refused is not None:
                code, text = _all(refused.body, "Code")[0], _all(refused.body, "Message")[0]
                place = f"<availabilityZone>{zone}</availabilityZone>"
                errors.append(
                    f"<item><launchTemplateAndOverrides><overrides>{place}</overrides>"
                    "</launchTemplateAndOverrides><lifecycle>on-demand</lifecycle>"
                    f"<errorCode>{code}</errorCode><errorMessage>{text}</errorMessage></item>"
                )
        return zones, errors

    def _describe_fleets(self, call: dict[str, str]) -> "_Answer":
        asked = [value for key, value in call.items() if key.startswith("FleetId.")]
        items = ""
        for fleet in asked:
            if fleet not in self._fleets:
                return _refuse("InvalidFleetId.NotFound")
            if self.conditions.hidden_fleets:
                continue
            zones = {zone: list(names) for zone, names in self._fleets[fleet].items()}
            count = sum(len(names) for names in zones.values())
            if self.conditions.short_fleets:
                zones[next(reversed(zones))].pop()
            # In another order than CreateFleet's.
            listed = "".join(_fleet_item(zone, zones[zone][::-1]) for zone in reversed(zones))
            items += (
                f"<item><fleetId>{fleet}</fleetId><type>instant</type>"
                f"<fulfilledCapacity>{count}.0</fulfilledCapacity>"
                f"<fleetInstanceSet>{listed}</fleetInstanceSet></item>"
            )
        return _reply("DescribeFleetsResponse", f"<fleetSet>{items}</fleetSet>")

    def _with_fleets(self, answer: "_Answer") -> "_Answer":
        """Return a listing with EC2's own tag on the machines of fleets, which moto refuses."""
        fleet_of = {
            name: fleet
            for fleet, zones in self._fleets.items()
            for names in zones.values()
            for name in names
        }
        if not fleet_of or self.conditions.untagged_fleets:
            return answer
        return replace_body(answer, _tagged(answer.body, fleet_of))

    def _start(self, call: dict[str, str], count: int, environ: Environ) -> "_Answer":
        return self._moto({**call, "MinCount": str(count), "MaxCount": str(count)}, environ)

    def _granted(self, call: dict[str, str], region: str) -> tuple[int, "_Answer | None"]:
        """Return how many machines start, all that there are or none, and why no more do."""
        granted, refused = 0, None
        while granted < int(call.get("MaxCount", 1)) and refused is None:
            refused = self._refusal(call, region, granted)
            granted += refused is None
        if granted >= int(call.get("MinCount", 1)):
            return granted, refused
        place = f"{call.get('Placement.AvailabilityZone', f'{region}a')}/{call['InstanceType']}"
        if place in self.conditions.stock:
            self.conditions.stock[place] += granted
        return 0, refused

    def _refusal(self, call: dict[str, str], region: str, granted: int) -> "_Answer | None":
        """Return why one more machine than those granted to this call does not start."""
        kind, zone = call["InstanceType"], call.get("Placement.AvailabilityZone", f"{region}a")
        group = call.get("Placement.GroupName")
        if group and (region, group) not in self._groups:
            return _refuse("InvalidPlacementGroup.Unknown")
        reservation = call.get(
            "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
        )
        if reservation:
            return self._reservation_refusal(reservation, kind, zone, call)
        limit = self.conditions.vcpus.get(region)
        if limit is not None and self._vcpus_in(region) + (granted + 1) * _vcpus(kind) > limit:
            return _refuse("VcpuLimitExceeded")
        place = f"{zone}/{kind}"
        if self.conditions.stock.get(place, 1) < 1:
            return _refuse("InsufficientInstanceCapacity", 500)
        if place in self.conditions.stock:
            self.conditions.stock[place] -= 1
        return None

    def _reservation_refusal(
        self, name: str, kind: str, zone: str, call: dict[str, str]
    ) -> "_Answer | None":
        held = self.conditions.reservations.get(name)
        if held is None:
            return _refuse("InvalidCapacityReservationId.NotFound")
        block = held.get("kind") == "capacity-block"
        if block != (call.get("InstanceMarketOptions.MarketType") == "capacity-block"):
            return _refuse("InvalidParameterCombination")
        if (held["type"], held["zone"]) != (kind, zone):
            return _refuse("InvalidParameterValue")
        if self._used(name) >= held["total"]:
            return _refuse("ReservationCapacityExceeded")
        return None

    def _used(self, reservation: str) -> int:
        alive = {machine.id for machine in _machines()}
        return sum(r == reservation and i in alive for i, r in self._reserved.items())

    def _vcpus_in(self, region: str) -> int:
        return sum(_vcpus(machine.instance_type) for machine in _machines(region))

    def _note(self, name: str, call: dict[str, str]) -> None:
        self._born[name] = self._clock.monotonic()
        if "Placement.GroupName" in call:
            self._placed[name] = call["Placement.GroupName"]
        target = "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
        if target in call:
            self._reserved[name] = call[target]

    def _describe_instances(self, call: dict[str, str], region: str, environ: Environ) -> "_Answer":
        sought = _filters(call)
        if "client-token" in sought:
            known = [self._tokens.get((region, x)) for x in sought["client-token"]]
            return self._by_ids([x[2] for x in known if x is not None], environ)
        if "capacity-reservation-id" in sought:
            wanted = sought["capacity-reservation-id"]
            return self._by_ids([i for i, r in self._reserved.items() if r in wanted], environ)
        if self.conditions.page and "MaxResults" in call:
            call = {**call, "MaxResults": str(self.conditions.page)}
        if self.conditions.frozen:
            return self._from_memory(call, environ)
        answer = self._with_fleets(self._moto(call, environ))
        hidden = self._hidden()
        return replace_body(answer, _without(answer.body, hidden)) if hidden else answer

    def _from_memory(self, call: dict[str, str], environ: Environ) -> "_Answer":
        key = json.dumps(call, sort_keys=True)
        if key not in self._listings:
            self._listings[key] = self._moto(call, environ)
        return self._listings[key]

    def _by_ids(self, names: list[str], environ: Environ) -> "_Answer":
        hidden = self._hidden()
        names = [name for name in names if name not in hidden] or ["i-00000000000000000"]
        call = {"Action": "DescribeInstances", "Version": "2016-11-15"}
        call["Filter.1.Name"] = "instance-id"
        call |= {f"Filter.1.Value.{n}": name for n, name in enumerate(names, 1)}
        return self._moto(call, environ)

    def _hidden(self) -> set[str]:
        after = self._clock.monotonic() - self.conditions.lag_s
        return {name for name, born in self._born.items() if born > after}

    def _create_group(self, call: dict[str, str], region: str) -> "_Answer":
        with self._lock:
            if (region, call["GroupName"]) in self._groups:
                return _refuse("InvalidPlacementGroup.Duplicate")
            if sum(at == region for at, _ in self._groups) >= self.conditions.groups_max:
                return _refuse("PlacementGroupLimitExceeded")
            self._groups[region, call["GroupName"]] = None
        return _reply("CreatePlacementGroupResponse", "<return>true</return>")

    def _delete_group(self, call: dict[str, str], region: str) -> "_Answer":
        with self._lock:
            alive = {machine.id for machine in _machines(region)}
            if any(g == call["GroupName"] and i in alive for i, g in self._placed.items()):
                return _refuse("InvalidPlacementGroup.InUse")
            self._groups.pop((region, call["GroupName"]), None)
        return _reply("DeletePlacementGroupResponse", "<return>true</return>")

    def _describe_groups(self, region: str) -> "_Answer":
        names = [name for at, name in self._groups if at == region]
        items = "".join(
            f"<item><groupName>{escape(n)}</groupName><strategy>cluster</strategy>"
            "<state>available</state></item>"
            for n in names
        )
        body = f"<placementGroupSet>{items}</placementGroupSet>"
        return _reply("DescribePlacementGroupsResponse", body)

    def _describe_reservations(self, call: dict[str, str]) -> "_Answer":
        ids = [value for key, value in call.items() if key.startswith("CapacityReservationId.")]
        known = self.conditions.reservations
        if any(name not in known for name in ids):
            return _refuse("InvalidCapacityReservationId.NotFound")
        states = _filters(call).get("state")
        items = "".join(
            f"<item><capacityReservationId>{name}</capacityReservationId>"
            f"<instanceType>{each['type']}</instanceType>"
            f"<availabilityZone>{each['zone']}</availabilityZone>"
            f"<totalInstanceCount>{each['total']}</totalInstanceCount>"
            f"<availableInstanceCount>{each['total'] - self._used(name)}</availableInstanceCount>"
            f"<state>{each.get('state', 'active')}</state>"
            f"<reservationType>{each.get('kind', 'default')}</reservationType>"
            + (f"<endDate>{each['end']}</endDate>" if "end" in each else "")
            + "</item>"
            for name, each in known.items()
            if (not ids or name in ids) and (not states or each.get("state", "active") in states)
        )
        body = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return _reply("DescribeCapacityReservationsResponse", body)

    def _describe_topology(self, call: dict[str, str]) -> "_Answer":
        ids = [value for key, value in call.items() if key.startswith("InstanceId.")]
        items = "".join(
            f"<item><instanceId>{name}</instanceId><networkNodeSet>"
            f"<item>nn-{group}-top</item><item>nn-{group}-mid</item><item>nn-{name}</item>"
            "</networkNodeSet></item>"
            for name in ids
            for group in [self._placed.get(name, name)]
        )
        body = f"<instanceSet>{items}</instanceSet>"
        return _reply("DescribeInstanceTopologyResponse", body)

    def _describe_status(self, call: dict[str, str], region: str) -> "_Answer":
        ids = [value for key, value in call.items() if key.startswith("InstanceId.")]
        if ids:
            return self._describe_checks(ids, region)
        items = "".join(
            f"<item><instanceId>{name}</instanceId><eventsSet><item><code>{event['code']}</code>"
            f"<description>{escape(event['description'])}</description>"
            "<notBefore>2026-11-20T10:00:00.000Z</notBefore></item></eventsSet></item>"
            for name, event in self.conditions.events.items()
        )
        body = f"<instanceStatusSet>{items}</instanceStatusSet>"
        return _reply("DescribeInstanceStatusResponse", body)

    def _describe_checks(self, ids: list[str], region: str) -> "_Answer":
        states = _states(region)
        unknown = [name for name in ids if name not in states]
        if unknown:
            text = f"The instance IDs '{', '.join(unknown)}' do not exist"
            return _refuse("InvalidInstanceID.NotFound", text=text)
        body = "".join(_checks(n, states[n], self.conditions.impaired.get(n, [])) for n in ids)
        set_ = f"<instanceStatusSet>{body}</instanceStatusSet>"
        return _reply("DescribeInstanceStatusResponse", set_)

    def _describe_spot_requests(self) -> "_Answer":
        items = "".join(
            f"<item><instanceId>{name}</instanceId><state>active</state><status>"
            "<code>marked-for-termination</code><message>Spot Instance is about to go</message>"
            "</status></item>"
            for name in self.conditions.reclaims
        )
        body = f"<spotInstanceRequestSet>{items}</spotInstanceRequestSet>"
        return _reply("DescribeSpotInstanceRequestsResponse", body)

    def _moto(self, call: dict[str, str], environ: Environ) -> "_Answer":
        return self._forward(urlencode(call).encode(), environ)

    def _forward(self, body: bytes, environ: Environ) -> "_Answer":
        import io

        inner = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
        started: list[tuple[str, list[tuple[str, str]]]] = []

        def start(status: str, headers: list[tuple[str, str]]) -> object:
            started.append((status, headers))
            return lambda _data: None

        answer = b"".join(self._inner(inner, start))
        status, headers = started[0]
        kept = [(k, v) for k, v in headers if k.lower() != "content-length"]
        return _Answer(int(status.split()[0]), answer, kept)

    def _control(self, environ: Environ, start: Start) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        with self._lock:
            if environ["REQUEST_METHOD"] == "DELETE":
                _reset_moto()
                self.reset()
            elif environ["REQUEST_METHOD"] == "PUT":
                for name, value in json.loads(body).items():
                    assert hasattr(self.conditions, name), name
                    setattr(self.conditions, name, value)
            state = {"calls": self.calls, "made": len(self._born), "effects": self.effects}
            answer = json.dumps({**state, "alive": [x.id for x in _machines()]})
        start("200 OK", [("Content-Type", "application/json")])
        return [answer.encode()]


@dataclass
class _Answer:
    status: int
    body: bytes
    headers: list[tuple[str, str]] = field(default_factory=lambda: [("Content-Type", "text/xml")])


def replace_body(answer: _Answer, body: bytes) -> _Answer:
    return _Answer(answer.status, body, answer.headers)


def _reply(name: str, body: str) -> _Answer:
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    return _Answer(200, f'<{name} xmlns="{space}">{body}</{name}>'.encode())


def _refuse(code: str, status: int = 400, text: str = "") -> _Answer:
    message = escape(text or f"Local EC2: {code}")
    body = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>{message}</Message>"
        "</Error></Errors><RequestID>00000000-0000-0000-0000-000000000000</RequestID></Response>"
    )
    return _Answer(status, body.encode())


def _checks(name: str, state: str, failed: list[str]) -> str:
    """Return the state and the status checks of one machine."""
    parts = ""
    for check in ("system", "instance", "attachedEbs"):
        status = "ok" if state == "running" else "not-applicable"
        detail = "<name>reachability</name><status>passed</status>"
        if check in failed and state == "running":
            status = "impaired"
            detail = (
                "<name>reachability</name><status>failed</status>"
                "<impairedSince>2026-11-18T12:03:00.000Z</impairedSince>"
            )
        parts += (
            f"<{check}Status><status>{status}</status><details><item>{detail}</item></details>"
            f"</{check}Status>"
        )
    return (
        f"<item><instanceId>{name}</instanceId><instanceState><name>{state}</name>"
        f"</instanceState>{parts}</item>"
    )


def _json(content: object, status: int = 200) -> _Answer:
    headers = [("Content-Type", "application/x-amz-json-1.1")]
    return _Answer(status, json.dumps(content).encode(), headers)


def _products(region: str, kind: str, price: str, family: str) -> Iterator[dict[str, Any]]:
    """Yield the prices of one type: the plain on-demand price, and prices to be ignored."""
    for system, tenancy, market, dollars in (
        ("Linux", "Shared", "OnDemand", price),
        ("Linux", "Shared", "CapacityBlock", "0.0000000000"),
        ("Linux", "Dedicated", "OnDemand", "999.0000000000"),
        ("Windows", "Shared", "OnDemand", "998.0000000000"),
    ):
        attributes = {
            "instanceType": kind,
            "regionCode": region,
            "instanceFamily": family,
            "operatingSystem": system,
            "preInstalledSw": "NA",
            "tenancy": tenancy,
            "capacitystatus": "Used",
            "marketoption": market,
        }
        sku = f"{region}{kind}{system}{tenancy}{market}"
        dimension = {"unit": "Hrs", "pricePerUnit": {"USD": dollars}, "rateCode": f"{sku}.J.6"}
        yield {
            "product": {"productFamily": "Compute Instance", "attributes": attributes, "sku": sku},
            "serviceCode": "AmazonEC2",
            "terms": {"OnDemand": {f"{sku}.J": {"priceDimensions": {f"{sku}.J.6": dimension}}}},
        }


def _error(start: Start, code: str, status: int) -> Iterable[bytes]:
    answer = _refuse(code, status)
    start(f"{status} Refused", answer.headers)
    return [answer.body]


def _hang_up(environ: Environ) -> Iterable[bytes]:
    """Close the connection without a response."""
    connection: socket.socket = environ["werkzeug.socket"]
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    return []


def _caller(environ: Environ) -> str:
    """Return the access key of a caller, which names it."""
    found = re.search(r"Credential=([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return found[1] if found else ""


def _tags_of(call: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that RunInstances gives its machines."""
    prefix = "TagSpecification.1.Tag."
    numbers = {key.removeprefix(prefix).split(".")[0] for key in call if key.startswith(prefix)}
    return {call[f"{prefix}{n}.Key"]: call.get(f"{prefix}{n}.Value", "") for n in numbers}


def _region(environ: Environ) -> str:
    found = re.search(r"Credential=[^/]+/\d+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    return found[1] if found else "us-east-1"


def _filters(call: Mapping[str, str]) -> dict[str, list[str]]:
    names = {k.split(".")[1]: v for k, v in call.items() if re.fullmatch(r"Filter\.\d+\.Name", k)}
    return {
        name: [v for k, v in call.items() if k.startswith(f"Filter.{number}.Value.")]
        for number, name in names.items()
    }


def _expanded(call: dict[str, str]) -> dict[str, str]:
    """Return a call with wildcard filters such as `p5*` expanded to machine types."""
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    sought = _filters(call)
    if not any("*" in value for value in sought.get("instance-type", ())):
        return call
    plain = {key: value for key, value in call.items() if not key.startswith("Filter.")}
    wanted = sought.pop("instance-type")
    types = [name for name in INSTANCE_TYPES if any(fnmatch(name, each) for each in wanted)]
    for number, (name, values) in enumerate({**sought, "instance-type": types}.items(), 1):
        plain[f"Filter.{number}.Name"] = name
        plain |= {f"Filter.{number}.Value.{n}": value for n, value in enumerate(values, 1)}
    return plain


def _all(body: bytes, tag: str) -> list[str]:
    return re.findall(f"<{tag}>([^<]+)</{tag}>", body.decode())


def _without(body: bytes, names: set[str]) -> bytes:
    """Return a listing without some of its machines."""
    import xml.etree.ElementTree as Xml

    root = Xml.fromstring(body)
    for machines in root.iterfind(".//{*}instancesSet"):
        for item in list(machines):
            if item.findtext("{*}instanceId") in names:
                machines.remove(item)
    return Xml.tostring(root)


def _option(call: Mapping[str, str], name: str) -> str:
    """Return an option of CreateFleet for the market of the call."""
    return call.get(f"OnDemandOptions.{name}") or call.get(f"SpotOptions.{name}", "")


def _machine_of_fleet(call: Mapping[str, str], template: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of RunInstances for the machines of a fleet."""
    config = "LaunchTemplateConfigs.1."
    data = f"{config}LaunchTemplateSpecification.LaunchTemplateSpecificationUserData"
    run = {"Action": "RunInstances", "Version": call["Version"], **template}
    run["InstanceType"] = call[f"{config}Overrides.1.InstanceType"]
    if data in call:
        run["UserData"] = call[data]
    if call["TargetCapacitySpecification.DefaultTargetCapacityType"] == "spot":
        run["InstanceMarketOptions.MarketType"] = "spot"
    number = 1 + sum(
        re.fullmatch(r"TagSpecification\.\d+\.ResourceType", x) is not None for x in run
    )
    for own in range(1, 10):
        if call.get(f"TagSpecification.{own}.ResourceType") == "instance":
            of_call, of_run = f"TagSpecification.{own}.", f"TagSpecification.{number}."
            run |= {k.replace(of_call, of_run): v for k, v in call.items() if k.startswith(of_call)}
    return run


def _zones_of_fleet(call: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the zones of a fleet with their subnets, the first priority first."""
    prefix = "LaunchTemplateConfigs.1.Overrides."
    places = {key.removeprefix(prefix).split(".")[0] for key in call if key.startswith(prefix)}
    by_priority = sorted(places, key=lambda n: float(call[f"{prefix}{n}.Priority"]))
    found = []
    for number in by_priority:
        subnet = call.get(f"{prefix}{number}.SubnetId", "")
        zone = call.get(f"{prefix}{number}.AvailabilityZone") or _zone_of(subnet)
        found.append((zone, subnet))
    return found


def _zone_of(subnet: str) -> str:
    from moto.ec2.models import ec2_backends

    zones = [
        str(found[subnet].availability_zone)
        for backend in ec2_backends[ACCOUNT].values()
        for found in backend.subnets.values()
        if subnet in found
    ]
    return zones[0]


def _fleet_item(zone: str, names: list[str]) -> str:
    ids = "".join(f"<item>{name}</item>" for name in names)
    return (
        "<item><launchTemplateAndOverrides><overrides>"
        f"<availabilityZone>{zone}</availabilityZone></overrides></launchTemplateAndOverrides>"
        f"<lifecycle>on-demand</lifecycle><availabilityZone>{zone}</availabilityZone>"
        f"<instanceIds>{ids}</instanceIds></item>"
    )


def _tagged(body: bytes, fleet_of: Mapping[str, str]) -> bytes:
    """Return a listing with the tag `aws:ec2:fleet-id` on the machines of fleets."""
    import xml.etree.ElementTree as Xml

    root = Xml.fromstring(body)
    for machines in root.iterfind(".//{*}instancesSet"):
        for item in machines:
            fleet = fleet_of.get(item.findtext("{*}instanceId") or "")
            tags = item.find("{*}tagSet")
            if fleet and tags is not None:
                space = tags.tag.removesuffix("tagSet")
                tag = Xml.SubElement(tags, f"{space}item")
                Xml.SubElement(tag, f"{space}key").text = "aws:ec2:fleet-id"
                Xml.SubElement(tag, f"{space}value").text = fleet
    return Xml.tostring(root)


def _states(region: str) -> dict[str, str]:
    from moto.ec2.models import ec2_backends

    return {each.id: each.state for each in ec2_backends[ACCOUNT][region].all_instances()}


def _machines(region: str | None = None) -> list[Any]:
    from moto.ec2.models import ec2_backends

    backends = ec2_backends[ACCOUNT]
    return [
        machine
        for name in list(backends)
        if region in (None, name)
        for machine in backends[name].all_instances()
        if machine.state in ("pending", "running", "stopping", "stopped")
    ]


def _vcpus(instance_type: str) -> int:
    from moto.ec2.models.instance_types import INSTANCE_TYPES

    known = INSTANCE_TYPES.get(instance_type, {})
    return int(known.get("VCpuInfo", {}).get("DefaultVCpus", 1))


def _reset_moto() -> None:
    from moto.ec2.models import ec2_backends

    backends = ec2_backends[ACCOUNT]
    for name in list(backends):
        backends[name].reservations.clear()
        backends[name].launch_templates.clear()
        backends[name].launch_template_name_to_ids.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ec2Effect:
    """A call that started or ended machines."""

    at: float
    """In seconds of the system's clock."""
    action: str
    """RunInstances or TerminateInstances."""
    caller: str
    """The access key of the caller."""
    token: str = ""
    """The client token of RunInstances."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """The tags of the machines that RunInstances started."""
    machines: Sequence[str]
    delivered: bool = True
    """Whether the caller received the response."""


class Ec2Server:
    """A client of the running local EC2, for tests."""

    def __init__(self, url: str) -> None:
        self.url = url

    def reset(self) -> None:
        """Remove all machines and reset all conditions."""
        self._control("DELETE")

    def set(self, **conditions: object) -> None:
        """Set fields of `Conditions`."""
        self._control("PUT", conditions)

    def alive(self) -> list[str]:
        """Return the machines that cost money, in every region."""
        return list(self._control("GET")["alive"])

    def made(self) -> int:
        """Return the number of machines started since the last reset."""
        return int(self._control("GET")["made"])

    def calls(self) -> dict[str, int]:
        """Return the number of calls of each action since the last reset."""
        return dict(self._control("GET")["calls"])

    def state(self) -> tuple[list[str], list["Ec2Effect"]]:
        """Return the machines that cost money, and the calls that started or ended machines."""
        found = self._control("GET")
        return list(found["alive"]), [Ec2Effect(**each) for each in found["effects"]]

    def _control(self, method: str, body: Mapping[str, object] | None = None) -> dict[str, Any]:
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(self.url + CONTROL, data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return dict(json.loads(answer.read()))


@contextlib.contextmanager
def ec2_server() -> Iterator[Ec2Server]:
    """Run the local EC2 in its own process until the block ends."""
    environment = {**os.environ, **ACCESS, "MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION": "true"}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.ec2_server"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=Path(__file__).parents[2],
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            port = process.stdout.readline().strip()
            assert port.isdecimal(), "moto's server did not start"
            yield Ec2Server(f"http://127.0.0.1:{port}")
        finally:
            process.terminate()


def main() -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    front = Front(SystemClock(), DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", 0, front, threaded=True)
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
