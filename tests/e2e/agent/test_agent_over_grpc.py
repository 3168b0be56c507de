"""The agent's program over gRPC."""

import asyncio
import sys
from pathlib import Path

from tests.support.local_api import build_local_api, serve_local_api

from navarch.core.ids import NodeId
from navarch.core.node import NodeStatus


def test_an_agent_with_a_grpc_address_registers_and_reports(tmp_path: Path) -> None:
    async def main() -> None:
        async with serve_local_api(build_local_api(token="secret"), http=False) as local:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "navarch.cli", "agent", "--server", local.grpc_url),
                *("--node-id", "gpu-7", "--simulated-gpus", "8", "--auth-token", "secret"),
                *("--state-dir", str(tmp_path)),
            )
            try:
                async with asyncio.timeout(60):
                    while NodeId("gpu-7") not in local.store.fleet().nodes:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                    while not local.store.fleet().nodes[NodeId("gpu-7")].report_number:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                detail = await local.fleet.get_node(NodeId("gpu-7"))
                assert detail.node.status is NodeStatus.ACTIVE
                assert detail.node.gpus == 8
            finally:
                process.terminate()
                await process.wait()

    asyncio.run(main())
