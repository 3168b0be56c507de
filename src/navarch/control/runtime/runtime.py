"""Runs controllers: one round of each at a time, started in the order they are listed."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta

import structlog

from navarch.control.runtime.controller import Controller
from navarch.core.duration import backoff_s
from navarch.core.errors import ConflictError, InvariantError, NavarchError, SupersededError
from navarch.ports.api import FailingController
from navarch.ports.clock import Clock, Entropy
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.store import Committed

log = structlog.get_logger(__name__)

CONFLICTS_MAX = 10
"""Conflicts in a row before a controller backs off as after any other failure."""

FIRST_BACKOFF_S = 2.0
LONGEST_BACKOFF_S = 60.0

ERROR_MAX = 500
"""How much of an error's text the status shows; the log has all of it."""

LONGEST_SLEEP = timedelta(minutes=10)
"""The timer is set anew this often, because the wall clock and the event loop's clock drift."""

MICROSECOND = timedelta(microseconds=1)


class Runtime:
    """Starts a round of each controller that has due keys in its queue.

    Controllers that decide are listed before those that act. Rounds start in that order, so
    everything that follows from one event is decided before any of it is carried out. No controller
    starts a second round before every other controller that was due has started one.
    """

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        controllers: Iterable[Controller],
        *,
        strict: bool,
        metrics: Metrics | None = None,
    ) -> None:
        """`strict` lets a bug in a controller end the runtime instead of that round only."""
        self._clock = clock
        self._strict = strict
        measured = metrics or NoMetrics()
        instruments = ControllerMetrics(measured)
        self._workers = [
            _Worker(clock, entropy, each, strict=strict, instruments=instruments, wake=self._wake)
            for each in controllers
        ]
        for worker in self._workers:
            instruments.begin(worker.controller.name)
        measured.computed_gauge(
            "navarch_controller_queue_depth",
            "Keys that are ready or in a round.",
            self._depths,
            labels=("controller",),
        )
        measured.computed_gauge(
            "navarch_controller_unfinished_seconds",
            "Age of the oldest work that no round has finished; zero if there is none.",
            self._unfinished_s,
            labels=("controller",),
        )
        self._next = 0
        """Where the search for the next controller to start begins."""
        self._is_dispatching = False
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def on_commit(self, committed: Committed) -> None:
        """Let every controller queue the keys that a commit concerns."""
        for worker in self._workers:
            try:
                worker.controller.on_commit(committed)
            except Exception:
                # A bug in one must not hide the commit from the others.
                if self._strict:
                    raise
                log.exception("controller.bug", controller=worker.controller.name)

    def failing(self) -> list[FailingController]:
        """Return the controllers with a last round that failed, the longest failing first."""
        found = [worker.failing for worker in self._workers if worker.failing is not None]
        return sorted(found, key=lambda each: (each.since, each.name))

    def _depths(self) -> Mapping[tuple[str, ...], float]:
        depths = Counter[tuple[str, ...]]()
        for worker in self._workers:
            depths[worker.controller.name,] += worker.controller.queue.depth
        return depths

    def _unfinished_s(self) -> Mapping[tuple[str, ...], float]:
        now = self._clock.now()
        ages: dict[tuple[str, ...], float] = {}
        for worker in self._workers:
            since = worker.unfinished_since
            age_s = 0.0 if since is None else max((now - since).total_seconds(), 0.0)
            name = (worker.controller.name,)
            ages[name] = max(ages.get(name, 0.0), age_s)
        return ages

    async def run(self) -> None:
        """Run every controller until cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as tasks:
                for worker in self._workers:
                    tasks.create_task(worker.run())
        finally:
            self._loop = None
            self._set_timer(None)

    def _wake(self) -> None:
        """Look for controllers to start, after everything that happens at this moment."""
        if self._loop is not None and not self._is_dispatching:
            self._is_dispatching = True
            self._loop.call_soon(self._dispatch)

    def _dispatch(self) -> None:
        """Start the next controller that is due; set the timer once there is none."""
        now = self._clock.now()
        workers, coming = self._workers, []
        for index in (*range(self._next, len(workers)), *range(self._next)):
            worker = workers[index]
            due = worker.next_due()
            if due is None:
                continue
            if due <= now:
                assert worker.start is not None
                worker.start.set_result(None)
                self._next = index + 1
                # The next one starts after this one, which may queue keys for others.
                assert self._loop is not None
                self._loop.call_soon(self._dispatch)
                return
            coming.append(due)
        self._next = 0
        self._is_dispatching = False
        self._set_timer(min(coming, default=None), now)

    def _set_timer(self, due: datetime | None, now: datetime | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if due is None or now is None or self._loop is None:
            return
        # To the microsecond, as `now` is: the moment must not depend on when the timer was set.
        now_us = int(self._loop.time() * 1e6 + 0.5)
        wait = min(due - now, LONGEST_SLEEP)
        self._timer = self._loop.call_at((now_us + wait // MICROSECOND) / 1e6, self._wake)


class _Worker:
    """One controller and the task that runs its rounds."""

    def __init__(
        self,
        clock: Clock,
        entropy: Entropy,
        controller: Controller,
        *,
        strict: bool,
        instruments: "ControllerMetrics",
        wake: Callable[[], None],
    ) -> None:
        self.controller = controller
        self._clock = clock
        self._entropy = entropy
        self._strict = strict
        self._instruments = instruments
        self._wake = wake
        self._failures = 0
        self.failing: FailingController | None = None
        self.start: asyncio.Future[None] | None = None
        """Resolved to start a round; None while one is under way."""
        self._ready_since: datetime | None = None
        """When the first key became ready that no round has taken."""
        self._begun_since: datetime | None = None
        """When the first key became ready of those that rounds have taken and not finished."""
        controller.queue.on_change = self._on_change

    @property
    def unfinished_since(self) -> datetime | None:
        """When the oldest unfinished work became ready; None if there is none."""
        return self._begun_since or self._ready_since

    def next_due(self) -> datetime | None:
        """Return when the next round is due; None during a round."""
        if self.start is None or self.start.done():
            return None
        return self.controller.queue.next_due()

    async def run(self) -> None:
        """Run rounds until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            self.start = loop.create_future()
            self._wake()
            try:
                await self.start
            finally:
                self.start = None
            await self._round()

    async def _round(self) -> None:
        queue, name = self.controller.queue, self.controller.name
        now = self._clock.now()
        keys = queue.take(now)
        ready_since, self._ready_since = self._ready_since or now, None
        self._begun_since = self._begun_since or ready_since
        self._instruments.waits.observe((now - ready_since).total_seconds(), controller=name)
        began, result = self._clock.monotonic(), "error"
        try:
            await self.controller.reconcile(keys)
        except ConflictError as error:
            result = "conflict"
            self._after_failure(error, hurry=self._failures < CONFLICTS_MAX)
        except SupersededError:
            raise  # Another process leads: this one must not try anything more.
        except NavarchError as error:
            if self._strict and isinstance(error, InvariantError):
                raise
            self._after_failure(error)
        except Exception as error:
            if self._strict:
                raise
            # A bug in one controller must not stop the others from keeping the fleet alive.
            log.exception("controller.bug", controller=name)
            result = "bug"
            self._after_failure(error)
        else:
            result = "ok"
            queue.done()
            self._begun_since = None
            self._failures = 0
            self.failing = None
        finally:
            self._instruments.results.add(controller=name, result=result)
            self._instruments.durations.observe(self._clock.monotonic() - began, controller=name)
            if result != "ok":
                self._instruments.retries.add(controller=name)

    def _after_failure(self, error: Exception, *, hurry: bool = False) -> None:
        self._failures += 1
        self.controller.queue.retry()
        if hurry:
            return
        name, now = self.controller.name, self._clock.now()
        log.warning("controller.failed", controller=name, error=str(error))
        seconds = backoff_s(self._failures, first_s=FIRST_BACKOFF_S, longest_s=LONGEST_BACKOFF_S)
        # Jitter keeps controllers that failed together from retrying together.
        pause = timedelta(seconds=seconds * self._entropy.uniform(0.5, 1.0))
        self.controller.queue.pause_until(now + pause)
        # Only our own errors are sentences.
        text = str(error) if isinstance(error, NavarchError) else f"{type(error).__name__}: {error}"
        self.failing = FailingController(
            name=name,
            error=text[:ERROR_MAX],
            times=self._failures,
            since=now if self.failing is None else self.failing.since,
            retry_at=now + pause,
        )

    def _on_change(self) -> None:
        if self._ready_since is None and self.controller.queue.is_ready:
            self._ready_since = self._clock.now()
        self._wake()


class ControllerMetrics:
    """What is measured of every controller."""

    def __init__(self, metrics: Metrics) -> None:
        labels = ("controller",)
        self.results = metrics.counter(
            "navarch_controller_reconcile_total",
            "Rounds by controller and result: ok, conflict, error or bug.",
            labels=("controller", "result"),
        )
        self.retries = metrics.counter(
            "navarch_controller_retries_total",
            "Rounds that failed and are tried again.",
            labels=labels,
        )
        self.durations = metrics.histogram(
            "navarch_controller_reconcile_seconds", "Duration of a round.", labels=labels
        )
        self.waits = metrics.histogram(
            "navarch_controller_queue_wait_seconds",
            "Time from a key becoming ready to the start of its round.",
            labels=labels,
        )

    def begin(self, controller: str) -> None:
        """Begin the series of a controller: one that begins at one hides its first increase."""
        for result in ("ok", "conflict", "error", "bug"):
            self.results.add(0, controller=controller, result=result)
        self.retries.add(0, controller=controller)
        self.durations.begin(controller=controller)
        self.waits.begin(controller=controller)
