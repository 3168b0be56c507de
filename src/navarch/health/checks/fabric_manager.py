"""The check of the service that configures NVSwitches."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from navarch.health.checks.issues import HostCheck, Issue, degraded, unhealthy
from navarch.health.checks.links import COMPLETED
from navarch.ports.checks import MachineView
from navarch.ports.gpu import Fabric, GpuError

SHOWN_MAX = 3
"""How many of its errors a result lists."""

_FATAL = re.compile(r"\bfatal\b", re.IGNORECASE)
_NOT_FATAL = re.compile(r"\bnon[ -]fatal\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricManagerCheck(HostCheck):
    """Finds a fabric manager that has failed, and its errors, on machines with NVSwitches.

    Elsewhere it has nothing to configure, and ends with an error. GPUs that cannot be read are left
    to the `gpu` check. No result is fatal: the driver reports fatal errors of switches as SXids.
    """

    name: str = "fabric_manager"

    def _find_issues(self, view: MachineView) -> Iterator[Issue]:
        fabrics = _fabrics(view)
        if not fabrics and not view.host.nvswitches():
            return
        manager = view.host.fabric_manager()
        if manager is None:
            return
        cut_off = [index for index, fabric in fabrics.items() if fabric.state != COMPLETED]
        last = f": {manager.errors[-1]}" if manager.errors else ""
        which = f"GPU {', '.join(map(str, cut_off))}" if cut_off else "its GPUs"
        if manager.state == "failed" and (cut_off or not fabrics):
            yield unhealthy(f"the fabric manager has failed: no NVLink fabric for {which}{last}")
        elif manager.state == "failed":
            yield degraded(f"the fabric manager has failed; the NVLink fabric still works{last}")
        elif manager.state == "inactive" and cut_off:
            yield unhealthy(f"the fabric manager does not run: no NVLink fabric for {which}")
        else:
            for error in manager.errors[-SHOWN_MAX:]:
                is_grave = bool(cut_off) or _FATAL.search(_NOT_FATAL.sub("", error)) is not None
                yield (unhealthy if is_grave else degraded)(f"the fabric manager reports: {error}")


def _fabrics(view: MachineView) -> dict[int, Fabric]:
    """Return the fabric of each GPU in one, by index."""
    found: dict[int, Fabric] = {}
    try:
        gpus = view.gpus.list_gpus()
    except GpuError:
        return found
    for gpu in gpus:
        try:
            fabric = view.gpus.health(gpu).fabric
        except GpuError:
            continue
        if fabric is not None:
            found[gpu.index] = fabric
    return found
