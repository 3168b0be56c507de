"""Failures, what a machine's checks find of them, and their effect on its work."""

from dataclasses import dataclass
from functools import cached_property

from navarch.core.health import BOOT, CheckResult, Health
from navarch.health.checks.xid import assess_xid, describe_xid, label
from navarch.health.xid.assessment import Assessment
from navarch.sim.scenario.kinds import FailureType
from navarch.sim.world import oracle

HOT_C = 95

SLOWER_BY = 0.3
"""How much a straggler falls short of its peers."""


@dataclass(frozen=True, kw_only=True)
class Failure:
    """One thing that can break on a machine."""

    kind: FailureType
    xid: int | None = None
    gpu: int = 0
    """-1 for all of them."""
    message: str = ""
    check_result: CheckResult | None = None
    """The result of the check, for a failure of type `check`."""
    true_health: Health | None = None
    """The true health of the machine, if the scenario states it."""

    @cached_property
    def _assessment(self) -> Assessment:
        assert self.xid is not None, self
        return assess_xid(self.xid, self.message)

    @cached_property
    def harm(self) -> Health:
        """The true health of the machine: as the scenario states it, or by the oracle."""
        if self.true_health is not None:
            return self.true_health
        if self.check_result is not None:
            return self.check_result.health
        return oracle.true_health(self.kind, self.xid)

    @cached_property
    def fatal(self) -> bool:
        """Whether it is an XID that does not pass by itself."""
        return self.kind is FailureType.XID_ERROR and self.harm is Health.UNHEALTHY

    @property
    def is_false_alarm(self) -> bool:
        """Whether the scenario states that a machine which reports it is sound."""
        return self.true_health is Health.HEALTHY

    @cached_property
    def stops_work(self) -> bool:
        """Whether the program on the machine ends with it."""
        if self.is_false_alarm:
            return False
        if self.check_result is not None:
            return self.check_result.fatal
        return oracle.ends_programs(self.kind, self.xid)

    @cached_property
    def result(self) -> CheckResult | None:
        """What the machine's checks report; None if it cannot be reached."""
        if self.check_result is not None:
            return self.check_result
        text = self.message
        match self.kind:
            case FailureType.XID_ERROR:
                assert self.xid is not None, self
                return CheckResult(
                    check=f"xid/{self.xid}/{self.gpu}",
                    health=self._assessment.health,
                    reason=f"{label(self.xid)} on {self._where}: "
                    + describe_xid(self._assessment, text),
                    fatal=self._assessment.fatal,
                    lasting=True,
                    action=str(self._assessment.action),
                    facts={"code": str(self.xid), "gpu": str(self.gpu)},
                )
            case FailureType.TEMPERATURE:
                return self._bad("temperature", text or f"{self._where}: {HOT_C} C")
            case FailureType.NVML_FAILURE | FailureType.BACKEND_ERROR:
                return self._bad("nvml", text or "the driver does not answer")
            case FailureType.DEVICE_ERROR:
                return self._bad(f"nvml/{self.gpu}", text or f"{self._where} does not answer")
            case FailureType.MEMORY_ERROR:
                return self._bad(
                    "ecc", text or f"{self._where}: an uncorrectable error", lasting=True
                )
            case FailureType.NVLINK_ERROR:
                return CheckResult(
                    check="nvlink", health=Health.DEGRADED, reason=text or f"{self._where}: link 0"
                )
            case FailureType.BOOT_FAILURE:
                return self._bad(BOOT, text or "the GPUs did not come up")
        return None

    @property
    def check(self) -> str:
        """The check that reports it, where the failure is just that."""
        return "" if self.check_result is None else self.check_result.check

    @property
    def reboots(self) -> bool:
        """Whether the machine goes down with it, and comes up again as it can."""
        return self.kind is FailureType.BOOT_FAILURE

    @property
    def cleared_by_reboot(self) -> bool:
        """Whether it takes a restart to be rid of it: what happened is not taken back otherwise."""
        return (
            self.reboots
            or self.kind is FailureType.POWER
            or (self.result is not None and self.result.lasting)
        )

    def slows(self, gpu: int) -> bool:
        """Return whether a GPU does less because of it."""
        return self.kind is FailureType.STRAGGLER and self.gpu in (gpu, -1)

    def __str__(self) -> str:
        if self.kind is FailureType.XID_ERROR:
            return f"XID {self.xid} on {self._where}"
        return f"{self.kind} {self.check}".rstrip()

    def _bad(self, check: str, reason: str, *, lasting: bool = False) -> CheckResult:
        return CheckResult(check=check, health=Health.UNHEALTHY, reason=reason, lasting=lasting)

    @property
    def _where(self) -> str:
        return "every GPU" if self.gpu < 0 else f"GPU {self.gpu}"
