"""Issues that checks find, and what the checks of issues have in common."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from navarch.core.health import SEVERITY, CheckResult, Health
from navarch.core.instance import Gpu, Notice, NoticeKind
from navarch.ports.checks import Diagnostics, MachineView, NotRunError, TestFailedError
from navarch.ports.gpu import GpuError, GpuHealth

HOUR = timedelta(hours=1)
WEEKLY = timedelta(days=7)


@dataclass(frozen=True, slots=True, kw_only=True)
class Issue:
    """A fault of one part of the machine. The text begins with the name of the part."""

    health: Health
    text: str
    fatal: bool = False


def degraded(text: str) -> Issue:
    """Return an issue of a part that is impaired and still usable."""
    return Issue(health=Health.DEGRADED, text=text)


def unhealthy(text: str, *, fatal: bool = False) -> Issue:
    """Return an issue of a part that must not be used."""
    return Issue(health=Health.UNHEALTHY, text=text, fatal=fatal)


def combine(
    check: str,
    issues: Iterable[Issue],
    measurements: Iterable[str] = (),
    facts: Mapping[str, str] | None = None,
) -> CheckResult:
    """Return one result with the text of all issues and the health of the worst."""
    found = list(issues)
    return CheckResult(
        check=check,
        health=max((i.health for i in found), key=SEVERITY.__getitem__, default=Health.HEALTHY),
        reason="; ".join([*(issue.text for issue in found), *measurements]),
        fatal=any(issue.fatal for issue in found),
        facts=facts or {},
    )


def rise_in_hour(view: MachineView, counter: str, value: int) -> int:
    """Return by how much a counter has risen within the last hour."""
    return view.history.rise(counter, value, at=view.now, within=HOUR)


def not_checked(check: str, error: GpuError) -> CheckResult:
    """Return the result of a check that could not list the GPUs."""
    return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not checked: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck(ABC):
    """A check of the host around the GPUs; a subclass finds the issues."""

    name: str
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check the host once."""
        yield combine(self.name, self._find_issues(view))

    @abstractmethod
    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        """Yield what is wrong with the host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCheck(ABC):
    """A check of one aspect of every GPU; a subclass finds the issues of one.

    Unreadable GPUs are left to the `gpu` check: if every check reported them, one fault would
    look like twenty.
    """

    name: str
    interval: timedelta | None = None

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Check every GPU that can be read."""
        try:
            gpus = view.gpus.list_gpus()
        except GpuError as error:
            yield not_checked(self.name, error)
            return
        issues: list[Issue] = []
        facts: dict[str, str] = {}
        unread = ""
        for gpu in gpus:
            try:
                health = view.gpus.health(gpu)
                facts |= self._facts(gpu, health)
                issues += self._find_issues(view, gpu, health)
            except GpuError as error:
                unread = f"GPU {gpu.index} not checked: {error}"
        if unread and not issues:
            yield CheckResult(check=self.name, health=Health.UNKNOWN, reason=unread, facts=facts)
        else:
            yield combine(self.name, issues, facts=facts)

    @abstractmethod
    def _find_issues(self, view: MachineView, gpu: Gpu, health: GpuHealth) -> Iterator[Issue]:
        """Yield what is wrong with one GPU."""

    def _facts(self, gpu: Gpu, health: GpuHealth) -> Mapping[str, str]:
        """Return facts about one GPU that the result carries even if the GPU is healthy."""
        del gpu, health
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveCheck(ABC):
    """A test that uses idle GPUs, weekly or on request; a subclass runs it.

    A test that could not run is reported as such; it has not passed.
    """

    name: str
    interval: timedelta | None = WEEKLY

    def run(self, view: MachineView) -> Iterator[CheckResult]:
        """Run the test if no GPU is in use."""
        try:
            yield self._run_if_idle(view)
        except (NotRunError, GpuError) as error:
            yield not_run(self.name, str(error))
        except TestFailedError as error:
            yield CheckResult(check=self.name, health=Health.UNHEALTHY, reason=str(error))

    def _run_if_idle(self, view: MachineView) -> CheckResult:
        if view.diagnostics is None:
            raise NotRunError("this machine has no way to use its GPUs")
        gpus = view.gpus.list_gpus()
        self._check_count(len(gpus))
        for gpu in gpus:
            if holders := view.gpus.health(gpu).holders:
                pids = ", ".join(map(str, holders))
                raise NotRunError(f"GPU {gpu.index} is in use by process {pids}")
        return self._test(gpus, view.diagnostics)

    def _check_count(self, gpus: int) -> None:  # noqa: B027 - most tests need no number of GPUs
        """Raise NotRunError if the machine has too few GPUs, whether or not they are in use."""

    @abstractmethod
    def _test(self, gpus: Sequence[Gpu], diagnostics: Diagnostics) -> CheckResult:
        """Return the result of the test on idle GPUs."""


def not_run(check: str, why: str) -> CheckResult:
    """Return the result of a test that did not run: unknown, not healthy."""
    return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not run: {why}")


def find_slow(figures: Mapping[int, float], share: float) -> Iterator[tuple[int, str]]:
    """Yield each GPU below `share` of the fastest, with its figure, such as `12 of 40`."""
    best = max(figures.values(), default=0.0)
    for index, figure in sorted(figures.items()):
        if figure < share * best:
            yield index, f"{figure:.0f} of {best:.0f}"


def judge_notices(notices: Iterable[Notice]) -> tuple[CheckResult, ...]:
    """Return one result for each kind of notice; without a notice it is healthy.

    A notice is never worse than degraded: nothing is wrong with the machine. The control plane
    decides what follows from it.
    """
    standing = list(notices)
    results: list[CheckResult] = []
    for kind in NoticeKind:
        reasons = [notice.reason for notice in standing if notice.kind is kind]
        health = Health.DEGRADED if reasons else Health.HEALTHY
        results.append(CheckResult(check=kind.value, health=health, reason="; ".join(reasons)))
    return tuple(results)
