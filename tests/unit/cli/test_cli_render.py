"""Text output at 80 columns, at 160 columns and without a terminal."""

from collections.abc import Sequence
from dataclasses import replace

import click
import pytest
from cli_views import (
    ACTIVE,
    BOOTING,
    DETAIL,
    EVENTS,
    INSTANCE,
    LEAVING,
    NODES,
    NOW,
    PENDING,
    POOL,
    STATUS,
    STORY,
    ago,
    check_golden,
    step,
)

from navarch.cli.render.events import render_events
from navarch.cli.render.fleet_health import render_status
from navarch.cli.render.jobs import render_job, render_jobs
from navarch.cli.render.nodes import render_node, render_nodes
from navarch.cli.render.offers import render_instance, render_instances
from navarch.cli.render.pools import render_changes, render_pool, render_pools, render_progress
from navarch.cli.render.table import Canvas, Cell, Column, render_table
from navarch.cli.render.why import render_why
from navarch.core.event import about
from navarch.core.ids import NodeId
from navarch.core.witness import Testimony
from navarch.ports.api import Why
from navarch.service.views import pool_view
from navarch.testing.worlds import a_job, a_pool

WIDTHS = [80, 160]
PLAIN = Canvas(now=NOW)


def _column(index: int, *, rank: int = 0) -> Column[Sequence[Cell | str]]:
    return Column("ABC"[index], lambda row: row[index], rank=rank)


@pytest.mark.parametrize("width", WIDTHS)
def test_every_table_matches_its_golden_file_and_fits(width: int) -> None:
    canvas = Canvas(now=NOW, width=width)
    tables = {
        "nodes": render_nodes(NODES, canvas),
        "pools": render_pools(STATUS.pools, canvas),
        "instances": render_instances((INSTANCE, PENDING), canvas),
        "events": render_events(EVENTS, canvas),
        "status": render_status(STATUS, canvas),
        "why": render_why(STORY, canvas),
        "progress": render_progress("training: 10 of 12 nodes ready", NODES, canvas),
    }
    for name, text in tables.items():
        check_golden(f"cli-{name}-{width}.txt", text)
        assert max(map(len, text.splitlines())) <= width, name


def test_the_status_shows_in_full_why_a_pool_is_paused_and_what_to_do() -> None:
    paused = pool_view(a_pool(size=0, nodes_max=2**53, nodes_wanted=10**9), ())
    text = render_status(replace(STATUS, pools=(paused,)), Canvas(now=NOW, width=80))
    assert text.splitlines()[2] == (
        "training is paused: 1000000000 nodes are above the limit of 100000 nodes per pool; "
        "scale it to 100000 nodes or fewer: navarch pool scale training NODES."
    )
    assert paused.note in render_pool(paused)


def test_a_job_of_a_billion_tasks_that_waits_is_shown_without_its_tasks() -> None:
    assert "1000000000 x 8" in render_job(a_job("huge", tasks=10**9), PLAIN)


def test_a_silent_node_shows_what_its_witnesses_report() -> None:
    reason = "EC2 reports the instance status check failed since 12:03 UTC"
    dead = Testimony(witness="provider/work", alive=False, reason=reason, since=ago(120))
    doubt = Testimony(witness="workloads/slurm", alive=None, reason="no answer", since=ago(5))
    silent = replace(DETAIL, node=replace(DETAIL.node, testimonies=(dead, doubt)))
    lines = render_node(silent, PLAIN).splitlines()
    first = lines.index("Witnesses:") + 1
    assert lines[first : first + 2] == [
        f"  provider/work: dead, {reason} (2m ago)",
        "  workloads/slurm: no proof, no answer (5s ago)",
    ]


def test_details_match_their_golden_files() -> None:
    check_golden("cli-node.txt", render_node(DETAIL, PLAIN))
    check_golden("cli-pool.txt", render_pool(POOL))
    check_golden("cli-instance.txt", render_instance(INSTANCE, PLAIN))


def test_without_a_terminal_no_column_is_omitted_and_every_field_is_filled() -> None:
    header, first, *_ = render_nodes([replace(ACTIVE, zone="")], PLAIN).splitlines()

    assert header.split("  ")[0] == "Node ID"
    assert [word.strip() for word in header.split("  ") if word.strip()] == [
        "Node ID",
        "Provider",
        "Region",
        "Zone",
        "Instance Type",
        "Status",
        "Health",
        "Last Heartbeat",
        "GPUs",
        "Pool",
    ]
    assert first.split() == [
        *("training-0", "lambda", "us-east-1", "-", "gpu_8x_h100_sxm5"),
        *("Active", "Healthy", "12s", "ago", "8", "training"),
    ]


