"""The report in a real browser without a network."""

import shutil
import subprocess
from pathlib import Path

import pytest

from navarch.sim.report import render_html
from navarch.sim.report.comparison import render_comparison_html
from navarch.sim.runner.runner import run_scenario
from navarch.sim.scenario.loading import load_scenario

SCENARIO = Path(__file__).parents[3] / "scenarios" / "pool-replacement.yaml"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")


def seen(page: str, tmp_path: Path) -> str:
    """Return the document of the browser after its script has run."""
    file = tmp_path / "report.html"
    # A text that only a script can write proves that scripts ran.
    ready = "<script>document.title += ' is shown'</script>"
    file.write_text(page.replace("</body>", ready + "</body>"), encoding="utf-8")
    done = subprocess.run(
        [
            *(
                str(CHROMIUM),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--enable-logging=stderr", "--dump-dom", file.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console_messages = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console_messages == []
    assert "is shown</title>" in done.stdout
    return done.stdout


def test_a_report_is_complete_without_a_network_and_its_script_runs(tmp_path: Path) -> None:
    outcome = run_scenario(load_scenario(SCENARIO), seed=3)
    page = seen(render_html(outcome), tmp_path)

    assert "<svg" in page
    for node in outcome.nodes:
        assert node.node in page
    assert "xid/79" in page, "the rule that fired"
    assert "--seed 3" in page


def test_a_comparison_is_complete_without_a_network(tmp_path: Path) -> None:
    one, other = (run_scenario(load_scenario(SCENARIO), seed=seed) for seed in (3, 4))
    page = seen(render_comparison_html(one, other), tmp_path)

    assert "seed 3 against" in page
    assert "better" in page
