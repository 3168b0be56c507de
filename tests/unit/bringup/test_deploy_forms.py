"""The files for machines are valid: user data, systemd unit, DaemonSet, image scripts."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

import click
import hcl2
import kubernetes_validate
import pytest
import yaml

import navarch.app
from navarch.app.agent_bundle import build_bundle
from navarch.app.bringup import (
    AgentEnvironment,
    install_bundle,
    install_by_command,
    render_user_data,
)
from navarch.cli.agent import agent
from navarch.config import load_config
from navarch.core.ids import NodeId, Token
from navarch.core.ownership import Cluster, join_token
from navarch.core.records import evolve
from navarch.testing.provider_contract import ProviderContract

DEPLOY = Path(__file__).parents[3] / "deploy"
UNIT = files("navarch.app").joinpath("navarch-agent.service").read_text("utf-8")
CLUSTER = Cluster(id="c-1", secret=b"secret")


def agent_environment() -> Mapping[str, str]:
    guide = AgentEnvironment(
        control_plane=lambda _: "http://10.0.0.1:50051",
        join_token=lambda node, launch: join_token(CLUSTER, node, launch),
    )
    request = ProviderContract().request()
    labels = {**request.labels, "navarch-pool": 'tricky "pool" $(id) `id` \\'}

    return guide.variables(evolve(request, labels=labels), "aws")


def test_user_data_installs_and_starts_the_agent_with_its_join_token(tmp_path: Path) -> None:
    """The script runs in its own root folder, with stand-ins for pip and systemd."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    for folder in (root / "etc/systemd/system", root / "opt", tools):
        folder.mkdir(parents=True)
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/systemctl.log\n')
    (tools / "systemctl").chmod(0o755)
    agent_file = root / "opt/navarch/bin/navarch"
    install = f"mkdir -p {agent_file.parent} && touch {agent_file} && chmod +x {agent_file}"
    script = render_user_data(agent_environment(), install_by_command(install))
    script = re.sub(r"(?<![\w/])/(etc|opt)/", rf"{root}/\1/", script)
    for _ in range(2):
        subprocess.run(
            ["sh", "-c", script],
            check=True,
            env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
        )
    secret = root / "etc/navarch/join-token"
    node, launch = NodeId("training-0"), Token("t-1")
    assert secret.read_text() == join_token(CLUSTER, node, launch) + "\n"
    assert secret.stat().st_mode & 0o077 == 0
    environment = (root / "etc/navarch/agent.env").read_text()
    assert 'NAVARCH_SERVER="http://10.0.0.1:50051"' in environment
    assert 'NAVARCH_POOL="tricky \\"pool\\" \\$(id) \\`id\\` \\\\"' in environment
    assert "nvj1." not in environment
    assert (root / "etc/systemd/system/navarch-agent.service").read_text() == UNIT
    assert (tmp_path / "systemctl.log").read_text().splitlines()[:2] == [
        "daemon-reload",
        "enable --now navarch-agent.service",
    ]


def boot(
    tmp_path: Path, install: str, *, shell: str = "bash"
) -> "subprocess.CompletedProcess[str]":
    """Run user data with an install command in its own root folder, without systemd."""
    root, tools = tmp_path / "root", tmp_path / "tools"
    for folder in (root / "etc/systemd/system", root / "opt/navarch/bin", tools):
        folder.mkdir(parents=True, exist_ok=True)
    (tools / "systemctl").write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/calls.log\n')
    (tools / "systemctl").chmod(0o755)
    text = render_user_data(agent_environment(), install_by_command(install))
    text = re.sub(r"(?<![\w/])/(etc|opt)/", rf"{root}/\1/", text)
    return subprocess.run(
        [shell, "-c", text],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )


in_each_shell = pytest.mark.parametrize("shell", ["bash", "sh"])