def test_a_reason_is_not_cut_without_a_terminal() -> None:
    assert "GPU has fallen off the bus" in render_nodes([LEAVING], PLAIN)


def test_the_least_important_column_is_dropped_first() -> None:
    columns = (_column(0), _column(1, rank=1), _column(2, rank=2))
    row = [("aaaa", "bbbb", "cccc")]

    assert render_table(columns, row, Canvas(now=NOW, width=16)) == (
        "A     B     C\naaaa  bbbb  cccc"
    )
    assert render_table(columns, row, Canvas(now=NOW, width=15)) == "A     B\naaaa  bbbb"
    assert render_table(columns, row, Canvas(now=NOW, width=3)) == "A\naaaa"


def test_colours_do_not_count_as_width() -> None:
    columns = (_column(0), _column(1))
    rows = [(Cell("aa", "red"), "b"), (Cell("aaaa", "green"), "b")]
    lines = render_table(columns, rows, Canvas(now=NOW, width=80, color=True)).splitlines()

    assert "\x1b[31maa\x1b[0m    b" in lines[1]
    assert "\x1b[32maaaa\x1b[0m  b" in lines[2]


@pytest.mark.parametrize("width", WIDTHS)
def test_a_table_in_colour_is_the_plain_table_apart_from_the_colours(width: int) -> None:
    plain, coloured = (
        (
            render_nodes(NODES, canvas),
            render_pools(STATUS.pools, canvas),
            render_instances((INSTANCE, PENDING), canvas),
            render_events(EVENTS, canvas),
            render_status(STATUS, canvas),
            render_jobs([a_job("train")], canvas),
            render_progress("training: 10 of 12 nodes ready", NODES, canvas),
        )
        for canvas in (Canvas(now=NOW, width=width, color=color) for color in (False, True))
    )
    for before, after in zip(plain, coloured, strict=True):
        assert after != before
        assert click.unstyle(after) == before


def test_control_characters_from_a_machine_do_not_reach_the_terminal() -> None:
    evil = replace(LEAVING, retiring="\x1b[2J\nforged line\u202e")

    text = render_nodes([evil], PLAIN)

    assert len(text.splitlines()) == 2
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_wide_characters_stay_aligned() -> None:
    columns = (_column(0), _column(1))

    lines = render_table(columns, [("机器", "x"), ("ab", "x")], PLAIN).splitlines()

    assert lines[1] == "机器  x"
    assert lines[2] == "ab    x"


def test_progress_lines_report_only_changes() -> None:
    before = {node.id: node for node in (ACTIVE, BOOTING)}

    assert render_changes({}, [ACTIVE]) == ["training-0 is active on i-0f3a9c21"]
    assert render_changes(before, [ACTIVE, BOOTING]) == []
    assert render_changes(before, [ACTIVE]) == ["training-12 is gone"]
    assert render_changes(before, [replace(ACTIVE, id=NodeId("n"), retiring="old")]) == [
        "n is active on i-0f3a9c21: old",
        "training-0 is gone",
        "training-12 is gone",
    ]


def test_why_shows_repeated_reports_once() -> None:
    health = "node.health"
    story = Why(
        about=about("node", "n"),
        state="ready, unhealthy",
        steps=(
            step(4, 10, health, "unhealthy: hot (3 times in a row)"),
            step(3, 20, health, "unhealthy: hot (2 times in a row)"),
            step(2, 30, health, "unhealthy: hot"),
            step(1, 40, health, "healthy: every check passes"),
        ),
    )

    assert render_why(story, PLAIN).splitlines()[1:] == [
        "  11:59:50  health: unhealthy: hot (3 times in a row)",
        "  11:59:20  health: healthy: every check passes",
    ]


def test_a_self_registered_node_is_listed_with_the_pool_that_its_agent_names() -> None:
    host = replace(ACTIVE, pool=None, labels={"pool": "by-hand"})
    assert render_nodes([host], PLAIN).splitlines()[1].endswith("by-hand")
    assert "Pool:           by-hand" in render_node(replace(DETAIL, node=host), PLAIN)
    assert "by-hand" not in render_nodes([replace(host, pool=DETAIL.node.pool)], PLAIN)
