"""The check of the house rules fails on every kind of violation, and its baseline only shrinks."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[2] / "scripts" / "check-house"

LONG = "def long():\n" + "    pass\n" * 61
BREAKS = {
    "a class name twice in a layer": (
        {"a/x.py": "class Event: ...\n", "a/y.py": "class Event: ...\n"},
        "duplicate class names: a.Event",
    ),
    "an import cycle": (
        {"a/x.py": "import navarch.a.y\n", "a/y.py": "from navarch.a import x\n"},
        "modules in import cycles: navarch.a.x",
    ),
    "an import cycle for types only": (
        {
            "a/x.py": "if TYPE_CHECKING:\n    import navarch.a.y\n",
            "a/y.py": "import navarch.a.x\n",
        },
        "modules in import cycles: navarch.a.x",
    ),
    "a long function": ({"a/x.py": LONG}, "long functions: navarch.a.x.long"),
    "machines that speak": (
        {"a/x.py": '"""Tell nobody, and say it to whoever asks."""\n'},
        "prose in src",
    ),
}


NAMES = {"test_x.py": "def test_nobody_tells_whoever_asks(): ...\n"}


def a_tree(root: Path, files: dict[str, str], folder: str = "src/navarch") -> Path:
    for name, text in files.items():
        path = root / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    (root / "scripts").mkdir()
    return root


def check(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(CHECK), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_a_tree_that_keeps_the_rules_passes(tmp_path: Path) -> None:
    plain = {"a/x.py": '"""Return the nodes of a pool."""\n', "b/x.py": "class Event: ...\n"}
    done = check(a_tree(tmp_path, plain))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", BREAKS)
def test_the_check_fails_on(name: str, tmp_path: Path) -> None:
    files, message = BREAKS[name]
    done = check(a_tree(tmp_path, files))
    assert done.returncode == 1
    assert message in done.stderr


def test_the_check_fails_on_test_names_that_make_persons_of_machines(tmp_path: Path) -> None:
    done = check(a_tree(tmp_path, NAMES, "tests"))
    assert done.returncode == 1
    assert "prose in test names" in done.stderr


def test_the_worst_texts_are_listed_with_their_places(tmp_path: Path) -> None:
    done = check(a_tree(tmp_path, NAMES, "tests"), "--worst", "3")
    assert done.stdout == "tests/test_x.py:1: nobody tells whoever asks\n"


@pytest.mark.parametrize("name", BREAKS)
def test_what_the_baseline_lists_passes_and_leaves_it_once_it_is_fixed(
    name: str, tmp_path: Path
) -> None:
    files, message = BREAKS[name]
    root = a_tree(tmp_path, files)
    baseline = root / "scripts" / "house.json"
    check(root, "--update")
    assert check(root).returncode == 0
    for path in (root / "src").rglob("*.py"):
        path.write_text("", "utf-8")
    check(root, "--update")
    for place, text in files.items():
        (root / "src" / "navarch" / place).write_text(text, "utf-8")
    check(root, "--update")
    assert check(root).returncode == 1, "the baseline does not grow again"
    assert message in check(root).stderr
    assert json.loads(baseline.read_text("utf-8"))["long_functions"] == []
