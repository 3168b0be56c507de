"""The packages of a release: all of them listed, licensed and audited, and no others."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[2]
FILES = (
    "constraints.txt",
    "pyproject.toml",
    "deploy/packages/all.txt",
    "scripts/packages.toml",
)
TODAY = "2026-11-20"
ALL = (PROJECT / "deploy/packages/all.txt").read_text().count("==")
Ran = subprocess.CompletedProcess[str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of what states the packages."""
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(PROJECT / file, tmp_path / file)
    return tmp_path


def run(script: str, tree: Path, *words: str) -> Ran:
    command = [sys.executable, str(PROJECT / "scripts" / script), "--root", str(tree), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def change(file: Path, edit: Callable[[str], str]) -> None:
    before = file.read_text()
    after = edit(before)
    assert after != before
    file.write_text(after)


def write_sbom(tree: Path, *words: str) -> dict[str, Any]:
    file = tree / "sbom.json"
    ran = run("sbom", tree, "--write", str(file), *words)
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(file.read_text())
    return document


def test_the_document_lists_every_locked_package_with_hashes_licence_and_purl(tree: Path) -> None:
    document = write_sbom(tree)
    lock = (tree / "deploy/packages/all.txt").read_text()
    locked = re.findall(r"^([a-z0-9-]+)==(\S+)", lock, re.MULTILINE)
    assert [(x["name"], x["version"]) for x in document["components"]] == locked
    hashes = [
        each["content"]
        for x in document["components"]
        for each in x["externalReferences"][0]["hashes"]
    ]
    assert hashes == re.findall(r"sha256:([0-9a-f]{64})", lock)
    for each in document["components"]:
        assert each["purl"] == f"pkg:pypi/{each['name']}@{each['version']}"
        assert each["licenses"][0]["expression"]


def test_the_document_states_what_needs_what(tree: Path) -> None:
    document = write_sbom(tree)
    needs = {x["ref"].split("@")[0]: x["dependsOn"] for x in document["dependencies"]}
    assert any(x.startswith("pkg:pypi/psycopg@") for x in needs["pkg:pypi/navarch"])
    assert any(x.startswith("pkg:pypi/psycopg-binary@") for x in needs["pkg:pypi/psycopg"])
    assert not any("pytest" in x for each in needs.values() for x in each), "developers only"


def test_the_document_names_the_wheel_and_is_the_same_for_the_same_tree(tree: Path) -> None:
    wheel = tree / "navarch-0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    first = write_sbom(tree, "--wheel", str(wheel))
    own = first["metadata"]["component"]
    assert own["hashes"][0]["content"] == hashlib.sha256(b"wheel").hexdigest()
    assert write_sbom(tree, "--wheel", str(wheel)) == first
    assert write_sbom(tree)["serialNumber"] != first["serialNumber"]


def drop(name: str) -> Callable[[str], str]:
    """Return what removes a package from a lock."""
    pattern = rf"^{name}==.*\n(?:    --hash.*\n)*"
    return lambda text: re.sub(pattern, "", text, flags=re.MULTILINE)


BREAKS: Mapping[str, tuple[str, Callable[[str], str], str]] = {
    "a package that is needed is not locked": (
        "deploy/packages/all.txt",
        drop("typing-extensions"),
        "typing-extensions is needed by",
    ),
    "a package is locked that nothing needs": (
        "deploy/packages/all.txt",
        lambda text: text + f"left-pad==1.0 \\\n    --hash=sha256:{'0' * 64}\n",
        "left-pad is locked and nothing needs it",
    ),
    "the locked version is not the tested one": (
        "constraints.txt",
        lambda text: re.sub(r"^click==.*$", "click==1.0", text, flags=re.MULTILINE),
        "click is locked as",
    ),
    "a package has no hash": (
        "deploy/packages/all.txt",
        lambda text: re.sub(r"^(click==\S+) \\\n    --hash.*$", r"\1", text, flags=re.MULTILINE),
        "click is locked without a hash",
    ),
    "an extra needs another package": (
        "pyproject.toml",
        lambda text: text.replace('ssh = ["asyncssh', 'ssh = ["pytest", "asyncssh'),
        "pytest is needed by navarch and not locked",
    ),
    "a licence is not allowed": (
        "scripts/packages.toml",
        lambda text: text.replace('"0BSD", ', "").replace('"CC0-1.0", ', ""),
        "numpy: its licence",
    ),
    "a copyleft licence is no longer accepted": (
        "scripts/packages.toml",
        lambda text: text.replace("[accepted.psycopg]", "[accepted.other]"),
        "psycopg: its licence LGPL-3.0-only is not among those allowed",
    ),
    "a licence is unknown": (
        "scripts/packages.toml",
        lambda text: text.replace('"3-Clause BSD License"', '"another"'),
        "protobuf: its metadata has no known licence",
    ),
    "the document is not valid": (
        "pyproject.toml",
        lambda text: text.replace('license = "Apache-2.0"', "license = 7"),
        "not valid CycloneDX 1.6",
    ),
}


@pytest.mark.parametrize("case", BREAKS)
def test_the_check_fails_if(case: str, tree: Path) -> None:
    file, edit, message = BREAKS[case]
    change(tree / file, edit)
    ran = run("sbom", tree, "--check")
    assert ran.returncode == 1, ran.stdout
    assert message in ran.stderr


class Index:
    """An index with the JSON API of PyPI, as https://docs.pypi.org/api/json/ describes it."""

    def __init__(self) -> None:
        self.vulnerable: dict[str, list[dict[str, Any]]] = {}
        self.missing: set[str] = set()
        self.broken = False
        self.url = ""

    def add(self, package: str, name: str, **more: object) -> None:
        entry = {
            "id": name,
            "aliases": ["CVE-2026-1"],
            "details": "details",
            "summary": "a \x1b[31mred\nsummary",
            "fixed_in": ["99.0"],
            "link": "https://osv.dev/vulnerability/" + name,
            "source": "osv",
            "withdrawn": None,
        }
        self.vulnerable.setdefault(package, []).append({**entry, **more})

    @contextmanager
    def serve(self) -> Iterator[None]:
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                name = self.path.split("/")[2]
                if name in index.missing:
                    self.send_error(404)
                    return
                body: Any = {"info": {"name": name}, "vulnerabilities": []}
                body["vulnerabilities"] = index.vulnerable.get(name, [])
                data = b"<html>" if index.broken else json.dumps(body).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_address[1]}/pypi"
        try:
            yield
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


