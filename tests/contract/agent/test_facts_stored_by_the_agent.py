"""The facts of a check result reach the control plane unchanged, by every route."""

import asyncio
import json
from datetime import UTC, datetime

from tests.support.local_api import build_local_api, call_app

from navarch.agent.spool.disk import MemoryDisk
from navarch.agent.spool.findings import Findings
from navarch.agent.spool.outbox import ReportBuffer
from navarch.core.health import CheckResult, Health
from navarch.core.ids import NodeId

NOW = datetime(2026, 1, 1, tzinfo=UTC)
FACTS = {"code": "95", "gpu": "GPU-0", "pid": "7", "process": "ü", "sources": "kmsg,nvml"}
FOUND = CheckResult(
    check="xid/95/GPU-0",
    health=Health.UNHEALTHY,
    reason="XID 95",
    fatal=True,
    lasting=True,
    action="reset_gpu",
    facts=FACTS,
)


def test_a_spooled_report_keeps_its_facts() -> None:
    disk = MemoryDisk()
    ReportBuffer(disk, new_stream="s").add_report((FOUND,), at=NOW)

    report = ReportBuffer(disk, new_stream="s").oldest_report(NOW)

    assert report is not None
    assert report.results == (FOUND,)


def test_a_finding_repeated_after_a_restart_keeps_its_facts() -> None:
    disk = MemoryDisk()
    Findings(disk, boot_id="b").add([FOUND])

    assert Findings(disk, boot_id="b").results == {FOUND.check: FOUND}


def test_an_event_of_the_go_systems_agent_keeps_its_text_and_its_measurements() -> None:
    local = build_local_api()
    event = {
        "gpuIndex": 3,
        "gpuUuid": "GPU-3",
        "eventType": "HEALTH_EVENT_TYPE_XID",
        "system": "HEALTH_WATCH_SYSTEM_DRIVER",
        "metrics": {"xid_code": "79"},
        "message": "fallen off the bus",
    }

    async def scenario() -> None:
        await local.register("gpu-1")
        body = {"nodeId": "gpu-1", "events": [event]}
        path = "/navarch.ControlPlaneService/ReportHealth"
        assert (
            await call_app(
                local.app, "POST", path, json.dumps(body).encode(), content_type="application/json"
            )
        ).status == 200

    asyncio.run(scenario())

    (condition,) = local.store.fleet().nodes[NodeId("gpu-1")].conditions
    assert condition.action == "reboot_node"
    assert condition.facts["metrics.xid_code"] == "79"
    assert condition.facts["event_type"] == "xid"
    assert condition.facts["system"] == "DCGM_HEALTH_WATCH_DRIVER"
    assert condition.facts["gpu_index"] == "3"
