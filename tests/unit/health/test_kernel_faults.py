"""Faults in the kernel log that have no XID."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core.health import Health
from navarch.health.kernel_faults import MEANINGS, KernelFault, parse_fault
from navarch.health.xid.line import parse_line

RM_INIT, CORRECTED = KernelFault.RM_INIT, KernelFault.AER_CORRECTED
NONFATAL, FATAL, DPC = KernelFault.AER_NONFATAL, KernelFault.AER_FATAL, KernelFault.DPC
GPU = "0000:3b:00.0"
LINES = [
    (RM_INIT, GPU, f"NVRM: GPU {GPU}: RmInitAdapter failed! (0x26:0xffff:1290)"),
    (RM_INIT, GPU, f"NVRM: GPU {GPU}: rm_init_adapter failed, device minor number 0"),
    (RM_INIT, None, "NVRM: RmInitAdapter failed! (0x26:0x38:1097)"),
    (RM_INIT, None, "NVRM: rm_init_adapter failed for device bearing minor number 0"),
    (CORRECTED, GPU, f"pcieport 0000:3a:00.0: AER: Corrected error received: {GPU}"),
    (CORRECTED, GPU, f"pcieport 0000:3a:00.0: AER: Multiple Corrected error received: {GPU}"),
    (CORRECTED, GPU, f"pcieport 0000:3a:00.0: AER: Correctable error message received from {GPU}"),
    (
        CORRECTED,
        GPU,
        f"nvidia {GPU}: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    ),
    (CORRECTED, GPU, f"nvidia {GPU}: PCIe Bus Error: severity=Correctable, type=Data Link Layer"),
    (NONFATAL, GPU, f"pcieport 0000:3a:00.0: AER: Uncorrected (Non-Fatal) error received: {GPU}"),
    (
        NONFATAL,
        GPU,
        f"nvidia {GPU}: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer",
    ),
    (FATAL, GPU, f"pcieport 0000:3a:00.0: AER: Uncorrected (Fatal) error received: {GPU}"),
    (
        FATAL,
        GPU,
        "pcieport 0000:3a:00.0: AER: Multiple Uncorrectable (Fatal) error message received from "
        f"{GPU}",
    ),
    (FATAL, GPU, f"nvidia {GPU}: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=x"),
    (
        DPC,
        "0000:3a:00.0",
        "pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01 source:0x0000",
    ),
    (
        DPC,
        "0000:3a:00.0",
        "pcieport 0000:3a:00.0: DPC: containment event, status:0x1f01: unmasked uncorrectable "
        "error detected",
    ),
    (
        DPC,
        "0000:3a:00.0",
        "dpc 0000:3a:00.0:pcie010: DPC containment event, status:0x1f01 source:0x0000",
    ),
]


@pytest.mark.parametrize(("fault", "pci", "line"), LINES)
@pytest.mark.parametrize(
    "prefix",
    ["", "[ 1300.172117] ", "<3>[ 1300.172117] ", "Sep 27 20:53:24 host kernel: ", "\ufeff"],
)
def test_a_fault_is_read_with_its_device(
    fault: KernelFault, pci: str | None, line: str, prefix: str
) -> None:
    found = parse_fault(prefix + line)
    assert found is not None
    assert found == (fault, pci, line)
    assert parse_line(prefix + line) is None, "it is no XID"


@pytest.mark.parametrize(("fault", "pci", "line"), LINES)
def test_user_space_cannot_forge_a_fault(fault: KernelFault, pci: str | None, line: str) -> None:
    del fault, pci
    stdout = json.dumps({"MESSAGE": line, "_TRANSPORT": "stdout"})
    for forged in (
        f"app: {line}",
        f"Sep 27 20:53:24 host app[12]: {line}",
        f"<11>{line}",
        f"12,358,54165407,-;{line}",
        f"user  :err   : [ 1300.172117] {line}",
        f"audit: type=1400 msg={line}",
        f"sudo: root : COMMAND=/usr/bin/grep {line}",
        stdout,
    ):
        assert parse_fault(forged) is None, forged


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: AER: enabled with IRQ 26",
        "pcieport 0000:00:01.0: DPC: enabled with IRQ 26",
        "pcieport 0000:3a:00.0: DPC: error containment capabilities: Int Msg #0, RPExt+",
        "pcieport 0000:3a:00.0: AER: device recovery successful",
        f"nvidia {GPU}: AER: can't recover (no error_detected callback)",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.65.06",
        "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR DPC]",
    ],
)
def test_messages_about_the_drivers_themselves_are_no_faults(line: str) -> None:
    assert parse_fault(line) is None


def test_no_fault_replaces_a_machine_by_itself_and_corrected_errors_only_degrade() -> None:
    for fault in KernelFault:
        means = MEANINGS[fault]
        assert means.elsewhere in (Health.DEGRADED, means.health)
    for fault in (CORRECTED, NONFATAL):
        assert MEANINGS[fault].health is Health.DEGRADED
    for fault in (RM_INIT, FATAL, DPC):
        assert MEANINGS[fault].health is Health.UNHEALTHY
    assert MEANINGS[FATAL].elsewhere is Health.DEGRADED, "a network card is no GPU"


@given(st.text(max_size=200), st.sampled_from([line for _, _, line in LINES]))
def test_no_text_breaks_the_parser(text: str, line: str) -> None:
    parse_fault(text)
    parse_fault(text + line)
    parse_fault(line[: len(line) // 2] + text)
