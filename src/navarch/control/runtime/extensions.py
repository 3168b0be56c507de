"""The guard around extensions: one that fails affects its own pool, node or system only."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TypeVar

import structlog

from navarch.core.duration import backoff_s
from navarch.core.errors import ExtensionFailedError, NavarchError, SupersededError
from navarch.core.event import Subject, about
from navarch.ports.api import FailingController
from navarch.ports.metrics import Metrics, NoMetrics
from navarch.ports.store import Committed

log = structlog.get_logger(__name__)

T = TypeVar("T")

TEXT_MAX = 300
"""How much of an exception's text is kept: it is recorded for every deferred node."""

FIRST_PAUSE_S = 2.0
LONGEST_PAUSE_S = 60.0

CALL_TIMEOUT = timedelta(seconds=60)
"""How long an extension may take to answer. Webhooks may be configured up to half of it."""

NEWS_AFTER = 2
"""How many failures in a row of a call to the outside are news: a single one is normal there."""

FORGET_AFTER = timedelta(minutes=30)
"""How long after its last failure an extension counts as failing if it is not called any more: a
pool may not need it for weeks. Longer than any pause."""

STUCK_MAX = 8
"""How many calls about one subject may go on after they were cancelled. No more are made then."""

CANCELLED_S = 1.0
"""How long a call may go on while the control plane stops."""


class ExtensionKind(StrEnum):
    """What an extension decides or does."""

    REMEDIATOR = "remediator"
    AUTOSCALER = "autoscaler"
    METRICS_SOURCE = "metrics_source"
    PROVISION_SCHEDULER = "provision_scheduler"
    PROVIDER = "provider"
    WORKLOAD_NOTIFIER = "workload_notifier"
    ALERT_CHANNEL = "alert_channel"
    WITNESS = "witness"

    @property
    def words(self) -> str:
        """Return it as a reader expects it."""
        return self.replace("_", " ")


