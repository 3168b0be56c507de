"""The books: every paid machine, in columns, so that sums stay fast.

A machine takes some forty bytes. A million of them are added up within a few dozen milliseconds,
and exactly: microseconds are whole numbers, and prices are few.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from navarch.core.budget import cost, month_start
from navarch.core.ids import InstanceId, Token
from navarch.core.launch import Launch
from navarch.ports.api import CostBy

ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """The cost of one group of machines in a window of time."""

    machines: int = 0
    """How many ran at some time in the window."""
    running: int = 0
    """How many still run."""
    machine_time: timedelta = timedelta(0)
    spent: Decimal = ZERO
    per_hour: Decimal = ZERO
    """The hourly price of those that run."""

    def __add__(self, other: "Account") -> "Account":
        return Account(
            machines=self.machines + other.machines,
            running=self.running + other.running,
            machine_time=self.machine_time + other.machine_time,
            spent=self.spent + other.spent,
            per_hour=self.per_hour + other.per_hour,
        )


def account(launch: Launch, *, since: datetime | None, until: datetime) -> Account | None:
    """Return the cost of one machine in a window; None if it did not run in it."""
    if launch.launched_at is None:
        return None
    start = launch.launched_at if since is None else max(launch.launched_at, since)
    end = until if launch.ended_at is None else min(launch.ended_at, until)
    if end < start:
        return None
    running = launch.ended_at is None
    return Account(
        machines=1,
        running=int(running),
        machine_time=end - start,
        spent=cost(launch.price_per_hour, start, end),
        per_hour=launch.price_per_hour if running else ZERO,
    )


def month_end(now: datetime) -> datetime:
    """Return when the next calendar month begins."""
    year, month = (now.year + 1, 1) if now.month == 12 else (now.year, now.month + 1)
    return month_start(now).replace(year=year, month=month)


def forecast(spent: Decimal, per_hour: Decimal, now: datetime) -> Decimal:
    """Return the cost of the month if exactly what runs now runs to its end.

    A trend would be better for pools that vary, and worse after every change by an operator; this
    forecast can be checked by hand.
    """
    return spent + cost(per_hour, now, month_end(now))


Key = tuple[Token, InstanceId | None]

SETTLED_AFTER = timedelta(days=7)
"""This long after its end a machine gets no more updates, not even from a listing that lags."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_SECOND = 1_000_000
_HOUR_US = Decimal(3_600 * _SECOND)

V = TypeVar("V")
Numbers = npt.NDArray[np.int64]


