"""The DaemonSet at a real API server, with the real controllers and kubelets that start nothing.

NAVARCH_KUBE_BIN names the folder of the programs of Kubernetes: kube-apiserver, kube-scheduler,
kube-controller-manager and kubemark, of any release from 1.20 on; etcd and kubectl are on the path.
"""

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
MANIFEST = ROOT / "deploy/kubernetes/agent-daemonset.yaml"
SCRIPTS = ROOT.parent / "shared/components/k8s"
PROGRAMS = ("kube-apiserver", "kube-scheduler", "kube-controller-manager", "kubemark")
PORT = 17443
PATIENCE_S = 120.0


def missing() -> str | None:
    """Return why no cluster can be started here; None if one can."""
    programs = os.environ.get("NAVARCH_KUBE_BIN")
    if programs is None:
        return "NAVARCH_KUBE_BIN does not say where the programs of Kubernetes are"
    lacking = [name for name in PROGRAMS if not Path(programs, name).exists()]
    lacking += [name for name in ("etcd", "kubectl", "openssl") if shutil.which(name) is None]
    if lacking:
        return f"there is no {', '.join(lacking)} here"
    return None if (SCRIPTS / "k8s_up.sh").exists() else f"{SCRIPTS} is not here"


@contextmanager
def a_cluster() -> Iterator[Callable[..., str]]:
    """Run a cluster of two nodes; yields kubectl."""
    # The kubelets have their own /tmp, so none of their files may be in /tmp.
    folder = tempfile.mkdtemp(prefix="navarch-kube-", dir="/var/tmp")
    up = [str(SCRIPTS / "k8s_up.sh"), folder, os.environ["NAVARCH_KUBE_BIN"], "2", str(PORT)]
    config = Path(folder) / "admin.kubeconfig"

    def kubectl(*words: str) -> str:
        asked = ["kubectl", f"--kubeconfig={config}", *words]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, f"{words}: {done.stderr}"
        return done.stdout

    try:
        subprocess.run(["bash", *up], check=True, capture_output=True, timeout=300)
        yield kubectl
    finally:
        subprocess.run(["bash", str(SCRIPTS / "k8s_down.sh"), folder], check=False, timeout=60)
        shutil.rmtree(folder, ignore_errors=True)


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.5)


@pytest.mark.long
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_every_gpu_node_runs_the_agent_even_if_it_is_not_ready() -> None:
    with a_cluster() as kubectl:
        kubectl("label", "node", "gpu1", "nvidia.com/gpu.present=true")
        kubectl("create", "namespace", "navarch")
        secret = ("create", "secret", "generic", "navarch-token", "--from-literal=token=t")
        kubectl("--namespace=navarch", *secret)
        for file in MANIFEST.parent.glob("*.yaml"):
            kubectl("apply", "--dry-run=server", "-f", str(file))
        kubectl("apply", "-f", str(MANIFEST))

        def pods() -> list[dict[str, Any]]:
            output = kubectl("--namespace=navarch", "get", "pods", "--output=json")
            found: list[dict[str, Any]] = json.loads(output)["items"]
            return found

        def where() -> set[str]:
            # The pods are created but cannot run: these kubelets have no /dev/kmsg.
            return {pod["spec"].get("nodeName", "") for pod in pods()}

        until(lambda: where() == {"gpu1"})
        before = pods()[0]["metadata"]["uid"]
        kubectl("cordon", "gpu1")
        kubectl("taint", "node", "gpu1", "broken=gpu:NoExecute")
        kubectl("label", "node", "gpu2", "nvidia.com/gpu.present=true")
        until(lambda: where() == {"gpu1", "gpu2"})
        kept = [pod["metadata"] for pod in pods() if pod["spec"]["nodeName"] == "gpu1"]
        assert [(pod["uid"], "deletionTimestamp" in pod) for pod in kept] == [(before, False)]