MEANWHILE: Mapping[ExtensionKind, str] = {
    ExtensionKind.REMEDIATOR: "no node of the pool is remediated",
    ExtensionKind.AUTOSCALER: "the pool keeps its size",
    ExtensionKind.METRICS_SOURCE: "the pool keeps its size",
    ExtensionKind.PROVISION_SCHEDULER: "offerings without a score come last",
    ExtensionKind.PROVIDER: "its machines stay as they are",
    ExtensionKind.WORKLOAD_NOTIFIER: "work on a healthy node of a smaller pool is not cut short",
    ExtensionKind.ALERT_CHANNEL: "its messages wait",
    ExtensionKind.WITNESS: "it has no testimony",
}
"""What happens while an extension of each kind fails: the choice that cannot do harm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extension:
    """One extension, and the subject that its failure is limited to."""

    kind: ExtensionKind
    name: str
    subject: Subject
    part: str = ""
    """The part of the subject that its failure is limited to, if that is smaller."""

    @property
    def role(self) -> "Role":
        """What it does for its subject, whichever extension it is."""
        return self.kind, self.subject, self.part


Role = tuple[ExtensionKind, Subject, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtensionFailure:
    """The last failure of an extension on one subject."""

    extension: Extension
    code: object
    """The object that failed: another one in its place is called at once."""
    error: type[BaseException]
    because: str
    times: int
    """Failures in a row."""
    since: datetime
    at: datetime
    """The time of the last failure."""
    retry_at: datetime | None
    """None if its caller determines the pause."""

    @property
    def is_news(self) -> bool:
        """Whether operators must learn of it."""
        return self.retry_at is not None or self.times >= NEWS_AFTER


class ExtensionGuard:
    """Calls extensions, and remembers which of them failed on which subject.

    A failure is an exception, a call that does not return in time, or a result that a check of the
    caller refuses. The caller receives ExtensionFailedError and does what cannot do harm. It is not
    durable: after a restart every extension is called once.
    """

    def __init__(self, now: Callable[[], datetime], metrics: Metrics | None = None) -> None:
        self._now = now
        self.failures: dict[Role, ExtensionFailure] = {}
        self.on_change: Callable[[], object] = lambda: None
        """Called when an extension begins or ceases to fail."""
        self._known: set[tuple[str, str]] = set()
        self._stuck: Counter[Role] = Counter()
        """Calls that did not return in time, and have not ended since they were cancelled."""
        measured = metrics or NoMetrics()
        labels = ("kind", "name")
        self._errors = measured.counter(
            "navarch_extension_errors_total",
            "Calls to extensions that raised, did not return in time, or returned nonsense.",
            labels=labels,
        )
        measured.computed_gauge(
            "navarch_extension_failing",
            "Pools, nodes and systems on which an extension fails at present.",
            self._count_failing,
            labels=labels,
        )

    def call(self, extension: Extension, code: object, call: Callable[[], T]) -> T:
        """Return the result of a call that waits for nothing.

        After a failure the extension is called again after a growing pause, until which
        ExtensionFailedError is raised at once.
        """
        self._enter(extension, code)
        try:
            result = call()
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            # Nothing was awaited: a cancellation is not ours.
            raise self._fail(extension, code, error, pauses=True) from error
        self._succeed(extension)
        return result

    async def wait_for(
        self,
        extension: Extension,
        code: object,
        call: Callable[[], Awaitable[T]],
        *,
        within: timedelta = CALL_TIMEOUT,
        answers: tuple[type[NavarchError], ...] = (),
        pauses: bool = False,
    ) -> T:
        """Return the result of a call to the outside.

        Errors of the classes `answers` are no failures: they pass. Without `pauses` the caller
        determines when it calls again.
        """
        self._enter(extension, code)
        try:
            result = await self._in_time(extension.role, call, within)
        except Exception as error:
            if isinstance(error, answers):
                self._succeed(extension)
                raise
            if isinstance(error, SupersededError):
                raise
            raise self._fail(extension, code, error, pauses=pauses) from error
        self._succeed(extension)
        return result

    def forget(self, roles: Iterable[Role]) -> None:
        """Forget the failures of extensions that are not used any more."""
        for role in roles:
            if self.failures.pop(role, None) is not None:
                self.on_change()

    def forget_old(self) -> datetime | None:
        """Forget extensions that were not called for long; return when to look again."""
        oldest = self._now() - FORGET_AFTER
        self.forget([role for role, failure in self.failures.items() if failure.at <= oldest])
        remaining = [failure.at for failure in self.failures.values()]
        return min(remaining) + FORGET_AFTER if remaining else None

    def on_commit(self, committed: Committed) -> None:
        """Forget the nodes and pools that are no more."""
        if not self.failures:
            return
        over = {about("node", node.id) for node in committed.change.nodes if node.gone}
        over |= {about("pool", pool.name) for pool in committed.reshaped if pool.deleted}
        # Offerings may be gone: the others are called with the next purchase.
        reshaped = {about("pool", pool.name) for pool in committed.reshaped}
        self.forget(
            [
                (kind, subject, part)
                for kind, subject, part in self.failures
                if subject in over or (part and subject in reshaped)
            ]
        )

    def news(self) -> Mapping[tuple[ExtensionKind, str, Subject], ExtensionFailure]:
        """Return the failures that operators must learn of, the oldest of each extension."""
        found: dict[tuple[ExtensionKind, str, Subject], ExtensionFailure] = {}
        for failure in sorted(self.failures.values(), key=lambda x: (x.since, x.extension.role)):
            extension = failure.extension
            if failure.is_news:
                found.setdefault((extension.kind, extension.name, extension.subject), failure)
        return found

    def failing(self) -> list[FailingController]:
        """Return the extensions that fail, each once, with the subject on which it began."""
        found: dict[tuple[str, str], FailingController] = {}
        for failure in self.news().values():
            extension = failure.extension
            if extension.kind is ExtensionKind.ALERT_CHANNEL:
                continue  # The outbox shows the channels that do not accept messages.
            name = (str(extension.kind), extension.name)
            known = found.get(name)
            if known is not None:
                found[name] = replace(known, others=known.others + 1)
                continue
            found[name] = FailingController(
                kind=name[0],
                name=name[1],
                subject=extension.subject,
                error=failure.because,
                times=failure.times,
                since=failure.since,
                retry_at=failure.retry_at,
            )
        return list(found.values())

    def _count_failing(self) -> Mapping[tuple[str, ...], float]:
        counts: Counter[tuple[str, ...]] = Counter(dict.fromkeys(self._known, 0))
        for kind, name, _ in self.news():
            counts[str(kind), name] += 1
        return counts

    def _enter(self, extension: Extension, code: object) -> None:
        """Raise ExtensionFailedError if the extension is called again later only."""
        name = (str(extension.kind), extension.name)
        if name not in self._known:
            self._known.add(name)
            self._errors.add(0, kind=name[0], name=name[1])
        before = self._before(extension, code)
        if before is None or before.retry_at is None or self._now() >= before.retry_at:
            return
        raise ExtensionFailedError(before.because)

    def _before(self, extension: Extension, code: object) -> ExtensionFailure | None:
        known = self.failures.get(extension.role)
        same = known is not None and known.extension == extension and known.code is code
        return known if same else None

    def _succeed(self, extension: Extension) -> None:
        self.forget([extension.role])

    def _fail(
        self, extension: Extension, code: object, error: BaseException, *, pauses: bool
    ) -> ExtensionFailedError:
        """Remember a failure and return the error to raise.

        The text of errors of one class may differ each time. The first text is kept, so that not
        every attempt is recorded for every subject; the log has all of them.
        """
        now, before = self._now(), self._before(extension, code)
        times = 1 if before is None else before.times + 1
        text = describe(error)
        if extension.kind is ExtensionKind.ALERT_CHANNEL and not isinstance(error, TimeoutError):
            # An error of a channel may contain its URL, which is a secret.
            text = f"{type(error).__name__}; the log of the server has it"
        because = f"{extension.kind.words} {extension.name} failed: {text}"
        if before is not None and before.error is type(error):
            because = before.because
        pause = timedelta(
            seconds=backoff_s(times, first_s=FIRST_PAUSE_S, longest_s=LONGEST_PAUSE_S)
        )
        self.failures[extension.role] = ExtensionFailure(
            extension=extension,
            code=code,
            error=type(error),
            because=because,
            times=times,
            since=now if before is None else before.since,
            at=now,
            retry_at=now + pause if pauses else None,
        )
        self._errors.add(kind=str(extension.kind), name=extension.name)
        log.warning(
            "extension.failed",
            kind=str(extension.kind),
            name=extension.name,
            about=extension.subject,
            times=times,
            exc_info=None if isinstance(error, NavarchError | TimeoutError) else error,
            error=describe(error),
        )
        self.on_change()
        return ExtensionFailedError(because)

    async def _in_time(self, role: Role, call: Callable[[], Awaitable[T]], within: timedelta) -> T:
        """Return the result of a call in a task of its own, which may outlast its time."""
        if self._stuck[role] >= STUCK_MAX:
            raise TimeoutError(f"{STUCK_MAX} earlier calls have not returned")
        # A task group would wait for a call that swallows its cancellation.
        task = asyncio.create_task(_contained(call))  # noqa: TID251
        try:
            done, _ = await asyncio.wait([task], timeout=within.total_seconds())
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task], timeout=CANCELLED_S)
            if task.done() and not task.cancelled():
                task.exception()  # It has ended in its own way: its result is of no use any more.
            raise
        if done:
            if task.cancelled():
                raise RuntimeError("the call cancelled itself")
            return task.result()
        task.cancel()
        self._stuck[role] += 1
        task.add_done_callback(partial(self._returned, role))
        raise TimeoutError(f"no answer within {within.total_seconds():g} s")

    def _returned(self, role: Role, task: "asyncio.Task[T]") -> None:
        self._stuck[role] -= 1
        if not self._stuck[role]:
            del self._stuck[role]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("extension.late", kind=str(role[0]), about=role[1], error=describe(error))


async def _contained(call: Callable[[], Awaitable[T]]) -> T:
    """Return the result of `call`; an extension must not end the process."""
    try:
        return await call()
    except SystemExit as error:
        raise RuntimeError(f"the call tried to end the process: {error!r}") from error


def describe(error: BaseException) -> str:
    """Return the class and the text of an error, on one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception class may be any code
        text = "its text cannot be shown"
    if len(text) > TEXT_MAX:
        text = f"{text[:TEXT_MAX]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def name_of(part: object) -> str:
    """Return the name of an extension: its own if it has one, else that of its class."""
    try:
        return str(part.name)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - an extension may be any code
        return type(part).__name__