class Books:
    """Launches that bought a machine and are over; running ones are passed in by the caller."""

    def __init__(self) -> None:
        self._rows = 0
        self._start: Numbers = np.zeros(64, np.int64)
        self._end: Numbers = np.zeros(64, np.int64)
        self._labels: dict[CostBy, list[str]] = {by: [] for by in CostBy}
        self._numbers: dict[CostBy, dict[str, int]] = {by: {} for by in CostBy}
        self._groups: dict[CostBy, Numbers] = {by: np.zeros(64, np.int64) for by in CostBy}
        self._prices: list[Decimal] = []
        self._price_numbers: dict[Decimal, int] = {}
        self._price: Numbers = np.zeros(64, np.int64)
        self._places: dict[Key, int] = {}
        """The rows of machines that may still get updates."""
        self._running: dict[Key, Launch] = {}
        """Running machines that were entered by themselves, as orphans are."""

    def __len__(self) -> int:
        return self._rows + len(self._running)

    def note(self, launch: Launch) -> None:
        """Enter a launch, or an update of one that was entered."""
        if launch.launched_at is None:
            return
        key = (launch.token, launch.instance)
        if launch.ended_at is None:
            if key not in self._places:
                self._running[key] = launch
            return
        self._running.pop(key, None)
        place = self._places.get(key)
        if place is None:
            place = self._places[key] = self._rows
            self._rows += 1
            self._make_room()
        self._start[place] = (launch.launched_at - _EPOCH) // _MICROSECOND
        self._end[place] = (launch.ended_at - _EPOCH) // _MICROSECOND
        self._price[place] = _number(launch.price_per_hour, self._prices, self._price_numbers)
        for by in CostBy:
            name = group(launch, by)
            self._groups[by][place] = _number(name, self._labels[by], self._numbers[by])

    def settle(self, now: datetime) -> None:
        """Forget the names of machines without further updates; their cost stays."""
        limit = (now - SETTLED_AFTER - _EPOCH) // _MICROSECOND
        self._places = {k: place for k, place in self._places.items() if self._end[place] >= limit}

    def accounts(
        self, by: CostBy, living: Iterable[Launch], *, since: datetime | None, until: datetime
    ) -> Mapping[str, Account]:
        """Return the cost of each group from `since` to `until`, by the group's name.

        `living` are the launches of existing nodes, which take precedence over the books.
        """
        found: dict[str, Account] = {}
        current = {**self._running, **{(x.token, x.instance): x for x in living}}
        over = [self._places[key] for key in current if key in self._places]
        for name, entry in self._added_up(by, since, until, but_for=over):
            found[name] = found.get(name, Account()) + entry
        for launch in current.values():
            ran = account(launch, since=since, until=until)
            if ran is not None:
                name = group(launch, by)
                found[name] = found.get(name, Account()) + ran
        return dict(sorted(found.items()))

    def ended(self, by: CostBy, *, since: datetime, until: datetime) -> Mapping[str, Account]:
        """Return the cost of the machines that have ended, by the group's name."""
        found: dict[str, Account] = {}
        for name, entry in self._added_up(by, since, until, but_for=[]):
            found[name] = found.get(name, Account()) + entry
        return found

    @property
    def running(self) -> Iterable[Launch]:
        """Running machines that were entered by themselves, as orphans are."""
        return self._running.values()

    def _added_up(
        self, by: CostBy, since: datetime | None, until: datetime, *, but_for: list[int]
    ) -> Iterable[tuple[str, Account]]:
        since_us = 0 if since is None else (since - _EPOCH) // _MICROSECOND
        counted = self._end[: self._rows] >= since_us
        counted[but_for] = False
        rows = np.flatnonzero(counted)  # first, because most have ended before this month
        start = np.maximum(self._start[rows], since_us)
        end = np.minimum(self._end[rows], (until - _EPOCH) // _MICROSECOND)
        rows, length = rows[end >= start], (end - start)[end >= start]
        prices = max(len(self._prices), 1)
        pair = self._groups[by][rows] * prices + self._price[rows]
        size = max(len(self._labels[by]), 1) * prices
        machines = np.bincount(pair, minlength=size)
        # Weights are added as floats, which are exact up to 2**53: seconds and microseconds
        # separately.
        seconds = np.bincount(pair, weights=length // _SECOND, minlength=size)
        rest = np.bincount(pair, weights=length % _SECOND, minlength=size)
        for place in np.flatnonzero(machines).tolist():
            microseconds = int(seconds[place]) * _SECOND + int(rest[place])
            name, price = divmod(place, prices)
            yield (
                self._labels[by][name],
                Account(
                    machines=int(machines[place]),
                    machine_time=timedelta(microseconds=microseconds),
                    spent=self._prices[price] * microseconds / _HOUR_US,
                ),
            )

    def _make_room(self) -> None:
        if self._rows < len(self._start):
            return
        self._start, self._end, self._price = map(_doubled, (self._start, self._end, self._price))
        self._groups = {by: _doubled(column) for by, column in self._groups.items()}


def group(launch: Launch, by: CostBy) -> str:
    """Return the name of the group of `launch`."""
    match by:
        case CostBy.POOL:
            return launch.pool
        case CostBy.TEAM:
            return launch.team
        case CostBy.PROVIDER:
            return launch.offering.provider


def _number(value: V, known: list[V], numbers: dict[V, int]) -> int:
    found = numbers.get(value)
    if found is None:
        found = numbers[value] = len(known)
        known.append(value)
    return found


def _doubled(column: Numbers) -> Numbers:
    return np.concatenate([column, np.zeros(len(column), np.int64)])
