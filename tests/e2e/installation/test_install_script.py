"""The install script of a release: what it refuses, what it installs, and what it leaves alone."""

import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from tests.support.distribution import (
    CONSTRAINTS,
    PROJECT,
    NoPackagesError,
    build_release,
    builder_missing,
    download_locked,
)

from navarch.core.version import VERSION

pytestmark = pytest.mark.skipif(builder_missing() is not None, reason=str(builder_missing()))

BASH = b"#!/usr/bin/env bash"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_release(tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    try:
        download_locked("agent", folder)
    except NoPackagesError as error:
        pytest.skip(f"the packages cannot be had: {error}")
    return folder


def install(
    release: Path, prefix: Path, *words: str, packages: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    # Without `packages` there is no index: what needs one fails.
    index = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(packages or release)}
    script = [str(release / "install.sh"), "--prefix", str(prefix), "--from", str(release), *words]
    return subprocess.run(
        script,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **index},
    )


def test_shellcheck_accepts_every_script() -> None:
    scripts = [
        path
        for folder in ("deploy", "scripts", "src/navarch/app")
        for path in sorted((PROJECT / folder).rglob("*"))
        if path.is_file() and (path.suffix == ".sh" or path.read_bytes().startswith(BASH))
    ]
    assert PROJECT / "deploy/install.sh" in scripts
    assert PROJECT / "scripts/install-components" in scripts
    shellcheck = [str(Path(sys.executable).parent / "shellcheck"), "--shell=bash"]
    ran = subprocess.run([*shellcheck, *scripts], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout


def test_a_release_installs_the_versions_that_were_tested() -> None:
    """Run scripts/lock-packages after a change of constraints.txt."""
    pin = re.compile(r"^([a-z0-9-]+)==([^\s\\]+)", re.MULTILINE)
    name_of = re.compile(r"[\w.-]+")
    tested = dict(pin.findall(re.sub(r"_", "-", CONSTRAINTS.read_text()).lower()))
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    every = tuple(x for x in project["optional-dependencies"] if x != "dev")
    control_plane = ("server", "cli", "aws", "gcp", "ssh")
    for role, extras in (("agent", ()), ("control-plane", control_plane), ("all", every)):
        listed = dict(pin.findall((PROJECT / f"deploy/packages/{role}.txt").read_text()))
        assert {name: tested.get(name) for name in listed} == listed
        wanted = list(project["dependencies"])
        wanted += [each for extra in extras for each in project["optional-dependencies"][extra]]
        assert {name[0] for each in wanted if (name := name_of.match(each))} <= listed.keys()


def test_a_release_lists_its_packages_as_cyclonedx(release: Path) -> None:
    document = json.loads((release / "sbom.cdx.json").read_text())
    (wheel,) = release.glob("*.whl")
    own = document["metadata"]["component"]
    assert own["hashes"][0]["content"] == hashlib.sha256(wheel.read_bytes()).hexdigest()
    listed = {f"{x['name']}=={x['version']}" for x in document["components"]}
    for role in ("agent", "control-plane", "all"):
        text = (release / f"{role}.txt").read_text()
        assert set(re.findall(r"^\S+==\S+", text, re.MULTILINE)) <= listed


def test_every_form_of_installation_has_the_version_of_the_program() -> None:
    deploy = PROJECT / "deploy"
    assert f"\nVERSION={VERSION}\n" in (deploy / "install.sh").read_text()
    chart = yaml.safe_load((deploy / "helm/navarch/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (VERSION, VERSION)
    manifests = [file.read_text() for file in (deploy / "kubernetes").glob("*.yaml")]
    images = re.findall(r"image: \"?(\S+?)\"?$", "".join(manifests), re.MULTILINE)
    assert sorted(images) == [f"navarch-agent:{VERSION}", f"navarch:{VERSION}"]


@pytest.mark.parametrize("words", [(), ("agent", "--prefix", "opt"), ("all",), ("--from",)])
def test_a_wrong_call_shows_the_usage(release: Path, tmp_path: Path, words: list[str]) -> None:
    ran = install(release, tmp_path / "navarch", *words)
    assert ran.returncode == 2
    assert "usage: install.sh" in ran.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("file", [f"navarch-{VERSION}-py3-none-any.whl", "agent.txt"])
def test_a_file_with_another_hash_is_refused_before_anything_changes(
    release: Path, tmp_path: Path, file: str
) -> None:
    tampered = tmp_path / "release"
    tampered.mkdir()
    for path in release.iterdir():
        (tampered / path.name).write_bytes(path.read_bytes())
    (tampered / "install.sh").chmod(0o755)
    (tampered / file).write_bytes((release / file).read_bytes() + b"#")
    ran = install(tampered, tmp_path / "navarch", "agent")
    assert ran.returncode == 1
    assert f"{file} in {tampered} is not the file of release {VERSION}" in ran.stderr
    assert list(tmp_path.iterdir()) == [tampered]


def test_the_script_of_the_source_tree_states_that_it_has_no_hashes(tmp_path: Path) -> None:
    ran = install(PROJECT / "deploy", tmp_path / "navarch", "agent")
    assert ran.returncode == 1
    assert "scripts/build-release" in ran.stderr


def test_a_python_that_is_too_old_is_refused_with_the_remedy(release: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    ran = install(release, tmp_path / "navarch", "agent", "--python", str(old))
    assert ran.returncode == 1
    assert "Python 3.11 or newer with venv is required" in ran.stderr
    assert "--python" in ran.stderr


def test_a_folder_that_the_script_did_not_make_is_left_alone(release: Path, tmp_path: Path) -> None:
    folder = tmp_path / "navarch"
    (folder / "mine").mkdir(parents=True)
    for words in (["agent"], ["--uninstall"]):
        ran = install(release, folder, *words)
        assert ran.returncode == 1
        assert "is not an installation of this script" in ran.stderr
    assert (folder / "mine").is_dir()


@pytest.mark.long
def test_an_agent_is_installed_once_and_removed_without_a_trace(
    release: Path, packages: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "opt/navarch"
    for said in ("installing", "is installed"):
        ran = install(release, prefix, "agent", packages=packages)
        assert ran.returncode == 0, ran.stderr
        assert said in ran.stderr
        version = subprocess.run(
            [prefix / "bin/navarch", "--version"], capture_output=True, text=True, check=True
        )
        assert version.stdout.strip() == f"navarch version {VERSION}"
    (tmp_path / "opt/navarch-data").mkdir()
    assert install(release, prefix, "--uninstall").returncode == 0
    assert [each.name for each in prefix.parent.iterdir()] == ["navarch-data"]


@pytest.mark.long
def test_an_upgrade_that_fails_leaves_the_old_version_in_place(
    release: Path, packages: Path, tmp_path: Path
) -> None:
    prefix = tmp_path / "navarch"
    assert install(release, prefix, "agent", packages=packages).returncode == 0
    before = prefix.readlink()
    newer = tmp_path / "newer"
    newer.mkdir()
    for path in release.iterdir():
        (newer / path.name).write_bytes(path.read_bytes())
    script = (release / "install.sh").read_text()
    (newer / "install.sh").write_text(script.replace("HASHES='", "HASHES='\n"))
    (newer / "install.sh").chmod(0o755)

    failed = install(newer, prefix, "agent")
    assert failed.returncode != 0
    assert prefix.readlink() == before
    subprocess.run([prefix / "bin/navarch", "--version"], check=True, capture_output=True)

    done = install(newer, prefix, "agent", packages=packages)
    assert done.returncode == 0, done.stderr
    assert prefix.readlink() != before
    assert before.is_dir(), "processes that still run may load modules of it"