@pytest.fixture
def index() -> Iterator[Index]:
    found = Index()
    with found.serve():
        yield found


def audit(tree: Path, url: str, *words: str, today: str = TODAY) -> Ran:
    return run("audit-packages", tree, "--index", url, "--today", today, *words)


def accept(tree: Path, name: str, *, package: str = "click", **more: str) -> None:
    fields = {"reason": '"not called"', "until": "2026-12-31", **more}
    entry = "".join(f"{key} = {value}\n" for key, value in fields.items())
    text = f'\n[[vulnerabilities]]\nid = "{name}"\npackage = "{package}"\n{entry}'
    change(tree / "scripts/packages.toml", lambda before: before + text)


def test_packages_without_a_known_vulnerability_pass(tree: Path, index: Index) -> None:
    ran = audit(tree, index.url)
    assert ran.returncode == 0, ran.stderr
    assert f"{ALL} of {ALL} packages audited, 0 vulnerabilities" in ran.stdout


def test_a_known_vulnerability_fails_with_the_version_that_corrects_it(
    tree: Path, index: Index
) -> None:
    index.add("click", "GHSA-1")
    ran = audit(tree, index.url)
    assert ran.returncode == 1
    assert "GHSA-1 (CVE-2026-1): a [31mred summary; fixed in 99.0" in ran.stderr
    assert "\x1b" not in ran.stderr


def test_a_vulnerability_that_was_withdrawn_does_not_count(tree: Path, index: Index) -> None:
    index.add("click", "GHSA-1", withdrawn="2026-01-01T00:00:00Z")
    assert audit(tree, index.url).returncode == 0


@pytest.mark.parametrize("name", ["GHSA-1", "CVE-2026-1"])
def test_an_accepted_vulnerability_passes_until_its_date(
    name: str, tree: Path, index: Index
) -> None:
    index.add("click", "GHSA-1")
    accept(tree, name)
    assert audit(tree, index.url, today="2026-12-31").returncode == 0
    late = audit(tree, index.url, today="2027-01-01")
    assert late.returncode == 1
    assert "was accepted until 2026-12-31: decide again" in late.stderr


def test_a_vulnerability_is_accepted_for_one_package_only(tree: Path, index: Index) -> None:
    index.add("click", "GHSA-1")
    accept(tree, "GHSA-1", package="rich")
    assert audit(tree, index.url).returncode == 1


def test_an_acceptance_needs_a_reason_and_ends_with_its_vulnerability(
    tree: Path, index: Index
) -> None:
    index.add("click", "GHSA-1")
    accept(tree, "GHSA-1", reason='" "')
    assert "accepted without a reason" in audit(tree, index.url).stderr
    index.vulnerable.clear()
    assert "not known any more: remove it" in audit(tree, index.url).stderr


def test_without_an_answer_nothing_is_audited_and_nothing_fails(tree: Path, index: Index) -> None:
    accept(tree, "GHSA-1")
    away = audit(tree, "http://127.0.0.1:1/pypi")
    index.broken = True
    broken = audit(tree, index.url)
    for ran in (away, broken):
        assert ran.returncode == 0, ran.stderr
        assert "not audited: no answer from" in ran.stdout
        assert "no audit is on record" in ran.stdout
        assert "packages audited" not in ran.stdout


def test_a_package_that_the_index_lacks_is_named_and_fails_nothing(
    tree: Path, index: Index
) -> None:
    index.missing.add("click")
    ran = audit(tree, index.url)
    assert ran.returncode == 0
    assert "not audited: click: HTTP Error 404" in ran.stdout
    assert f"{ALL - 1} of {ALL} packages audited" in ran.stdout


def test_without_an_answer_the_record_counts_for_the_versions_that_it_names(
    tree: Path, index: Index
) -> None:
    index.add("click", "GHSA-1")
    assert audit(tree, index.url, "--record").returncode == 1
    away = audit(tree, "http://127.0.0.1:1/pypi", today="2026-12-24")
    assert away.returncode == 1
    assert f"on record of {TODAY}: {ALL} of {ALL} packages" in away.stdout
    assert "GHSA-1" in away.stderr
    lock = tree / "deploy/packages/all.txt"
    change(lock, lambda text: re.sub(r"^click==\S+", "click==99.0", text, flags=re.MULTILINE))
    corrected = audit(tree, "http://127.0.0.1:1/pypi", today="2026-12-24")
    assert corrected.returncode == 0, corrected.stderr
    assert f"{ALL - 1} of {ALL} packages in these versions" in corrected.stdout
