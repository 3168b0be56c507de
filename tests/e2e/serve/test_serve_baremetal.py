"""A bare-metal rack, end to end: real sshd, real agent, a join token for one machine."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.ssh_machines import SshMachine, real_sshd, sshd_missing

from navarch import ControlPlane
from navarch.app.server import Running
from navarch.client.connect import connect_fleet
from navarch.config import parse_config
from navarch.core.ids import NodeId, PoolName
from navarch.core.node import Phase
from navarch.ports.shell import BringUpApi

CONFIG = """
server:
  address: 127.0.0.1:0
  grpc_address: 127.0.0.1:0
  auth_token: the-operators-token
  heartbeat_interval: 1s
providers:
  rack:
    type: baremetal
    ssh_private_key_path: {key}
    claim_file: claim
    clean_up_commands: ["kill $(cat pid); rm -rf state"]
    hosts:
      - name: rack1-1
        address: {address}
        ssh_port: {port}
        instance_type: h100-8x
        host_key: {host_key}
pools:
  training:
    provider: rack
    instance_type: h100-8x
    min_nodes: 1
    max_nodes: 1
    ssh_private_key_path: {key}
    setup_commands:
      - echo setting up {{{{.NodeID}}}}
      - >-
        NAVARCH_JOIN_TOKEN={{{{.JoinToken}}}} {python} -m navarch.cli agent
        --server {{{{.ControlPlane}}}} --node-id {{{{.NodeID}}}} --simulated-gpus 8
        --state-dir state --metadata none > agent.log 2>&1 & echo $! > pid
"""


async def until(holds: Callable[[], bool], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - another process is waited for
            await asyncio.sleep(0.05)


def config_for(machine: SshMachine, folder: Path) -> str:
    login = machine.login
    return CONFIG.format(
        key=login.key_file,
        address=login.address,
        port=login.port,
        host_key=login.host_key,
        python=sys.executable,
        folder=folder,
    )


@pytest.mark.skipif(sshd_missing() is not None, reason=str(sshd_missing()))
def test_a_machine_is_leased_set_up_joined_and_returned(tmp_path: Path) -> None:
    async def story(machine: SshMachine) -> None:
        config = parse_config(config_for(machine, tmp_path), source=str(tmp_path / "navarch.yaml"))
        plane = ControlPlane(config=config, data_dir=tmp_path / "data")
        running: asyncio.Future[Running] = asyncio.get_running_loop().create_future()
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(plane.run(running.set_result))
            up = await running
            store, name = up.plane.store, NodeId("training-0")
            await until(lambda: name in store.fleet().nodes)
            await until(lambda: store.fleet().nodes[name].phase is Phase.READY)
            node = store.fleet().nodes[name]
            assert node.machine, "it joined with its token"
            assert node.gpus == 8
            assert (machine.folder / "claim").read_text().endswith(f" {node.launch.token}\n")  # type: ignore[union-attr]
            api = connect_fleet(f"http://{up.http}", token="the-operators-token")
            assert isinstance(api, BringUpApi)
            (log,) = await api.list_bringups(name)
            await api.close()
            assert log.succeeded
            assert log.commands[0].stdout == "setting up training-0\n"
            assert "nvj1." not in repr(log)
            await up.plane.fleet.delete_pool(PoolName("training"), reason="the test is over")
            await until(lambda: store.fleet().nodes[name].gone)
            assert not (machine.folder / "claim").exists()
            assert not (machine.folder / "state").exists()
            pid = int((machine.folder / "pid").read_text())
            await until(lambda: not alive(pid))
            life.cancel()

    with real_sshd(tmp_path / "ssh", 1) as (machine,):
        asyncio.run(story(machine))


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().split()[2] != "Z"
