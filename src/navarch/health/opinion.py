"""One opinion per GPU, and the one result that a check makes of them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from navarch.core.health import CheckResult, Health
from navarch.core.inventory import Gpu
from navarch.ports.checks import MachineView
from navarch.ports.gpu import GpuError, GpuHealth

_RANK = {Health.HEALTHY: 0, Health.UNKNOWN: 1, Health.DEGRADED: 2, Health.UNHEALTHY: 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What is wrong with one thing, in words that begin with its name."""

    health: Health
    words: str
    fatal: bool = False


def degraded(words: str) -> Opinion:
    """Return that something is not as it should be, and can still be used."""
    return Opinion(health=Health.DEGRADED, words=words)


def unhealthy(words: str, *, fatal: bool = False) -> Opinion:
    """Return that something should not be used."""
    return Opinion(health=Health.UNHEALTHY, words=words, fatal=fatal)


Judge = Callable[[Gpu, GpuHealth], Iterable[Opinion]]


def judge_each(check: str, view: MachineView, judge: Judge) -> CheckResult:
    """Return what `judge` thinks of all GPUs that can be read.

    Those that cannot are the business of the check that reads them all; to report them under
    every name would make one fault look like twenty.
    """
    try:
        gpus = view.gpus.list_gpus()
    except GpuError as error:
        return CheckResult(check=check, health=Health.UNKNOWN, reason=f"not looked at: {error}")
    opinions: list[Opinion] = []
    unread = ""
    for gpu in gpus:
        try:
            opinions += judge(gpu, view.gpus.health(gpu))
        except GpuError as error:
            unread = f"GPU {gpu.index} was not looked at: {error}"
    if unread and not opinions:
        return CheckResult(check=check, health=Health.UNKNOWN, reason=unread)
    return conclude(check, opinions)


def conclude(check: str, opinions: Iterable[Opinion]) -> CheckResult:
    """Return one result, as bad as the worst opinion, with the words of all."""
    kept = list(opinions)
    return CheckResult(
        check=check,
        health=max((o.health for o in kept), key=_RANK.__getitem__, default=Health.HEALTHY),
        reason="; ".join(opinion.words for opinion in kept),
        fatal=any(opinion.fatal for opinion in kept),
    )
