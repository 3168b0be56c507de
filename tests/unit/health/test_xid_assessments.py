"""The XID catalogue, and the assessment of a line's text."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.core.health import Health
from navarch.health.xid.assessment import Assessment, assess, decisive
from navarch.health.xid.catalogue import (
    Action,
    Kind,
    Origin,
    driver_branch,
    find_sxid,
    find_xid,
    strongest,
    sxids,
    xids,
)
from navarch.health.xid.line import parse_line
from navarch.health.xid.nvlink import nvlink_rules, read_nvlink5
from navarch.health.xid.recovery import parse_recovery, required_recovery

SHARED = Path(__file__).parents[4] / "shared" / "data" / "xid"


def assessed(line: str, *, branch: int | None = None) -> Assessment:
    found = parse_line(f"NVRM: Xid (PCI:0000:3b:00): {line}")
    assert found is not None
    return assess(found.kind, found.code, found.text, branch=branch)


def test_the_catalogue_is_complete() -> None:
    assert sorted(xids()) == list(range(1, 183))
    assert len(sxids()) == 421
    assert sum(entry.fatal for entry in xids().values()) == 33
    assert all(entry.meaning and entry.mnemonic for entry in (*xids().values(), *sxids().values()))


def test_the_catalogue_agrees_with_its_sources() -> None:
    for name, table in (("xid_catalog.csv", xids()), ("sxid_catalog.csv", sxids())):
        file = SHARED / name
        if not file.exists():
            pytest.skip(f"no {file}")
        with file.open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                entry = table[int(row["code"])]
                facts = (entry.origin, entry.severity, entry.action, str(entry.fatal).lower())
                assert facts == (row["class"], row["severity"], row["action"], row["fatal"])


def test_no_application_fault_is_fatal() -> None:
    programs = [code for code, entry in xids().items() if entry.origin is Origin.APP]

    assert {13, 31, 43, 45, 69, 108, 137} <= set(programs)
    assert not any(assess(Kind.XID, code).fatal for code in programs)
    assert all(assess(Kind.XID, code).health is Health.HEALTHY for code in programs)


def test_an_unknown_code_is_a_warning_and_never_a_cordon() -> None:
    for assessment in (assess(Kind.XID, 999), assess(Kind.SXID, 99999)):
        assert (assessment.fatal, assessment.health) == (False, Health.DEGRADED)


def test_a_code_newer_than_the_driver_is_unknown() -> None:
    assert find_xid(174, branch=595).mnemonic
    assert not find_xid(174, branch=615).mnemonic
    assert not find_xid(154, branch=550).mnemonic
    assert find_xid(154, branch=driver_branch("580.159.04")).mnemonic
    assert driver_branch("simulated") is None


@pytest.mark.parametrize(
    ("line", "action", "fatal"),
    [
        ("51, BAD_TSG encountered on runlist: 2 with error code: 5", Action.RESET_GPU, True),
        ("51, stress test", Action.NONE, False),
        ("64, Row Remapper: (0x1) - already pending remapping.", Action.RESET_GPU, True),
        ("64, DRAM Retirement failed due to pending bank remap", Action.RESET_GPU, True),
        ("64, DRAM Retirement failed due to pending LTS swap", Action.RESET_GPU, True),
        ("64, Row Remapping table is full", Action.REPLACE, True),
        ("64, All reserved rows for bank are remapped", Action.REPLACE, True),
        ("64, DRAM Retirement failed due to HW limit reached", Action.REPLACE, True),
        ("64, failed due to full inforom object", Action.REPLACE, True),
        ("64, Internal remapper error", Action.RESET_GPU, True),
        ("160, Marking LTS 5. Perform node reboot to activate repair.", Action.REBOOT_NODE, False),
        ("160, Marking Channel 0. Perform GPU reset to activate repair.", Action.RESET_GPU, False),
        ("63, Row Remapper: New row marked for remapping", Action.NONE, False),
        ("79, GPU has fallen off the bus.", Action.REBOOT_NODE, True),
        ("140, DRAM:-2147483648, LTC:0, MMU:0, PCIE:0", Action.RESET_GPU, True),
        ("31, Ch 7", Action.RESTART_APP, False),
        ("43, Ch 7", Action.NONE, False),
    ],
)
def test_the_text_decides_if_the_code_does_not(line: str, action: Action, fatal: bool) -> None:
    assessment = assessed(line)

    assert (assessment.action, assessment.fatal) == (action, fatal)


@pytest.mark.parametrize(
    ("number", "action", "fatal", "health"),
    [
        (0, Action.NONE, False, Health.HEALTHY),
        (1, Action.RESET_GPU, True, Health.UNHEALTHY),
        (2, Action.REBOOT_NODE, True, Health.UNHEALTHY),
        (3, Action.RESET_GPU, False, Health.DEGRADED),
        (4, Action.RESET_GPU, True, Health.UNHEALTHY),
        (5, Action.CHECK_FABRIC, False, Health.DEGRADED),
        (6, Action.REBOOT_NODE, True, Health.UNHEALTHY),
        (7, Action.REBOOT_NODE, True, Health.UNHEALTHY),
        (9, Action.DYNAMIC, False, Health.DEGRADED),
    ],
)
def test_the_drivers_recovery_action_is_read_by_number(
    number: int, action: Action, fatal: bool, health: Health
) -> None:
    for words in ("GPU Reset Required", "PF FLR", "no such words"):
        assessment = assessed(
            f"154, GPU recovery action changed from 0x1 (x) to 0x{number:x} ({words})"
        )
        assert (assessment.action, assessment.fatal, assessment.health) == (action, fatal, health)
    assert required_recovery(number).action is action


@given(st.text())
def test_any_recovery_text_can_be_parsed(text: str) -> None:
    assert parse_recovery(f"GPU recovery action changed from 0x0 ({text}") in (None, *range(10**6))
    assess(Kind.XID, 154, text)
    assess(Kind.XID, 149, text)


def test_every_nvlink_rule_is_reached_by_registers_of_both_layouts() -> None:
    for code, rules in nvlink_rules().items():
        for wanted in rules:
            for layout, name in ((0, wanted.names[0]), (1, wanted.names[-1])):
                status = wanted.statuses[0] if wanted.statuses else 0
                registers = f"0x{wanted.masks[layout][1]:08x} 0x{status:08x}"
                text = f"{name} Nonfatal XC0 i0 Link 03 ({registers})"
                reading = read_nvlink5(code, text, branch=(570, 580)[layout])
                assert reading is not None
                assert reading.decoded, text
                assert reading.action is wanted.action, text


def test_the_printed_name_selects_the_layout_if_the_driver_is_unknown() -> None:
    old = read_nvlink5(145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 16 (0x040a08e2 0x00000010)")
    new = read_nvlink5(145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 16 (0x04000007 0x00000010)")

    assert old is not None
    assert new is not None
    assert (old.decoded, old.action, old.link) == (True, Action.RESET_GPU, 16)
    assert (new.decoded, new.action) == (True, Action.RESET_GPU)


def test_registers_without_a_rule_fall_back_to_the_severity() -> None:
    assert assessed("149, NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]").fatal
    assert not assessed("149, NETIR_LINK_DOWN Nonfatal XC1 i2 Link 17 (0xdeadbeef)").fatal
    assert not assessed("149, NETIR_LI").fatal


def test_the_registers_of_an_xid_74_are_explained() -> None:
    line = "74, NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)"

    assert "link 6: contact or link hardware" in assessed(line).why


@pytest.mark.parametrize(
    ("text", "action", "fatal"),
    [
        ("Fatal, Link 48 LTSSM Fault Up", Action.CHECK_FABRIC, True),
        ("Non-fatal, Link 48 LTSSM Fault Up", Action.NONE, False),
        ("Correctable, Link 48", Action.NONE, False),
        ("Severity 1 Engine instance 60 Sub-engine instance 00", Action.CHECK_FABRIC, True),
    ],
)
def test_the_severity_that_a_switch_prints_overrides_the_catalogue(
    text: str, action: Action, fatal: bool
) -> None:
    assessment = assess(Kind.SXID, 20034, text)

    assert (assessment.action, assessment.fatal) == (action, fatal)


def test_renumbered_sxids_are_distinguished_by_text_or_driver() -> None:
    crumbs = "Non-fatal, Link 46 MC TS crumbstore MCTO (First)"
    assert find_sxid(28006, text=crumbs) == find_sxid(29006, branch=580)
    assert find_sxid(29002, text="Red TS tag store fatal ECC") == find_sxid(30002)
    assert find_sxid(28002, branch=535) == find_sxid(29002, branch=550)
    assert "OSFP" in find_sxid(28002, branch=550).mnemonic


def test_the_strongest_action_wins() -> None:
    assert strongest(Action.RESTART_APP, Action.REPLACE, Action.NONE) is Action.REPLACE
    assert strongest() is Action.NONE


def test_text_outside_the_decisive_part_does_not_change_the_assessment() -> None:
    file = SHARED / "xid_dmesg_samples.txt"
    if not file.exists():
        pytest.skip(f"no {file}")
    for sample in file.read_text(encoding="utf-8").splitlines():
        found = parse_line(sample.partition("\t")[2])
        assert found is not None
        kind, code, text = found.kind, found.code, found.text
        whole, part = assess(kind, code, text), assess(kind, code, decisive(kind, code, text))
        assert (whole.action, whole.fatal) == (part.action, part.fatal), text


def test_the_reference_page_matches_the_catalogue() -> None:
    reference = Path(__file__).parents[3] / "docs" / "reference" / "xid.md"
    text = reference.read_text(encoding="utf-8")

    for entry in xids().values():
        fatal = "yes" if entry.fatal else ""
        row = f"| {entry.code} | {entry.meaning} | {entry.origin} | {entry.action} | {fatal} |"
        assert row in text, row
