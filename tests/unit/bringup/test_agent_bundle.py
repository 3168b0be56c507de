"""The agent bundle: the same installation gives the same archive, with accepted wheels only."""

import gzip
import hashlib
import io
import os
import tarfile
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest

from navarch.app import agent_bundle
from navarch.app.agent_bundle import (
    KEPT,
    AgentBundles,
    Pin,
    build_bundle,
    pins,
    supported_abis,
)
from navarch.clock import SystemClock
from navarch.core.errors import InvalidError

OTHER = "cpython-399-riscv64-linux-gnu"


def names(content: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as tar:
        return tar.getnames()


def a_wheel(folder: Path, abi: str = OTHER) -> Pin:
    file = folder / "msgspec-1.whl"
    with zipfile.ZipFile(file, "w") as wheel:
        wheel.writestr(f"msgspec/_core.{abi}.so", "compiled")
    url = "https://example.com/msgspec-1.whl"
    return Pin(hashlib.sha256(file.read_bytes()).hexdigest(), url)


def test_the_same_installation_gives_the_same_bytes() -> None:
    assert build_bundle().content == build_bundle().content


def test_the_bundle_contains_the_agent_its_dependencies_and_no_caches() -> None:
    found = names(build_bundle().content)
    for each in ("navarch/cli/agent.py", "click/__init__.py", "h11/__init__.py"):
        assert f"lib/{each}" in found
    assert any(name.startswith("lib/msgspec/_core.cpython-") for name in found)
    assert not [name for name in found if "__pycache__" in name or ".." in name]


def test_machines_learn_of_the_index_only_if_the_operator_allows_it() -> None:
    assert "wheels.txt" not in names(build_bundle().content)
    assert "wheels.txt" in names(build_bundle(index=True).content)


def test_an_accepted_wheel_becomes_part_of_the_bundle(tmp_path: Path) -> None:
    pin = a_wheel(tmp_path)
    bundle = build_bundle(str(tmp_path), accepted={OTHER: pin})
    assert OTHER in bundle.abis
    assert f"wheels/{OTHER}.whl" in names(bundle.content)


def test_the_wheels_of_a_release_are_part_of_the_bundle_once(tmp_path: Path) -> None:
    released = Path(agent_bundle.__file__).parent / "wheels"
    assert released == agent_bundle.RELEASED
    pin = a_wheel(tmp_path)
    bundle = build_bundle(accepted={OTHER: pin}, released=tmp_path)
    assert OTHER in bundle.abis
    assert f"wheels/{OTHER}.whl" in names(bundle.content)
    with pytest.raises(InvalidError, match="is for cpython-399"):
        build_bundle(released=tmp_path)
    assert not [x for x in names(bundle.content) if x.startswith("lib/navarch/app/wheels/")]


def test_the_agent_starts_on_the_pythons_of_the_server_its_wheels_and_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_bundle, "get_config_var", lambda _: "own")
    nothing = tmp_path / "nothing"
    assert supported_abis(released=nothing) == {"own"}
    assert supported_abis(index=True, released=nothing) == {"own", *pins()}
    pin = a_wheel(tmp_path)
    monkeypatch.setattr(agent_bundle, "pins", lambda: {OTHER: pin})
    assert supported_abis(released=tmp_path) == {"own", OTHER}
    assert supported_abis(str(tmp_path), released=nothing) == {"own", OTHER}


def test_a_server_has_the_pythons_that_are_in_its_bundle(tmp_path: Path) -> None:
    bundles = AgentBundles(SystemClock(), tmp_path)
    assert bundles.abis == set(bundles.current.abis)


def test_a_wheel_with_another_hash_is_refused_with_its_address(tmp_path: Path) -> None:
    a_wheel(tmp_path)
    pin = Pin("0" * 64, "https://example.com/msgspec-1.whl")
    with pytest.raises(InvalidError, match=r"not 0{64}; download it from https://example\.com"):
        build_bundle(str(tmp_path), accepted={OTHER: pin})


def test_a_wheel_for_an_unknown_python_is_refused(tmp_path: Path) -> None:
    a_wheel(tmp_path)
    with pytest.raises(
        InvalidError, match="is for cpython-399-riscv64-linux-gnu; known are cpython"
    ):
        build_bundle(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("other-1.whl", None, "is not a wheel of msgspec for Linux"),
        ("msgspec-1.whl", b"not a zip", "File is not a zip file"),
    ],
)
def test_a_file_that_is_no_such_wheel_is_refused(
    tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    if content is None:
        with zipfile.ZipFile(tmp_path / file, "w") as wheel:
            wheel.writestr("other/__init__.py", "")
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(InvalidError, match=message):
        build_bundle(str(tmp_path))


def test_a_missing_folder_of_wheels_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"server\.agent_wheels: .*missing is not a folder"):
        build_bundle(str(tmp_path / "missing"))


def test_every_pin_is_a_wheel_of_one_version_for_both_architectures() -> None:
    found = pins()
    for python in (311, 312, 313, 314):
        for machine in ("x86_64", "aarch64"):
            pin = found[f"cpython-{python}-{machine}-linux-gnu"]
            assert len(pin.sha256) == 64
            assert f"-cp{python}-" in pin.url
    assert len({pin.url.split("/")[-1].split("-")[1] for pin in found.values()}) == 1


def test_the_bundle_of_an_earlier_version_stays_available_for_a_month(tmp_path: Path) -> None:
    clock = SystemClock()
    ages = {"recent": KEPT - timedelta(hours=1), "old": KEPT + timedelta(hours=1)}
    hashes = {}
    for content, age in ages.items():
        hashes[content] = hashlib.sha256(content.encode()).hexdigest()
        file = tmp_path / hashes[content]
        file.write_text(content)
        at = (clock.now() - age).timestamp()
        os.utime(file, (at, at))
    bundles = AgentBundles(clock, tmp_path)
    assert bundles.get(bundles.current.sha256) == bundles.current.content
    assert bundles.get(hashes["recent"]) == b"recent"
    assert bundles.get(hashes["old"]) is None


@pytest.mark.parametrize("name", ["", "../secret", "%2e%2e/secret", "0" * 64, "A" * 64])
def test_only_bundles_are_served(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret").write_text("secret")
    assert AgentBundles(SystemClock(), tmp_path / "bundles").get(name) is None


def test_a_bundle_that_was_damaged_on_the_disk_is_not_served(tmp_path: Path) -> None:
    bundles = AgentBundles(SystemClock(), tmp_path)
    (tmp_path / bundles.current.sha256).write_bytes(b"damaged")
    assert bundles.get(bundles.current.sha256) is None