@in_each_shell
@pytest.mark.parametrize(
    ("command", "code", "what"),
    [
        pytest.param("echo 'no such version' >&2; exit 7", 7, "exit code 7", id="fails"),
        pytest.param("true", 1, "opt/navarch/bin/navarch is missing", id="does nothing"),
    ],
)
def test_a_boot_script_that_cannot_install_the_agent_fails_with_a_remedy(
    tmp_path: Path, command: str, code: int, what: str, shell: str
) -> None:
    ran = boot(tmp_path, command, shell=shell)
    assert ran.returncode == code
    problem, remedy = ran.stderr.splitlines()[-2:]
    assert problem.startswith("navarch: the agent is not installed: ")
    assert what in problem
    assert "agent_install_command" in remedy
    assert not (tmp_path / "calls.log").exists()


def test_a_boot_script_stops_at_the_first_line_of_a_custom_command_that_fails(
    tmp_path: Path,
) -> None:
    ran = boot(tmp_path, "sh -c 'exit 4'\nsystemctl start 'a-secret'")
    assert ran.returncode == 4
    assert "the agent is not installed: the install command ended with exit code 4" in ran.stderr
    assert "a-secret" not in ran.stderr, "a command may hold the password of a package index"
    assert not (tmp_path / "calls.log").exists()


def test_a_boot_script_does_not_install_an_agent_that_the_image_contains(tmp_path: Path) -> None:
    carried = tmp_path / "root/opt/navarch/bin/navarch"
    carried.parent.mkdir(parents=True)
    carried.touch(mode=0o755)
    ran = boot(tmp_path, "exit 1")
    assert ran.returncode == 0, ran.stderr
    assert len((tmp_path / "calls.log").read_text().splitlines()) == 2


def served_user_data() -> str:
    install = install_bundle(build_bundle(), "http://10.0.0.1:50051")
    return render_user_data(agent_environment(), install)


def test_user_data_is_the_same_for_each_attempt_of_a_launch() -> None:
    assert served_user_data() == served_user_data()


def test_user_data_fits_the_smallest_limit_of_all_clouds() -> None:
    assert len(served_user_data().encode()) < 12_000, "AWS takes 16 kB"


