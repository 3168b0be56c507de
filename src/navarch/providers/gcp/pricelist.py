"""Google's list of prices, which is a service of its own (the Cloud Billing Catalog API)."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cached_property

import msgspec
from google.auth.credentials import Credentials
from google.auth.exceptions import GoogleAuthError
from google.auth.transport.requests import AuthorizedSession
from requests.exceptions import RequestException

from navarch.ports.clock import Clock
from navarch.ports.offload import Offload
from navarch.providers.gcp.prices import Rates, Sku, SkuPage, read_rates

ENDPOINT = "https://cloudbilling.googleapis.com"

COMPUTE_ENGINE = "services/6F81-5844-456A"
PAGE = 5000

FRESH = timedelta(hours=6)
"""How long what was read will do: Google itself renews the list every twelve hours."""
AGAIN = timedelta(hours=1)
"""When to try again where it could not be read."""

PATIENCE_S = 10.0
"""How long somebody who asks what is for sale waits. The list has tens of thousands of entries;
once it is read, whoever asks next has it."""
ANSWER_S = 15.0

NEVER = datetime.min.replace(tzinfo=UTC)

_PAGES = msgspec.json.Decoder(SkuPage)


class PriceList:
    """The rates of one list, read again when they are old.

    Few accounts let a fleet read it. Then there are no rates, the catalogue's prices stand, and
    nothing is said about it.
    """

    def __init__(
        self,
        clock: Clock,
        offload: Offload,
        credentials: Callable[[], Credentials],
        *,
        endpoint: str = ENDPOINT,
    ) -> None:
        self._clock = clock
        self._offload = offload
        self._find_credentials = credentials
        self._endpoint = endpoint.rstrip("/")
        self._rates = Rates()
        self._due = NEVER
        self._closing = threading.Event()

    async def rates(self) -> Rates:
        """Return what is known by now, having read the list if it is time to."""
        now = self._clock.now()
        if now >= self._due:
            # Whoever asks meanwhile does not begin another reading.
            self._due = now + AGAIN
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    await self._offload.run(lambda: self._read(now))
        return self._rates

    def close(self) -> None:
        """Read no further page."""
        self._closing.set()

    def _read(self, now: datetime) -> None:
        """Read the whole list, or leave everything as it is."""
        try:
            rates = read_rates(self._skus())
        except (GoogleAuthError, RequestException, msgspec.DecodeError, OSError, ValueError):
            return
        if rates.gpus and not self._closing.is_set():
            self._rates = rates
            self._due = now + FRESH

    def _skus(self) -> Iterator[Sku]:
        token = ""
        while not self._closing.is_set():
            asked = {"currencyCode": "USD", "pageSize": str(PAGE)}
            if token:
                asked["pageToken"] = token
            answer = self._session.get(
                f"{self._endpoint}/v1/{COMPUTE_ENGINE}/skus", params=asked, timeout=ANSWER_S
            )
            answer.raise_for_status()
            page = _PAGES.decode(answer.content)
            yield from page.skus
            token = page.next_page_token
            if not token:
                return

    @cached_property
    def _session(self) -> AuthorizedSession:
        return AuthorizedSession(self._find_credentials())
