"""The JSON API for the health of the whole fleet."""

from collections.abc import Iterable

from navarch.api.http.exchange import Request
from navarch.api.http.route import Route
from navarch.ports.fleet_health import FleetHealth, FleetHealthApi


class FleetHealthRoutes:
    """The routes of FleetHealthApi."""

    def __init__(self, health: FleetHealthApi) -> None:
        self._health = health

    def routes(self) -> Iterable[Route]:
        """Yield every operation."""
        yield Route(
            method="GET",
            path="/v1/fleet-health",
            summary="Health by pool, the machines that fail most, and failure rates",
            handle=self._get,
            reply=FleetHealth,
        )

    async def _get(self, _request: Request) -> FleetHealth:
        return await self._health.fleet_health()
