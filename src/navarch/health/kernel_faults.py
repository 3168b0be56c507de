"""Faults that the kernel or the driver reports without an XID: PCIe errors, GPUs that do not start.

The formats are those of the kernel's AER and DPC drivers since 4.x, and of NVRM. Lines that user
space has written do not count, however similar.
"""

import re
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


class FaultMeaning(NamedTuple):
    """What a fault means for its device."""

    meaning: str
    health: Health = Health.DEGRADED
    """The health of the node if the device is a GPU."""
    elsewhere: Health = Health.DEGRADED
    """The health of the node if it is another device, or an unknown one."""

    @property
    def action(self) -> Action:
        """The action that a GPU with the fault needs."""
        return Action.REBOOT_NODE if self.health is Health.UNHEALTHY else Action.NONE


MEANINGS = {
    KernelFault.RM_INIT: FaultMeaning(
        "the driver could not start the GPU", Health.UNHEALTHY, elsewhere=Health.UNHEALTHY
    ),
    KernelFault.AER_CORRECTED: FaultMeaning("corrected PCIe errors"),
    KernelFault.AER_NONFATAL: FaultMeaning("an uncorrected PCIe error; the link still works"),
    KernelFault.AER_FATAL: FaultMeaning("a fatal PCIe error", Health.UNHEALTHY),
    # The kernel names the port, which may be that of a disk. A GPU that is cut off shows by itself.
    KernelFault.DPC: FaultMeaning(
        "the PCIe port has cut off the device below it", Health.UNHEALTHY
    ),
}
"""None is fatal: one line alone replaces no machine. A GPU that is gone is fatal as such."""

_DEVICE = rf"(?P<pci>{ADDRESS})"
_PORT = r"[\w.-]+ {}(?::pcie?\d+)?: "
_SEVERITY = r" \([A-Za-z-]+\)"
_FORMATS: tuple[tuple[re.Pattern[str], KernelFault | None], ...] = (
    (
        re.compile(
            rf"NVRM: (?:GPU (?:at )?(?:PCI:)?{_DEVICE}: )?"
            r"(?:RmInitAdapter failed!|rm_init_adapter failed\b)"
        ),
        KernelFault.RM_INIT,
    ),
    (
        re.compile(
            _PORT.format(_DEVICE) + r"(?:DPC: |dpc 0000:\S+: )?(?:DPC )?containment event\b"
        ),
        KernelFault.DPC,
    ),
    (
        re.compile(
            _PORT.format(ADDRESS) + r"AER: (?:Multiple )?"
            rf"(?P<severity>(?:Un)?[Cc]orrect(?:ed|able)(?:{_SEVERITY})?) "
            rf"error (?:message )?received(?: from|:) {_DEVICE}"
        ),
        None,
    ),
    (
        re.compile(
            _PORT.format(_DEVICE) + r"(?:AER: )?PCIe Bus Error: "
            rf"severity=(?P<severity>[A-Za-z]+(?:{_SEVERITY})?)"
        ),
        None,
    ),
)
"""The texts of the faults. Where no fault is given, the severity in the text decides."""

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
    for pattern, fault in _FORMATS:
        found = pattern.match(text)
        if found is not None:
            kind = _severity(found["severity"]) if fault is None else fault
            return KernelFaultLine(kind, found["pci"], text)
    return None


def _severity(words: str) -> KernelFault:
    if words.startswith(("Corrected", "Correctable")):
        return KernelFault.AER_CORRECTED
    return KernelFault.AER_FATAL if words.endswith("(Fatal)") else KernelFault.AER_NONFATAL