def test_the_agent_reads_every_variable_that_machines_receive() -> None:
    read = {
        name
        for option in agent.params
        if isinstance(option, click.Option) and option.envvar
        for name in ([option.envvar] if isinstance(option.envvar, str) else option.envvar)
    }
    written = {*agent_environment(), "NAVARCH_JOIN_TOKEN_FILE", "NAVARCH_DEAD_MAN_LEASE"} - {
        "NAVARCH_JOIN_TOKEN"
    }
    assert written <= read
    manifest = yaml.safe_load((DEPLOY / "kubernetes/agent-daemonset.yaml").read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    # The agent reads this one without an option, so that it is in no list of processes.
    assert {each["name"] for each in container["env"]} <= {*read, "NAVARCH_JOIN_TOKEN"}


def test_the_image_script_is_a_script() -> None:
    script = DEPLOY / "packer/install-agent.sh"
    subprocess.run(["sh", "-n", str(script)], check=True)
    assert os.access(script, os.X_OK)


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_image_templates_are_complete_and_run_the_script(cloud: str) -> None:
    text = (DEPLOY / f"packer/{cloud}.pkr.hcl").read_text()
    found = hcl2.loads(text)
    declared = {name.strip('"') for each in found["variable"] for name in each}
    assert set(re.findall(r"var\.(\w+)", text)) == declared
    (source,) = [f"source.{kind}.{name}" for each in found["source"] for kind, name in _two(each)]
    (build,) = found["build"]
    assert [word.strip('"') for word in build["sources"]] == [source]
    (provisioner,) = build["provisioner"]
    ((kind, shell),) = provisioner.items()
    assert kind.strip('"') == "shell"
    script = shell["script"].strip('"').replace("${path.root}", str(DEPLOY / "packer"))
    assert Path(script).exists()


def _two(source: Mapping[str, Mapping[str, object]]) -> list[tuple[str, str]]:
    return [(kind.strip('"'), name.strip('"')) for kind, named in source.items() for name in named]


NEWER = (
    re.compile(r"^packer \{\n.*?^\}\n", re.DOTALL | re.MULTILINE),
    re.compile(r"^  metadata_options \{\n.*?^  \}\n", re.DOTALL | re.MULTILINE),
    re.compile(r"^  imds_support.*\n", re.MULTILINE),
)
"""Fields that the last free release of Packer, which distributions ship, does not support:
separate plugins, and newer fields of the Amazon plugin."""


@pytest.mark.skipif(shutil.which("packer") is None, reason="packer is not installed")
@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_packer_accepts_the_image_templates(cloud: str, tmp_path: Path) -> None:
    text = (DEPLOY / f"packer/{cloud}.pkr.hcl").read_text()
    output = subprocess.run(
        ["packer", "version"], capture_output=True, text=True, check=True
    ).stdout
    if re.search(r"v1\.[0-6]\.", output):
        for newer in NEWER:
            text, cuts = newer.subn("", text)
            assert cuts == 1 or cloud == "gcp"
    template = tmp_path / f"{cloud}.pkr.hcl"
    template.write_text(text)
    shutil.copy(DEPLOY / "packer/install-agent.sh", tmp_path)
    variables = ["-var", "project=example"] if cloud == "gcp" else []
    checked = subprocess.run(
        ["packer", "validate", *variables, str(template)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "CHECKPOINT_DISABLE": "1", "PACKER_CONFIG_DIR": str(tmp_path)},
    )
    if "packer init" in checked.stdout:
        pytest.skip("packer has no plugin for this cloud here; `packer init` fetches it")
    assert checked.returncode == 0, checked.stdout + checked.stderr


MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))


@pytest.mark.parametrize("version", ["1.28", "1.32", "1.36"])
@pytest.mark.parametrize("file", MANIFESTS, ids=lambda file: file.stem)
def test_the_manifests_are_valid_without_unknown_fields(file: Path, version: str) -> None:
    *_, last = manifests = list(yaml.safe_load_all(file.read_text()))
    for manifest in manifests:
        kubernetes_validate.validate(manifest, version, strict=True)
    last["spec"]["template"]["spec"]["hostPid"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(last, version, strict=True)


def test_the_control_plane_of_the_manifests_accepts_its_configuration(tmp_path: Path) -> None:
    found = yaml.safe_load_all((DEPLOY / "kubernetes/control-plane.yaml").read_text())
    objects = {each["kind"]: each for each in found}
    config = tmp_path / "navarch.yaml"
    config.write_text(objects["ConfigMap"]["data"]["navarch.yaml"])
    load_config(config, environment={"NAVARCH_AUTH_TOKEN": "t" * 16})
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_a_machine_that_may_start_in_several_zones_is_not_given_one() -> None:
    request = ProviderContract().request()
    one, several = (
        AgentEnvironment().variables(evolve(request, zones=zones), "gcp")
        for zones in ((), ("zone-2",))
    )
    assert one["NAVARCH_ZONE"] == request.zone
    assert "NAVARCH_ZONE" not in several


def test_no_shipped_form_gives_the_operators_token_to_an_agent() -> None:
    """Root on one machine would control the whole fleet with it."""
    deploy = Path(__file__).parents[3] / "deploy"
    package = Path(navarch.app.__file__).parent
    forms = [path for path in (*deploy.rglob("*"), *package.glob("*agent*")) if path.is_file()]
    agents = [path for path in forms if "agent" in path.name and path.suffix != ".py"]
    assert {"agent.yaml", "agent-daemonset.yaml", "agent.Dockerfile"} <= {x.name for x in agents}
    for path in agents:
        assert "AUTH_TOKEN" not in path.read_text(), path
