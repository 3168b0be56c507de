"""Reads the power state of machines from their management controllers, over Redfish."""

import base64
import ssl
from collections.abc import Mapping

import msgspec

from navarch.core.errors import InvalidError
from navarch.http.message import HttpError, Response, parse_endpoint
from navarch.http.pool import ConnectionPool
from navarch.ports.bmc import Bmc, BmcError, BmcReading, Power

SYSTEMS = "/redfish/v1/Systems"
CONNECT_S = 5.0
RESPONSE_S = 10.0
BODY_BYTES_MAX = 1024 * 1024
WORD_CHARS_MAX = 40

_POWER = {
    "On": Power.ON,
    "Off": Power.OFF,
    "PoweringOn": Power.CHANGING,
    "PoweringOff": Power.CHANGING,
}
"""Any other state, such as Paused, is not known here and proves nothing."""


class _Link(msgspec.Struct):
    path: str = msgspec.field(name="@odata.id")


class _Systems(msgspec.Struct):
    members: list[_Link] = msgspec.field(name="Members")


class _Status(msgspec.Struct, rename="pascal"):
    health: str | None = None


class _System(msgspec.Struct, rename="pascal"):
    power_state: str | None = None
    status: _Status | None = None
    serial_number: str | None = None
    uuid: str | None = msgspec.field(name="UUID", default=None)


class RedfishReader:
    """Reads one controller per call, over a connection of its own: controllers keep few."""

    def __init__(
        self, *, ca_file: str = "", verify: bool = True, response_s: float = RESPONSE_S
    ) -> None:
        """Without `verify`, any certificate is accepted; with a `ca_file`, that authority only."""
        try:
            self._tls = ssl.create_default_context(cafile=ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise InvalidError(f"{ca_file}: not a file of certificates: {error}") from error
        if not verify:
            self._tls.check_hostname = False
            self._tls.verify_mode = ssl.CERT_NONE
        self._response_s = response_s

    async def read(self, bmc: Bmc) -> BmcReading:
        """Return what a controller reports now, or raise BmcError."""
        try:
            endpoint = parse_endpoint(bmc.address)
        except InvalidError as error:
            raise BmcError(str(error)) from error
        pool = ConnectionPool(
            endpoint,
            connect_s=CONNECT_S,
            response_s=self._response_s,
            tls=lambda: self._tls,
            connections_max=1,
            body_bytes_max=BODY_BYTES_MAX,
        )
        try:
            path = f"{SYSTEMS}/{bmc.system}" if bmc.system else await self._only_system(pool, bmc)
            return _reading(await self._get(pool, path, bmc), bmc)
        finally:
            await pool.close()

    async def _only_system(self, pool: ConnectionPool, bmc: Bmc) -> str:
        response = await self._get(pool, SYSTEMS, bmc)
        try:
            members = msgspec.json.decode(response.body, type=_Systems).members
        except (msgspec.DecodeError, RecursionError) as error:
            raise BmcError(f"{bmc.address}: {SYSTEMS} is not as Redfish describes it") from error
        if len(members) != 1:
            text = f"{bmc.address} manages {len(members)} machines: set `system` to one of them"
            raise BmcError(text)
        path = members[0].path
        if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
            raise BmcError(f"{bmc.address}: {SYSTEMS} has a member without a usable path")
        return path

    async def _get(self, pool: ConnectionPool, path: str, bmc: Bmc) -> Response:
        try:
            response = await pool.request("GET", path, headers=_headers(bmc))
        except HttpError as error:
            raise BmcError(str(error)) from error
        if response.status in (401, 403):
            raise BmcError(f"{bmc.address} refuses the login of {bmc.user!r}")
        if response.status != 200:
            raise BmcError(f"{bmc.address}: {path}: status {response.status}")
        return response


def _headers(bmc: Bmc) -> Mapping[str, str]:
    headers = {"Accept": "application/json", "OData-Version": "4.0"}
    if bmc.user:
        login = base64.b64encode(f"{bmc.user}:{bmc.password}".encode()).decode()
        headers["Authorization"] = f"Basic {login}"
    return headers


def _reading(response: Response, bmc: Bmc) -> BmcReading:
    try:
        system = msgspec.json.decode(response.body, type=_System)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BmcError(f"{bmc.address}: the system is not as Redfish describes it") from error
    names = {name.casefold() for name in (system.serial_number, system.uuid) if name}
    if bmc.serial and bmc.serial.casefold() not in names:
        raise BmcError(f"{bmc.address} manages another machine than {bmc.serial}")
    power = _POWER.get(system.power_state or "")
    if power is None:
        raise BmcError(f"{bmc.address} reports the power state {system.power_state!r:.40}")
    health = "" if system.status is None else system.status.health or ""
    return BmcReading(power=power, health=health[:WORD_CHARS_MAX])
