"""The changelog has the form of Keep a Changelog."""

import re
from datetime import date

from doc_pages import ROOT

from navarch.core.version import VERSION

LINES = (ROOT / "CHANGELOG.md").read_text("utf-8").splitlines()
RELEASE = re.compile(r"## \[(?P<version>\d+\.\d+\.\d+)\] - (?P<day>\d{4}-\d{2}-\d{2})")
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_releases_are_dated_newest_first_below_what_is_unreleased() -> None:
    first, *others = [line for line in LINES if line.startswith("## ")]
    assert first == "## [Unreleased]"
    releases = [RELEASE.fullmatch(line) for line in others]
    days = [date.fromisoformat(release["day"]) for release in releases if release]
    assert len(days) == len(others)
    assert days == sorted(days, reverse=True)


def test_this_version_is_among_the_releases() -> None:
    versions = [release["version"] for line in LINES if (release := RELEASE.fullmatch(line))]
    assert VERSION in versions


def test_changes_are_grouped_by_kind() -> None:
    kinds = [line.removeprefix("### ") for line in LINES if line.startswith("### ")]
    assert set(kinds) <= KINDS
