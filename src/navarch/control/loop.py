"""Running reconcilers: one activation at a time, on a poke or at the next known deadline."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from math import inf
from typing import Any, Protocol, runtime_checkable

import structlog

from navarch.control.agenda import LONG_AGO, Agenda
from navarch.core.errors import ConflictError, InvariantError, NavarchError, SupersededError
from navarch.ports.clock import Clock, Entropy

log = structlog.get_logger(__name__)

CONFLICTS_MAX = 10
"""Conflicts in a row before a loop stops hurrying and waits like after any other failure."""

LONGEST_SLEEP = timedelta(minutes=10)
"""A loop looks around this often even when it knows of no reason to."""

MICROSECOND = timedelta(microseconds=1)

ASKED_MAX = 1000
"""How many sets of loops are remembered. A server runs for months, and there are many sets."""


def pause_s(failures: int) -> float:
    """Return how many seconds to wait after that many failures in a row."""
    return min(2.0 ** min(failures, 6), 60.0)


class Reconciler(Protocol):
    """Compares what is with what should be, and narrows the gap once.

    `reconcile` takes no arguments on purpose: it must do the right thing after a
    restart, when nobody remembers why it was woken.
    """

    @property
    def name(self) -> str:
        """The name used in logs and metrics."""
        ...

    async def reconcile(self) -> datetime | None:
        """Make one attempt; return when to make the next if nothing changes before."""
        ...


@runtime_checkable
class Foreseeing(Protocol):
    """A reconciler that can tell whether a round would find anything to do.

    Most commits concern few reconcilers. Those that foresee are left asleep by the others; who
    cannot tell is woken by every one of them.
    """

    def due_at(self) -> datetime | None:
        """Return from when on there is something to do; None while only a change can bring it.

        It must never be later than the truth: what it hides is not looked at in time.
        """
        ...


@runtime_checkable
class Noting(Protocol):
    """A reconciler for which nothing comes due but by its agenda.

    Where that was not stirred, what it foresaw still holds, and it need not be asked again. If it
    says nothing else itself (`Foreseeing`), it is due when its agenda is.
    """

    @property
    def agenda(self) -> Agenda[Any]:
        """What it has to look at."""
        ...


@runtime_checkable
class Listening(Protocol):
    """A reconciler that hears by itself of whatever may bring its next round closer.

    It calls `on_sooner` then, so that it need not be asked after every commit.
    """

    on_sooner: Callable[[], None]


class Turns:
    """Gives those who are called their turns, in the order in which they stand.

    Who decides stands before who acts. So what one thing that happens brings about is decided as
    a whole before any of it is carried out, whoever heard of it first. Nobody is called twice
    before everybody else who is called has had a turn.
    """

    def __init__(self) -> None:
        self._line: list[Loop] = []
        self.asleep_until_s: list[float] = []
        """By their places in the line, until when they sleep on the event loop's clock: for ever,
        as long as they are awake."""
        self._called = 0
        """Who has been called and waits: the bits of a number, by their places in the line."""
        self._restless = 0
        """Who may have something else to do than when it was last asked, likewise. Most loops
        have an agenda that was not stirred, so that nobody need ask them when something happens."""
        self._asked: dict[int, list[Loop]] = {}
        """Who that is, by that number: the same few come again and again."""
        self._next = 0
        self._calling = False
        self._alarm: asyncio.TimerHandle | None = None
        self.rings_at_s = inf
        """When the alarm is set to, if it is. Not every event loop's handle can say."""

    @cached_property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that runs: it is asked for at every turn, and stays the same."""
        return asyncio.get_running_loop()

    def join(self, loop: "Loop") -> int:
        """Put `loop` behind all others; return its place."""
        self._line.append(loop)
        self.asleep_until_s.append(inf)
        self._asked.clear()
        return len(self._line) - 1

    def stir(self, place: int) -> None:
        """Have whoever stands there asked at the next poke.

        Who neither has an agenda nor listens for itself is asked at every poke.
        """
        self._restless |= 1 << place

    def poke(self) -> None:
        """Ask everybody who may have something to do, in the order in which they stand."""
        if not self._restless:
            return
        those = self._asked.get(self._restless)
        if those is None:
            if len(self._asked) >= ASKED_MAX:
                self._asked.clear()
            those = [loop for loop in self._line if self._restless >> loop.place & 1]
            self._asked[self._restless] = those
        self.ask(those)

    def ask(self, loops: Sequence["Loop"]) -> None:
        """Have those called that have something to do before they wake by themselves.

        Every commit asks a dozen, of which one has: so nothing is called for the others but
        what they foresee.
        """
        for loop in loops:
            if loop.called:
                continue
            agenda = loop.agenda
            if agenda is not None:
                if not agenda.stirred:
                    continue
                agenda.stirred = False
                self._restless &= ~(1 << loop.place)
            elif loop.listens:
                self._restless &= ~(1 << loop.place)
            if loop.due_at is not None and loop.asleep_until is not None:
                due_at = loop.due_at()
                if due_at is None or due_at >= loop.asleep_until:
                    continue
                if due_at is not LONG_AGO and loop.sleeps_until(due_at):
                    continue
            loop.call()

    def call(self, place: int) -> None:
        """Have a turn given to whoever stands there and waits."""
        self._called |= 1 << place
        if not self._calling:
            self._calling = True
            self.loop.call_soon(self._give_turn)

    def ring_at(self, moment_s: float) -> None:
        """Call whoever wants to be woken by that moment on the loop's clock, at the latest.

        Who knows that the alarm rings before then need not ask.
        """
        if self.rings_at_s <= moment_s:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self.rings_at_s = moment_s
        self._alarm = self.loop.call_at(moment_s, self._ring)

    def stop(self) -> None:
        """Let the alarm be."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self.rings_at_s = inf

    def _give_turn(self) -> None:
        while self._called:
            behind = self._called >> self._next << self._next
            first = behind or self._called
            place = (first & -first).bit_length() - 1
            self._called &= ~(1 << place)
            if self._line[place].take_turn():
                self._next = place + 1
                # Behind the one who has just been woken, and who may call others.
                self.loop.call_soon(self._give_turn)
                return
        self._next = 0
        self._calling = False

    def _ring(self) -> None:
        # Nobody who sleeps on sets another alarm meanwhile, since this one still counts as set.
        now_s, rung, asleep_until_s = self.rings_at_s, self._alarm, self.asleep_until_s
        while (next_s := min(asleep_until_s)) <= now_s:
            loop = self._line[asleep_until_s.index(next_s)]
            loop.wake()
            if loop.called:
                asleep_until_s[loop.place] = inf
        if self._alarm is rung:
            self._alarm, self.rings_at_s = None, inf
        if next_s < inf:
            self.ring_at(next_s)


