"""The Helm chart, judged by Helm itself, and its renderings, judged by Kubernetes' schemas."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parents[3]
CHART = ROOT / "deploy/helm/navarch"
GO_PROGRAMS = os.environ.get("GOBIN", str(Path.home() / "go/bin"))
HELM = shutil.which("helm", path=os.pathsep.join([os.environ["PATH"], GO_PROGRAMS]))
VERSIONS = ("1.28", "1.32", "1.36")

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(HELM is None, reason="helm is not installed"),
]


def helm(*words: str) -> "subprocess.CompletedProcess[str]":
    assert HELM is not None
    return subprocess.run([HELM, *words], capture_output=True, text=True, check=False)


def render(tmp_path: Path, values: str) -> dict[str, Any]:
    """Return the objects that the chart makes of `values`, by kind, all of them valid."""
    file = tmp_path / "values.yaml"
    file.write_text(values)
    ran = helm("template", "gpu", str(CHART), "--namespace=ops", f"--values={file}")
    assert ran.returncode == 0, ran.stderr
    found = list(yaml.safe_load_all(ran.stdout))
    for each in found:
        assert each["metadata"]["namespace"] == "ops"
        for version in VERSIONS:
            kubernetes_validate.validate(each, version, strict=True)
    return {each["kind"]: each for each in found}


def test_helm_accepts_the_chart() -> None:
    ran = helm("lint", "--strict", str(CHART))
    assert ran.returncode == 0, ran.stdout


def test_the_plain_manifests_are_what_the_chart_renders(tmp_path: Path) -> None:
    """Run scripts/render-manifests after a change of the chart."""
    assert HELM is not None
    path = os.pathsep.join([str(Path(HELM).parent), os.environ["PATH"]])
    script = [str(ROOT / "scripts/render-manifests"), str(tmp_path)]
    subprocess.run(script, check=True, env={**os.environ, "PATH": path})
    for file in tmp_path.iterdir():
        assert file.read_text() == (ROOT / "deploy/kubernetes" / file.name).read_text()


def test_values_reach_the_objects(tmp_path: Path) -> None:
    found = render(
        tmp_path,
        """
        token: {secret: fleet, key: bearer}
        controlPlane:
          image: {repository: r.example.com/navarch, tag: "9"}
          config: {providers: {lambda: {type: lambda}}, pools: {}}
          env: [{name: NAVARCH_EXTERNAL_ADDRESS, value: "https://navarch.example.com"}]
          envFrom: [{secretRef: {name: clouds}}]
          storage: {size: 20Gi, className: fast}
          service: {type: LoadBalancer, annotations: {team: gpu}}
          nodeSelector: {disk: ssd}
          tolerations: [{key: control, operator: Exists}]
        agent: {env: [{name: NAVARCH_POOL, value: training}]}
        """,
    )
    pod = found["StatefulSet"]["spec"]["template"]["spec"]
    (server,) = pod["containers"]
    assert server["image"] == "r.example.com/navarch:9"
    assert [each["name"] for each in server["env"]] == [
        "NAVARCH_AUTH_TOKEN",
        "NAVARCH_AGENT_TOKEN",
        "NAVARCH_EXTERNAL_ADDRESS",
    ]
    assert server["envFrom"] == [{"secretRef": {"name": "clouds"}}]
    assert pod["nodeSelector"] == {"disk": "ssd"}
    (claim,) = found["StatefulSet"]["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["storageClassName"] == "fast"
    assert found["Service"]["spec"]["type"] == "LoadBalancer"
    assert "lambda" in yaml.safe_load(found["ConfigMap"]["data"]["navarch.yaml"])["providers"]
    (agent,) = found["DaemonSet"]["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each.get("value", each.get("valueFrom")) for each in agent["env"]}
    assert given["NAVARCH_SERVER"] == "http://gpu.ops.svc:50051"
    assert given["NAVARCH_JOIN_TOKEN"] == {"secretKeyRef": {"name": "fleet", "key": "agent-token"}}
    assert "NAVARCH_AUTH_TOKEN" not in given
    assert given["NAVARCH_POOL"] == "training"


def test_a_changed_configuration_starts_a_new_pod(tmp_path: Path) -> None:
    def annotations(values: str) -> dict[str, str]:
        spec = render(tmp_path, values)["StatefulSet"]["spec"]["template"]
        found: dict[str, str] = spec["metadata"]["annotations"]
        return found

    other = "controlPlane: {config: {providers: {lambda: {type: lambda}}}}"
    assert annotations("{}") == annotations("{}") != annotations(other)


def test_agents_alone_need_the_url_of_their_control_plane() -> None:
    server = "--set=agent.server=https://navarch.example.com"
    alone = ["template", "gpu", str(CHART), "--set=controlPlane.enabled=false"]
    refused = helm(*alone)
    assert refused.returncode != 0
    assert "agent.server: without controlPlane.enabled" in refused.stderr
    accepted = helm(*alone, server)
    assert [each["kind"] for each in yaml.safe_load_all(accepted.stdout)] == ["DaemonSet"]


@pytest.mark.parametrize(
    "value", ["agent.sever=https://x", "agent.server=navarch.example.com", "agent.enabled=maybe"]
)
def test_an_unknown_or_invalid_value_is_refused_by_name(value: str) -> None:
    ran = helm("template", "gpu", str(CHART), f"--set={value}")
    assert ran.returncode != 0
    assert value.split("=", maxsplit=1)[0].split(".")[1] in ran.stderr
