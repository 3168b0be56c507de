"""Google's price list: the Cloud Billing Catalog API."""

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

REFRESH_INTERVAL = timedelta(hours=6)
"""The list is read again after this time. Google updates it every twelve hours."""
RETRY_INTERVAL = timedelta(hours=1)
"""A failed read is retried after this time."""

WAIT_S = 10.0
"""The longest that `rates` waits for a read. The list has tens of thousands of entries; a read that
takes longer completes in the background, and the next call returns its rates."""
ANSWER_S = 15.0

NEVER = datetime.min.replace(tzinfo=UTC)

_PAGES = msgspec.json.Decoder(SkuPage)


class PriceList:
    """The rates of Google's price list, read again when they are old.

    Few accounts grant a fleet this permission. Without it there are no rates, the catalogue's
    prices apply, and no error is raised.
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
        """Return the current rates, after reading the list if it is due."""
        now = self._clock.now()
        if now >= self._due:
            # Concurrent calls must not start another read.
            self._due = now + RETRY_INTERVAL
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WAIT_S):
                    await self._offload.run(lambda: self._read(now))
        return self._rates

    def close(self) -> None:
        """Stop reading after the current page."""
        self._closing.set()

    def _read(self, now: datetime) -> None:
        """Read the whole list; on failure keep the current rates."""
        try:
            rates = read_rates(self._skus())
        except (GoogleAuthError, RequestException, msgspec.DecodeError, OSError, ValueError):
            return
        if rates.gpus and not self._closing.is_set():
            self._rates = rates
            self._due = now + REFRESH_INTERVAL

    def _skus(self) -> Iterator[Sku]:
        token = ""
        while not self._closing.is_set():
            params = {"currencyCode": "USD", "pageSize": str(PAGE)}
            if token:
                params["pageToken"] = token
            answer = self._session.get(
                f"{self._endpoint}/v1/{COMPUTE_ENGINE}/skus", params=params, timeout=ANSWER_S
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