class Loop:
    """Wakes one reconciler for ever."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        reconciler: Reconciler,
        *,
        strict: bool,
        turns: Turns | None = None,
    ) -> None:
        self._clock = clock
        self._entropy = entropy
        self._reconciler = reconciler
        self._strict = strict
        self.agenda = reconciler.agenda if isinstance(reconciler, Noting) else None
        self.due_at = self.agenda.due_at if self.agenda is not None else None
        if isinstance(reconciler, Foreseeing):
            self.due_at = reconciler.due_at
        self.listens = isinstance(reconciler, Listening)
        if isinstance(reconciler, Listening):
            reconciler.on_sooner = self.poke
        self._turns = turns or Turns()
        self.place = self._turns.join(self)
        self._turns.stir(self.place)
        if self.agenda is not None:
            self.agenda.on_stir = partial(self._turns.stir, self.place)
        self.called = False
        """Whether a round was asked for that has not begun."""
        self._turn: asyncio.Future[None] | None = None
        """What is waited for while asleep."""
        self.asleep_until: datetime | None = None
        self._looks_around_at = clock.now()
        """By when it has a round at the latest, whatever its reconciler foresees."""
        self._failures = 0

    def poke(self) -> None:
        """Ask for a round soon, unless there is nothing to do before the next one."""
        self._turns.ask((self,))

    def sleeps_until(self, due_at: datetime) -> bool:
        """Sleep no longer than until then; return whether that is still to come."""
        now = self._clock.now()
        if due_at <= now:
            return False
        self._sleep_until(due_at, now)
        return True

    def wake(self) -> None:
        """Ask for a round, now that it has slept for long enough; or let it sleep on.

        What it was to wake for may have been seen to by others, or be put off.
        """
        latest = self._looks_around_at
        if self.due_at is not None and self.asleep_until != latest and not self._failures:
            due_at = self.due_at()
            if self.sleeps_until(latest if due_at is None else min(due_at, latest)):
                return
        self.call()

    def call(self) -> None:
        """Ask for a round soon."""
        self.called = True
        if self._turn is not None:
            self._turns.call(self.place)

    def take_turn(self) -> bool:
        """Begin a round if one was asked for and none is under way; return whether it did."""
        if not self.called or self._turn is None or self._turn.done():
            return False
        self._turn.set_result(None)
        return True

    async def run(self) -> None:
        """Reconcile on every poke and at every deadline, until cancelled."""
        try:
            while True:
                self.called = False
                turn = self._lie_down(await self._round())
                try:
                    await turn
                finally:
                    self._turn = self.asleep_until = None
                    self._turns.asleep_until_s[self.place] = inf
        finally:
            self._turns.stop()

    async def _round(self) -> datetime | None:
        try:
            wake_at = await self._reconciler.reconcile()
        except ConflictError as error:
            return self._after_failure(error, hurry=self._failures < CONFLICTS_MAX)
        except SupersededError:
            raise  # Somebody else leads: this process has nothing more to do, and must not try.
        except NavarchError as error:
            if self._strict and isinstance(error, InvariantError):
                raise
            return self._after_failure(error)
        except Exception as error:
            if self._strict:
                raise
            # A bug in one loop must not stop the others from keeping the fleet alive.
            log.exception("loop.bug", loop=self._reconciler.name)
            return self._after_failure(error)
        self._failures = 0
        return wake_at

    def _after_failure(self, error: Exception, *, hurry: bool = False) -> datetime:
        self._failures += 1
        if hurry:
            return self._clock.now()
        log.warning("loop.failed", loop=self._reconciler.name, error=str(error))
        seconds = pause_s(self._failures)
        # Jitter keeps loops that failed together from coming back together.
        return self._clock.now() + timedelta(seconds=seconds * self._entropy.uniform(0.5, 1.0))

    def _lie_down(self, wake_at: datetime | None) -> "asyncio.Future[None]":
        """Go to sleep until then, or for as long as one may; return what is to be waited for."""
        now = self._clock.now()
        until = self._looks_around_at = now + LONGEST_SLEEP
        if wake_at is not None and wake_at < until:
            until = wake_at
        if self.called and self.due_at is not None:
            # Poked during the round, which may have seen to it already.
            due_at = self.due_at()
            if due_at is None or due_at > now:
                self.called = False
                until = until if due_at is None else min(until, due_at)
        turn = self._turn = self._turns.loop.create_future()
        self._sleep_until(until, now)
        if self.called or until <= now:
            # Nothing is to be waited for, but others get their turn.
            self.call()
        return turn

    def _sleep_until(self, until: datetime, now: datetime) -> None:
        self.asleep_until = until
        # To the microsecond, as `now` is: the moment must not depend on when we went to sleep.
        turns = self._turns
        now_us = int(turns.loop.time() * 1e6 + 0.5)
        until_s = (now_us + (until - now) // MICROSECOND) / 1e6
        turns.asleep_until_s[self.place] = until_s
        if until > now and until_s < turns.rings_at_s:
            turns.ring_at(until_s)
