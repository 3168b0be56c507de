"""The report of a run: complete, self-contained, and safe for names with markup."""

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

from navarch.sim.figures.figures import Figures
from navarch.sim.figures.reactions import DurationStats
from navarch.sim.report import render_comparison_html, render_html
from navarch.sim.report.comparison import better
from navarch.sim.report.html import element, render_span, thin
from navarch.sim.runner.outcome import (
    Happening,
    Moment,
    NodeEntry,
    NodeHistory,
    Outcome,
    RuleHits,
    Verdict,
)
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

ROOT = Path(__file__).parents[3]
EVIL = "</pre><script>alert('x')</script><img src=\"https://evil.example/x\" onerror=alert(1)>"


class Reader(HTMLParser):
    """A parser that collects the elements of a page and their texts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.code: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "code":
            self.code.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "code":
            self.code[-1] += data


def evil_outcome() -> Outcome:
    """Return an outcome in which every text is an attack."""
    moment = Moment(
        at_s=0.0,
        total=1,
        active=1,
        unhealthy=0,
        degraded=0,
        cordoned=0,
        draining=0,
        failures_total=0,
        recoveries_total=0,
        active_outages=0,
    )
    return Outcome(
        scenario=EVIL,
        description=EVIL,
        seed=7,
        version=EVIL,
        passed=False,
        simulated_s=60.0,
        configuration={"name": EVIL},
        verdicts=(Verdict(what=EVIL, holds=False, reason=EVIL),),
        failures={EVIL: 1},
        xids={EVIL: 1},
        causes={EVIL: 1},
        timeline=(moment,),
        happenings=(Happening(at_s=1.0, kind=EVIL, target=EVIL, text=EVIL),),
        nodes=(
            NodeHistory(
                node=EVIL,
                provider=EVIL,
                region=EVIL,
                zone=EVIL,
                instance_type=EVIL,
                gpus=8,
                gpu_type=EVIL,
                labels={EVIL: EVIL},
                pool=EVIL,
                status=EVIL,
                health=EVIL,
                failures=1,
                entries=(NodeEntry(at_s=1.0, kind=EVIL, text=EVIL, status=EVIL),),
            ),
        ),
        rules=(RuleHits(rule=EVIL, result=EVIL, hits=1),),
        trace=EVIL,
    )


@pytest.fixture(scope="module")
def pool_outcome() -> Outcome:
    """Return a run with a pool, a job and a failure."""
    return run_scenario(load_scenario(ROOT / "scenarios" / "pool-replacement.yaml"))


def test_no_text_of_an_outcome_becomes_markup() -> None:
    evil = evil_outcome()
    for page in (render_html(evil), render_comparison_html(evil, replace(evil, seed=8))):
        read = Reader(page)
        assert [tag for tag, _ in read.elements].count("script") == 1
        assert not any(tag in ("img", "link", "iframe", "object") for tag, _ in read.elements)
        assert not any(
            name.startswith("on") for _, attributes in read.elements for name in attributes
        )


def test_a_page_refers_to_no_other_resource(pool_outcome: Outcome) -> None:
    for page in (render_html(pool_outcome), render_comparison_html(pool_outcome, pool_outcome)):
        read = Reader(page)
        assert not any("src" in attributes for _, attributes in read.elements)
        links = [attributes["href"] for tag, attributes in read.elements if tag == "a"]
        assert all(link is not None and link.startswith("#") for link in links)
        policy = [a.get("content") for t, a in read.elements if t == "meta" and "http-equiv" in a]
        assert "default-src 'none'" in str(policy[0])


def test_every_link_of_a_page_has_a_target(pool_outcome: Outcome) -> None:
    read = Reader(render_html(pool_outcome))
    places = {attributes.get("id") for _, attributes in read.elements}
    links = {str(a["href"])[1:] for tag, a in read.elements if tag == "a"}
    assert links <= places


def test_a_page_has_verdicts_nodes_rules_and_figures(pool_outcome: Outcome) -> None:
    text = Reader(render_html(pool_outcome)).text
    for verdict in pool_outcome.verdicts:
        assert verdict.what in text
        assert verdict.reason in text
    for history in pool_outcome.nodes:
        assert history.node in text
        assert all(entry.text in text for entry in history.entries)
    assert all(rule.rule in text for rule in pool_outcome.rules)
    assert "replacement.p95_s" in text
    assert str(pool_outcome.figures.money.billed) in text


def test_the_configuration_in_a_page_reproduces_the_run(
    pool_outcome: Outcome, tmp_path: Path
) -> None:
    command, held = Reader(render_html(pool_outcome)).code
    assert command == f"navarch sim run pool-replacement.yaml --seed {pool_outcome.seed}"
    file = tmp_path / "pool-replacement.yaml"
    file.write_text(held)
    assert yaml.safe_load(held)["name"] == "pool-replacement"
    again = run_scenario(load_scenario(file), seed=pool_outcome.seed)
    assert again.trace == pool_outcome.trace


def test_the_same_outcome_gives_the_same_page(pool_outcome: Outcome) -> None:
    assert render_html(pool_outcome) == render_html(pool_outcome)


def test_a_comparison_marks_the_figures_that_became_worse(pool_outcome: Outcome) -> None:
    slow = replace(
        pool_outcome,
        figures=replace(
            pool_outcome.figures,
            detection=DurationStats(count=1, p50_s=900.0, p95_s=900.0, max_s=900.0),
        ),
    )
    text = Reader(render_comparison_html(pool_outcome, slow)).text
    assert "worse" in text
    assert "Both runs have the same configuration" in text
    assert "worse" not in Reader(render_comparison_html(pool_outcome, pool_outcome)).text


def test_a_comparison_shows_how_the_configurations_differ(pool_outcome: Outcome) -> None:
    other = replace(pool_outcome, configuration={**pool_outcome.configuration, "name": "other"})
    code = "".join(Reader(render_comparison_html(pool_outcome, other)).code)
    assert "-name: pool-replacement" in code
    assert "+name: other" in code


def test_more_availability_and_less_waste_are_better() -> None:
    assert better("availability", 0.9, 0.95) is True
    assert better("gpu_hours.wasted", 1.0, 2.0) is False
    assert better("false_cordons", 3, 0) is True
    assert better("detection.count", 3, 5) is None
    assert better("injured", 3, 5) is None
    assert better("detection.p50_s", None, 5) is None


def test_a_chart_draws_every_change_of_a_long_quiet_run() -> None:
    values = [(float(i >= 50_000),) for i in range(100_000)]
    assert thin(values) == [0, 49_999, 50_000, 99_999]
    assert len(thin([(float(i),) for i in range(100_000)])) <= 602


def test_an_empty_outcome_makes_a_page() -> None:
    empty = Outcome(
        scenario="empty",
        description="",
        seed=0,
        version="1",
        passed=True,
        simulated_s=0.0,
        figures=Figures(),
    )
    assert "Nothing was asserted" in Reader(render_html(empty)).text
    Reader(render_comparison_html(empty, empty))


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.34, "2.3s"), (61, "1m 1s"), (3600, "1h"), (93_600.4, "1d 2h")]
)
def test_durations_are_rendered_in_two_units(seconds: float, text: str) -> None:
    assert render_span(seconds) == text


def test_markup_is_escaped_in_text_and_attributes() -> None:
    assert element("p", "<b>", title='"x"') == '<p title="&quot;x&quot;">&lt;b&gt;</p>'


def a_node(name: str) -> NodeHistory:
    return NodeHistory(
        node=name,
        provider="p",
        region="r",
        zone="z",
        instance_type="t",
        gpus=8,
        gpu_type="H100",
        labels={},
        pool="training",
        status="active",
        health="healthy",
        failures=0,
    )


def test_nodes_are_in_the_order_of_their_numbers() -> None:
    names = ["training-10", "training-2", "other", "training-1"]
    quiet = Outcome(
        scenario="s",
        description="",
        seed=1,
        version="1",
        passed=True,
        simulated_s=1.0,
        nodes=tuple(a_node(name) for name in names),
    )
    page = render_html(quiet)

    places = [page.index(f"<strong>{x}</strong>") for x in ("other", "training-1", "training-2")]
    assert places == sorted(places)
    assert page.index("<strong>training-10</strong>") > places[-1]


def test_figures_that_did_not_occur_are_omitted() -> None:
    quiet = Outcome(scenario="s", description="", seed=1, version="1", passed=True, simulated_s=1.0)
    page = render_html(quiet)
    both = render_comparison_html(quiet, replace(quiet, seed=2))

    assert "Time since the fault" not in page
    assert "goodput.ettr" not in page
    assert "replacement.p95_s" not in page
    assert "replacement.p95_s" not in both
    assert "No fault was injected in either run." in both


def test_the_command_that_repeats_a_run_names_its_file() -> None:
    outcome = Outcome(
        scenario="s",
        description="",
        seed=7,
        version="1",
        passed=True,
        simulated_s=1.0,
        source="my folder/s.yaml",
    )
    assert "navarch sim run &#x27;my folder/s.yaml&#x27; --seed 7" in render_html(outcome)
