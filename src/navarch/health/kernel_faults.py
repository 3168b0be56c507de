"""Faults that the kernel or the driver reports without an XID: PCIe errors, GPUs that do not start.

The formats are those of the kernel's AER and DPC drivers since 4.x, and of NVRM. Lines that user
space has written do not count, however similar.
"""

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from navarch.core.health import Health
from navarch.health.xid.catalogue import Action
from navarch.health.xid.line import ADDRESS, without_prefix


class KernelFault(IntEnum):
    """The kinds of faults. Their numbers are beyond those of NVIDIA, and are never shown."""

    RM_INIT = 100_001
    AER_CORRECTED = 100_002
    AER_NONFATAL = 100_003
    AER_FATAL = 100_004
    DPC = 100_005

    @property
    def title(self) -> str:
        """Its name in results, such as `aer-fatal`."""
        return self.name.lower().replace("_", "-")


def is_kernel_fault(code: int) -> bool:
    """Return whether the code of an event is one of these faults."""
    return code >= KernelFault.RM_INIT


class KernelFaultLine(NamedTuple):
    """One fault as the kernel printed it."""

    fault: KernelFault
    pci: str | None
    """The device as printed; None if the line does not name it."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultMeaning:
    """What a fault means for its device."""

    meaning: str
    health: Health
    """The health of the node if the device is a GPU."""
    elsewhere: Health
    """The health of the node if it is another device, or an unknown one."""
    action: Action


MEANINGS = {
    KernelFault.RM_INIT: FaultMeaning(
        meaning="the driver could not start the GPU",
        health=Health.UNHEALTHY,
        elsewhere=Health.UNHEALTHY,
        action=Action.REBOOT_NODE,
    ),
    KernelFault.AER_CORRECTED: FaultMeaning(
        meaning="corrected PCIe errors",
        health=Health.DEGRADED,
        elsewhere=Health.DEGRADED,
        action=Action.NONE,
    ),
    KernelFault.AER_NONFATAL: FaultMeaning(
        meaning="an uncorrected PCIe error; the link still works",
        health=Health.DEGRADED,
        elsewhere=Health.DEGRADED,
        action=Action.NONE,
    ),
    KernelFault.AER_FATAL: FaultMeaning(
        meaning="a fatal PCIe error",
        health=Health.UNHEALTHY,
        elsewhere=Health.DEGRADED,
        action=Action.REBOOT_NODE,
    ),
    KernelFault.DPC: FaultMeaning(
        meaning="the PCIe port has cut off the device below it",
        health=Health.UNHEALTHY,
        # The kernel names the port, which may be that of a disk. A GPU that is cut off shows by
        # itself.
        elsewhere=Health.DEGRADED,
        action=Action.REBOOT_NODE,
    ),
}
"""None is fatal: one line alone replaces no machine. A GPU that is gone is fatal as such."""

_RM_INIT = re.compile(
    rf"NVRM: (?:GPU (?:at )?(?:PCI:)?({ADDRESS}): )?"
    r"(?:RmInitAdapter failed!|rm_init_adapter failed\b)"
)
_PORT = rf"[\w.-]+ ({ADDRESS})(?::pcie?\d+)?: "
_DPC = re.compile(rf"{_PORT}(?:DPC: |dpc 0000:\S+: )?(?:DPC )?containment event\b")
_BUS_ERROR = re.compile(
    rf"{_PORT}(?:AER: )?PCIe Bus Error: severity=(?P<severity>[A-Za-z]+(?: \([A-Za-z-]+\))?)"
)
_RECEIVED = re.compile(
    rf"{_PORT}AER: (?:Multiple )?(?P<severity>(?:Un)?[Cc]orrect(?:ed|able)(?: \([A-Za-z-]+\))?) "
    rf"error (?:message )?received(?: from|:) ({ADDRESS})"
)
_SIGNS = (
    "AER: ",
    "PCIe Bus Error",
    "containment event",
    "nitAdapter failed!",
    "init_adapter failed",
)


def parse_fault(line: str) -> KernelFaultLine | None:
    """Return the fault that `line` reports, if any."""
    if not any(sign in line for sign in _SIGNS):
        return None
    text = without_prefix(line)
    if text is None:
        return None
    found = _RM_INIT.match(text)
    if found is not None:
        return KernelFaultLine(KernelFault.RM_INIT, found[1], text)
    found = _DPC.match(text)
    if found is not None:
        return KernelFaultLine(KernelFault.DPC, found[1], text)
    found = _RECEIVED.match(text)
    if found is not None:
        return KernelFaultLine(_severity(found["severity"]), found[3], text)
    found = _BUS_ERROR.match(text)
    if found is not None:
        return KernelFaultLine(_severity(found["severity"]), found[1], text)
    return None


def _severity(words: str) -> KernelFault:
    if words.startswith(("Corrected", "Correctable")):
        return KernelFault.AER_CORRECTED
    return KernelFault.AER_FATAL if words.endswith("(Fatal)") else KernelFault.AER_NONFATAL
