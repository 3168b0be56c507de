"""The Go system's protocol, in its exact JSON and protobuf: methods, errors and statuses."""

import asyncio
import gzip
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from google.protobuf import json_format
from tests.support.local_api import H100, AppResponse, LocalApi, build_local_api, call_app

from navarch.config.policy import parse_policy
from navarch.core.fleet import Change
from navarch.core.health import Health
from navarch.core.ids import InstanceId, NodeId, PoolName, Token
from navarch.core.launch import Launch
from navarch.core.node import Node, Phase
from navarch.core.records import evolve
from navarch.core.recovery import CommandKind, CommandStatus
from navarch.health.policy.engine import compile_policies
from navarch.wire.reference import navarch_pb2 as pb

SERVICE = "/navarch.ControlPlaneService/"
REGISTER = {
    "nodeId": "gpu-node-1",
    "provider": "gcp",
    "region": "us-central1",
    "zone": "us-central1-a",
    "instanceType": "a3-highgpu-8g",
    "gpus": [
        {
            "index": 1,
            "uuid": "GPU-1",
            "name": "NVIDIA H100 80GB HBM3",
            "pciBusId": "0000:1a:00.0",
            "memoryTotal": "85899345920",
        }
    ],
    "metadata": {"hostname": "gpu-node-1", "labels": {"pool": "training"}},
}


def run_story(story: Callable[[LocalApi], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(story(build_local_api()), 20))


async def call(local: LocalApi, method: str, body: dict[str, Any]) -> AppResponse:
    text = json.dumps(body).encode()
    return await call_app(
        local.app, "POST", SERVICE + method, text, content_type="application/json"
    )


async def registered(local: LocalApi) -> None:
    answer = await call(local, "RegisterNode", REGISTER)
    assert answer.status == 200


def test_registering_returns_the_agents_configuration() -> None:
    async def story(local: LocalApi) -> None:
        answer = await call(local, "RegisterNode", REGISTER)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert answer.json == {
            "success": True,
            "message": "registration successful",
            "config": {
                "healthCheckIntervalSeconds": 60,
                "heartbeatIntervalSeconds": 10,
                "enabledHealthChecks": ["boot", "nvml", "xid"],
            },
        }

    run_story(story)


@pytest.mark.parametrize(
    ("method", "body", "status", "code", "message"),
    [
        ("RegisterNode", {}, 400, "invalid_argument", "node_id is required"),
        ("GetNode", {}, 400, "invalid_argument", "node_id is required"),
        ("GetNode", {"nodeId": "x"}, 404, "not_found", "node not found: x"),
        ("SendHeartbeat", {"nodeId": "x"}, 404, "not_found", "node not found: x"),
        ("ReportHealth", {"nodeId": "x"}, 404, "not_found", "node not found: x"),
        ("IssueCommand", {}, 400, "invalid_argument", "node_id is required"),
        ("IssueCommand", {"nodeId": "x"}, 400, "invalid_argument", "command_type is required"),
        (
            "IssueCommand",
            {"nodeId": "x", "commandType": "NODE_COMMAND_TYPE_CORDON"},
            404,
            "not_found",
            "node not found: x",
        ),
        (
            "IssueCommand",
            {"nodeId": "gpu-node-1", "commandType": "NODE_COMMAND_TYPE_UNCORDON"},
            400,
            "failed_precondition",
            "node gpu-node-1 is not cordoned (current status: NODE_STATUS_ACTIVE)",
        ),
        ("GetInstance", {}, 400, "invalid_argument", "instance_id is required"),
        ("GetInstance", {"instanceId": "i"}, 404, "not_found", "instance not found: i"),
    ],
)
def test_refusals_have_the_references_code_text_and_status(
    method: str, body: dict[str, Any], status: int, code: str, message: str
) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        answer = await call(local, method, body)
        assert answer.status == status
        assert answer.headers["content-type"] == "application/json"
        assert answer.json == {"code": code, "message": message}

    run_story(story)


def test_a_node_looks_as_it_does_in_the_reference() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        node = (await call(local, "GetNode", {"nodeId": "gpu-node-1"})).json["node"]
        heartbeat = node.pop("lastHeartbeat")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", heartbeat)
        assert node == {**REGISTER, "status": "NODE_STATUS_ACTIVE"}, "defaults are left out"

    run_story(story)


def test_field_names_may_be_in_snake_case_and_unknown_ones_are_ignored() -> None:
    async def story(local: LocalApi) -> None:
        body = {
            "node_id": "n",
            "instance_type": "t",
            "shoe_size": 44,
            "gpus": [{"memory_total": 5}],
        }
        assert (await call(local, "RegisterNode", body)).status == 200
        node = (await call(local, "GetNode", {"node_id": "n"})).json["node"]
        assert (node["instanceType"], node["gpus"]) == ("t", [{"memoryTotal": "5"}])

    run_story(story)


def test_protobuf_and_json_have_the_same_content() -> None:
    async def story(local: LocalApi) -> None:
        request = json_format.ParseDict(REGISTER, pb.RegisterNodeRequest())
        answer = await call_app(
            local.app,
            "POST",
            SERVICE + "RegisterNode",
            request.SerializeToString(),
            content_type="application/proto",
        )
        assert (answer.status, answer.headers["content-type"]) == (200, "application/proto")
        assert pb.RegisterNodeResponse.FromString(answer.body).success

        listed = await call_app(
            local.app, "POST", SERVICE + "ListNodes", b"", content_type="application/proto"
        )
        (node,) = pb.ListNodesResponse.FromString(listed.body).nodes
        spoken = (await call(local, "ListNodes", {})).json["nodes"][0]
        assert json_format.MessageToDict(node) == spoken

        refused = await call_app(
            local.app,
            "POST",
            SERVICE + "GetNode",
            pb.GetNodeRequest(node_id="x").SerializeToString(),
            content_type="application/proto",
        )
        assert (refused.status, refused.json["code"]) == (404, "not_found"), "errors are JSON"

    run_story(story)


def test_lists_are_filtered() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        await call(local, "RegisterNode", {**REGISTER, "nodeId": "b", "provider": "lambda"})

        async def names(**filters: str) -> list[str]:
            answer = await call(local, "ListNodes", filters)
            return [node["nodeId"] for node in answer.json.get("nodes", [])]

        assert sorted(await names()) == ["b", "gpu-node-1"]
        assert await names(provider="lambda") == ["b"]
        assert await names(region="elsewhere") == []
        assert await names(status="NODE_STATUS_CORDONED") == []
        assert len(await names(status="NODE_STATUS_UNKNOWN")) == 2, "unknown is no filter"

    run_story(story)


def test_heartbeats_carry_metrics_and_are_acknowledged() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        gpu = {"temperature": 61, "powerUsage": 500, "utilizationPercent": 97.5, "memoryUsed": "7"}
        metrics = {"cpuUsagePercent": 12.5, "gpuMetrics": [gpu]}
        answer = await call(local, "SendHeartbeat", {"nodeId": "gpu-node-1", "metrics": metrics})
        assert (answer.status, answer.json) == (200, {"acknowledged": True})
        local.desk.flush()
        kept = local.columns.metrics(NodeId("gpu-node-1"))
        assert kept is not None
        assert (kept.cpu_pct, kept.gpus[0].temperature_c, kept.gpus[0].memory_used_bytes) == (
            12.5,
            61.0,
            7.0,
        )

    run_story(story)


GOOD_METRICS = {
    "cpuUsagePercent": 12.5,
    "gpuMetrics": [{"temperature": 61, "utilizationPercent": 97.5}],
}


@pytest.mark.parametrize(
    "cpu", ['"NaN"', '"Infinity"', '"-Infinity"', "NaN", "Infinity", "-Infinity", "1e999", "1e300"]
)
def test_a_reading_that_is_no_number_is_dropped_and_not_the_heartbeat(cpu: str) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        good = {"nodeId": "gpu-node-1", "metrics": GOOD_METRICS}
        await call(local, "SendHeartbeat", good)
        local.desk.flush()
        gpu = f'{{"temperature": 70, "powerUsage": {cpu}, "utilizationPercent": {cpu}}}'
        if cpu.startswith('"') or cpu == "1e300":
            # The reference's agents send whole numbers for these.
            gpu = gpu.replace(f'"powerUsage": {cpu}', '"powerUsage": 500')
        metrics = f'{{"cpuUsagePercent": {cpu}, "gpuMetrics": [{gpu}]}}'
        body = f'{{"nodeId": "gpu-node-1", "metrics": {metrics}}}'
        answer = await call_app(
            local.app,
            "POST",
            SERVICE + "SendHeartbeat",
            body.encode(),
            content_type="application/json",
        )
        assert (answer.status, answer.json) == (200, {"acknowledged": True})
        local.desk.flush()
        kept = local.columns.metrics(NodeId("gpu-node-1"))
        assert kept is not None
        assert (kept.cpu_pct, kept.gpus[0].utilization_pct) == (12.5, 97.5), "as before"
        assert kept.gpus[0].temperature_c == 70.0

    run_story(story)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), 1e300])
def test_a_protobuf_reading_that_is_no_number_is_dropped(number: float) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        gpu = pb.GPUMetrics(temperature=70, utilization_percent=number)
        metrics = pb.NodeMetrics(cpu_usage_percent=number, gpu_metrics=[gpu])
        beat = pb.HeartbeatRequest(node_id="gpu-node-1", metrics=metrics).SerializeToString()
        answer = await call_app(
            local.app, "POST", SERVICE + "SendHeartbeat", beat, content_type="application/proto"
        )
        assert answer.status == 200
        local.desk.flush()
        kept = local.columns.metrics(NodeId("gpu-node-1"))
        assert kept is not None
        assert (kept.cpu_pct, kept.gpus[0].utilization_pct, kept.gpus[0].temperature_c) == (
            0,
            0,
            70,
        )

    run_story(story)


@pytest.mark.parametrize(
    "metrics",
    ['{"cpuUsagePercent": "much"}', '{"gpuMetrics": [{"temperature": "hot"}]}', "[NaN]", "NaN"],
)
def test_a_heartbeat_with_readings_of_another_kind_is_refused(metrics: str) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        body = f'{{"nodeId": "gpu-node-1", "metrics": {metrics}}}'.encode()
        answer = await call_app(
            local.app, "POST", SERVICE + "SendHeartbeat", body, content_type="application/json"
        )
        assert (answer.status, answer.json["code"]) == (400, "invalid_argument")

    run_story(story)


def test_cordon_uncordon_and_drain_change_the_node_and_are_not_sent_to_it() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        for command, status in (
            ("CORDON", "CORDONED"),
            ("CORDON", "CORDONED"),
            ("UNCORDON", "ACTIVE"),
            ("DRAIN", "DRAINING"),
            ("UNCORDON", "ACTIVE"),
            ("DRAIN", "DRAINING"),
        ):
            answer = await issue(local, command, reason="because")
            assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f-]{18,}", answer["commandId"])
            assert "issuedAt" in answer
            node = (await call(local, "GetNode", {"nodeId": "gpu-node-1"})).json["node"]
            assert node["status"] == f"NODE_STATUS_{status}"
        fetched = await call(local, "GetNodeCommands", {"nodeId": "gpu-node-1"})
        assert fetched.json == {}
        assert local.store.fleet().nodes[NodeId("gpu-node-1")].cordoned == "because"

    run_story(story)


def test_a_fetched_command_counts_as_acknowledged_and_not_as_done() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        issued = await issue(local, "RUN_DIAGNOSTIC", test_type="quick")
        first = (await call(local, "GetNodeCommands", {"nodeId": "gpu-node-1"})).json
        again = (await call(local, "GetNodeCommands", {"nodeId": "gpu-node-1"})).json
        assert first["commands"] == [
            {
                "commandId": issued["commandId"],
                "type": "NODE_COMMAND_TYPE_RUN_DIAGNOSTIC",
                "parameters": {"test_type": "quick"},
                "issuedAt": issued["issuedAt"],
            }
        ]
        assert again == {}
        (command,) = local.store.fleet().commands.values()
        assert command.status is CommandStatus.ACKNOWLEDGED

    run_story(story)


def test_an_unknown_node_has_no_commands() -> None:
    async def story(local: LocalApi) -> None:
        answer = await call(local, "GetNodeCommands", {"nodeId": "x"})
        assert (answer.status, answer.json) == (200, {})

    run_story(story)


def test_terminate_retires_the_node_and_sends_its_agent_a_command() -> None:
    async def story(local: LocalApi) -> None:
        await bought(local)
        answer = await call(
            local,
            "IssueCommand",
            {"nodeId": "training-0", "commandType": "NODE_COMMAND_TYPE_TERMINATE"},
        )
        assert answer.status == 200
        assert local.store.fleet().nodes[NodeId("training-0")].retiring is not None
        (command,) = local.store.fleet().commands.values()
        assert command.kind is CommandKind.TERMINATE

    run_story(story)


def test_an_agent_may_use_its_instance_id_as_its_name() -> None:
    async def story(local: LocalApi) -> None:
        await bought(local)
        for method, body in (
            ("RegisterNode", {"nodeId": "i-123"}),
            ("SendHeartbeat", {"nodeId": "i-123"}),
            ("ReportHealth", {"nodeId": "i-123"}),
            ("GetNodeCommands", {"nodeId": "i-123"}),
        ):
            assert (await call(local, method, body)).status == 200, method
        assert list(local.store.fleet().nodes) == ["training-0"]

    run_story(story)


def test_machines_are_listed_with_their_state() -> None:
    async def story(local: LocalApi) -> None:
        await bought(local)
        (seen,) = (await call(local, "ListInstances", {"poolName": "training"})).json["instances"]
        one = (await call(local, "GetInstance", {"instanceId": "i-123"})).json["instance"]
        none = (await call(local, "ListInstances", {"state": "INSTANCE_STATE_FAILED"})).json
        assert seen == one
        assert (one["instanceId"], one["poolName"], one["instanceType"]) == (
            "i-123",
            "training",
            "h100-8x",
        )
        assert one["state"] == "INSTANCE_STATE_RUNNING"
        assert none == {}

    run_story(story)


def test_registering_again_clears_neither_cordon_nor_drain_nor_unhealthy() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        await issue(local, "CORDON")
        await report(local, {"results": [result("gpu", "UNHEALTHY")]})
        await registered(local)
        node = local.store.fleet().nodes[NodeId("gpu-node-1")]
        assert node.cordoned is not None
        assert node.health is Health.UNHEALTHY

        await issue(local, "DRAIN")
        await registered(local)
        assert local.store.fleet().nodes[node.id].phase is Phase.DRAINING

    run_story(story)


def test_the_worst_result_of_a_report_decides() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        for words, status, health in (
            (["HEALTHY", "UNKNOWN"], "ACTIVE", Health.HEALTHY),
            (["HEALTHY", "DEGRADED"], "ACTIVE", Health.DEGRADED),
            (["DEGRADED", "UNHEALTHY"], "UNHEALTHY", Health.UNHEALTHY),
        ):
            results = [result(f"check-{i}", word) for i, word in enumerate(words)]
            answer = await report(local, {"results": results})
            assert answer == {"acknowledged": True, "nodeStatus": f"NODE_STATUS_{status}"}
            assert local.store.fleet().nodes[NodeId("gpu-node-1")].health is health

    run_story(story)


def test_a_fatal_xid_outlasts_later_rounds_without_events() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        await report(local, {"events": [xid("79", "GPU has fallen off the bus")]})
        quiet = await report(local, {"results": [result("health_events", "HEALTHY")]})
        assert quiet["nodeStatus"] == "NODE_STATUS_UNHEALTHY"
        (condition,) = local.store.fleet().nodes[NodeId("gpu-node-1")].conditions
        assert condition.reason == "XID 79 on GPU 0: GPU has fallen off the bus"
        assert condition.lasting

    run_story(story)


def test_the_next_round_without_events_clears_a_milder_event() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        quiet = result("health_events", "HEALTHY")
        await report(local, {"results": [quiet], "events": [xid("8", "fault")]})
        assert local.store.fleet().nodes[NodeId("gpu-node-1")].health is Health.DEGRADED
        await report(local, {"results": [quiet]})
        assert local.store.fleet().nodes[NodeId("gpu-node-1")].health is Health.HEALTHY

    run_story(story)


ECC_DBE = {"eventType": "HEALTH_EVENT_TYPE_ECC_DBE", "gpuUuid": "GPU-1", "gpuIndex": 1}
HOT = {"eventType": "HEALTH_EVENT_TYPE_THERMAL", "metrics": {"temperature": "95"}}
ALL_XIDS_ARE_UNHEALTHY = """
rules:
  - name: fatal-xid
    condition: event.event_type == "xid"
    result: unhealthy
"""


def with_policy(text: str) -> LocalApi:
    policies = compile_policies(parse_policy(text))
    return build_local_api(policies=lambda: policies)


@pytest.mark.parametrize("event", [ECC_DBE, HOT])
def test_an_unhealthy_event_outlasts_later_rounds_without_events(event: dict[str, Any]) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        quiet = [result(check, "HEALTHY") for check in ("boot", "gpu", "health_events")]
        await report(local, {"results": quiet, "events": [event]})
        for _ in range(3):
            answer = await report(local, {"results": quiet})
            assert answer["nodeStatus"] == "NODE_STATUS_UNHEALTHY"
        (condition,) = node_of(local).conditions
        assert (condition.lasting, condition.times) == (True, 1)

        await local.fleet.declare_healthy(NodeId("gpu-node-1"), reason="tested")
        answer = await report(local, {"results": quiet})
        assert answer["nodeStatus"] == "NODE_STATUS_ACTIVE"

    run_story(story)


@pytest.mark.parametrize("code", ["13", "43", "94"])
def test_an_event_that_a_policy_makes_unhealthy_outlasts_rounds_without_events(code: str) -> None:
    async def story() -> None:
        local = with_policy(ALL_XIDS_ARE_UNHEALTHY)
        await registered(local)
        quiet = [result("health_events", "HEALTHY")]
        await report(local, {"results": quiet, "events": [xid(code, "contained")] * 5})
        answer = await report(local, {"results": quiet})
        assert answer["nodeStatus"] == "NODE_STATUS_UNHEALTHY"
        (condition,) = node_of(local).conditions
        assert (condition.check, condition.lasting) == (f"health_events/{code}/0", True)
        assert condition.times == 1, "a burst of one error is one report"
        assert not condition.fatal, "a crashed program must not cost a machine at once"

    asyncio.run(asyncio.wait_for(story(), 20))


def test_unhealthy_events_on_two_gpus_are_two_conditions() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        other = {**ECC_DBE, "gpuUuid": "GPU-2", "gpuIndex": 2}
        await report(local, {"events": [ECC_DBE, other, HOT]})
        assert sorted(each.check for each in node_of(local).conditions) == [
            "health_events/ecc_dbe/GPU-1",
            "health_events/ecc_dbe/GPU-2",
            "health_events/thermal/0",
        ]

    run_story(story)


def test_a_policy_judges_every_event_and_not_only_the_worst() -> None:
    rule = ALL_XIDS_ARE_UNHEALTHY.replace('"xid"', '"driver_error"')

    async def story() -> None:
        local = with_policy(rule)
        await registered(local)
        driver_error = {"eventType": "HEALTH_EVENT_TYPE_DRIVER_ERROR"}
        nvlink = {"eventType": "HEALTH_EVENT_TYPE_NVLINK"}
        await report(local, {"events": [driver_error, nvlink]})
        assert node_of(local).health is Health.UNHEALTHY

    asyncio.run(asyncio.wait_for(story(), 20))


def test_an_agent_that_cannot_collect_events_recovers_when_it_can() -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        await report(local, {"results": [result("health_events", "UNHEALTHY")]})
        assert node_of(local).health is Health.UNHEALTHY
        await report(local, {"results": [result("health_events", "HEALTHY")]})
        assert node_of(local).health is Health.HEALTHY

    run_story(story)


@pytest.mark.parametrize(
    ("event", "health"),
    [
        ({"eventType": "HEALTH_EVENT_TYPE_ECC_DBE"}, Health.UNHEALTHY),
        (
            {"system": "HEALTH_WATCH_SYSTEM_MEM", "metrics": {"ecc_dbe_count": "1"}},
            Health.UNHEALTHY,
        ),
        (
            {"eventType": "HEALTH_EVENT_TYPE_ECC_SBE", "metrics": {"ecc_sbe_count": "101"}},
            Health.DEGRADED,
        ),
        (
            {"eventType": "HEALTH_EVENT_TYPE_ECC_SBE", "metrics": {"ecc_sbe_count": "100"}},
            Health.HEALTHY,
        ),
        (
            {"eventType": "HEALTH_EVENT_TYPE_THERMAL", "metrics": {"temperature": "95"}},
            Health.UNHEALTHY,
        ),
        (
            {"eventType": "HEALTH_EVENT_TYPE_THERMAL", "metrics": {"temperature": "85.0"}},
            Health.DEGRADED,
        ),
        (
            {"eventType": "HEALTH_EVENT_TYPE_THERMAL", "metrics": {"temperature": "hot"}},
            Health.HEALTHY,
        ),
        ({"eventType": "HEALTH_EVENT_TYPE_NVLINK"}, Health.DEGRADED),
        ({"system": "HEALTH_WATCH_SYSTEM_PCIE"}, Health.DEGRADED),
        ({"eventType": "HEALTH_EVENT_TYPE_POWER"}, Health.DEGRADED),
        ({"eventType": "HEALTH_EVENT_TYPE_DRIVER_ERROR"}, Health.HEALTHY),
        ({"eventType": -1, "system": 99}, Health.HEALTHY),
    ],
)
def test_events_are_rated_as_by_the_references_default_rules(
    event: dict[str, Any], health: Health
) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        await report(local, {"results": [result("boot", "HEALTHY")], "events": [event]})
        assert local.store.fleet().nodes[NodeId("gpu-node-1")].health is health

    run_story(story)


def test_bodies_may_be_gzipped() -> None:
    async def story(local: LocalApi) -> None:
        path, kind = SERVICE + "RegisterNode", "application/json"
        body = gzip.compress(json.dumps(REGISTER).encode())
        good = await call_app(
            local.app, "POST", path, body, content_type=kind, content_encoding="gzip"
        )
        bomb = await call_app(
            local.app,
            "POST",
            path,
            gzip.compress(bytes(2**24)),
            content_type=kind,
            content_encoding="gzip",
        )
        assert (good.status, bomb.status) == (200, 413)

    run_story(story)


@pytest.mark.parametrize(
    ("method", "path", "content_type", "body", "status"),
    [
        ("GET", "GetNode", "application/json", b"", 405),
        ("POST", "Frobnicate", "application/json", b"{}", 404),
        ("POST", "GetNode", "text/plain", b"{}", 415),
        ("POST", "GetNode", "application/json", b"{", 400),
        ("POST", "GetNode", "application/json", b'{"nodeId": 3}', 400),
        ("POST", "GetNode", "application/json", b"[" * 50_000, 400),
        ("POST", "GetNode", "application/proto", b"\xff\xff\xff", 400),
        ("POST", "GetNode", "application/json", b"\xff", 400),
        ("POST", "IssueCommand", "application/json", b'{"nodeId":"a","commandType":77}', 400),
    ],
)
def test_an_invalid_call_is_rejected(
    method: str, path: str, content_type: str, body: bytes, status: int
) -> None:
    async def story(local: LocalApi) -> None:
        answer = await call_app(local.app, method, SERVICE + path, body, content_type=content_type)
        assert answer.status == status
        assert set(answer.json) == {"code", "message"}

    run_story(story)


@pytest.mark.parametrize(
    "method", [*pb.DESCRIPTOR.services_by_name["ControlPlaneService"].methods_by_name]
)
@pytest.mark.parametrize(
    "body", [b"[]", b"null", b"3", b"true", b'""', b'"x"', b'["nodeId"]', b" "]
)
def test_a_json_body_that_is_no_object_is_refused(method: str, body: bytes) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        before = local.store.fleet().revision
        path = SERVICE + method
        answer = await call_app(local.app, "POST", path, body, content_type="application/json")
        assert (answer.status, answer.json) == (
            400,
            {
                "code": "invalid_argument",
                "message": "unmarshal message: the body must be a JSON object",
            },
        )
        assert local.store.fleet().revision == before

    run_story(story)


@pytest.mark.parametrize(
    "method",
    ["RegisterNode", "SendHeartbeat", "ReportHealth", "GetNodeCommands", "GetNode", "IssueCommand"],
)
@pytest.mark.parametrize("body", [{}, {"nodeId": ""}, {"nodeId": None}])
def test_a_call_without_a_node_is_refused(method: str, body: dict[str, Any]) -> None:
    async def story(local: LocalApi) -> None:
        await registered(local)
        before = local.store.fleet().revision
        spoken = await call(local, method, body)
        packed = await call_app(
            local.app, "POST", SERVICE + method, b"", content_type="application/proto"
        )
        for answer in (spoken, packed):
            assert answer.status == 400
            assert answer.json == {"code": "invalid_argument", "message": "node_id is required"}
        assert local.store.fleet().revision == before

    run_story(story)


def test_another_version_of_the_protocol_is_refused() -> None:
    async def story(local: LocalApi) -> None:
        path = SERVICE + "ListNodes"
        for version, status in (("1", 200), ("2", 400)):
            answer = await call_app(
                local.app,
                "POST",
                path,
                b"{}",
                content_type="application/json",
                connect_protocol_version=version,
                connect_timeout_ms="1000",
            )
            assert answer.status == status

    run_story(story)


def node_of(local: LocalApi) -> Node:
    return local.store.fleet().nodes[NodeId("gpu-node-1")]


async def issue(local: LocalApi, command: str, **parameters: str) -> Any:  # noqa: ANN401
    kind = f"NODE_COMMAND_TYPE_{command}"
    body = {"nodeId": "gpu-node-1", "commandType": kind, "parameters": parameters}
    answer = await call(local, "IssueCommand", body)
    assert answer.status == 200, answer.body
    return answer.json


async def report(local: LocalApi, body: dict[str, Any]) -> Any:  # noqa: ANN401
    answer = await call(local, "ReportHealth", {"nodeId": "gpu-node-1", **body})
    assert answer.status == 200, answer.body
    return answer.json


def result(check: str, word: str) -> dict[str, str]:
    return {"checkName": check, "status": f"HEALTH_STATUS_{word}", "message": word.lower()}


def xid(code: str, message: str) -> dict[str, Any]:
    return {
        "timestamp": "2026-01-01T00:00:00Z",
        "system": "HEALTH_WATCH_SYSTEM_DRIVER",
        "eventType": "HEALTH_EVENT_TYPE_XID",
        "metrics": {"xid_code": code},
        "message": message,
    }


async def bought(local: LocalApi) -> None:
    """Put a node with a machine into the store, as the control loops would have."""
    await local.register("stranger")
    registered = local.store.fleet().nodes[NodeId("stranger")]
    name, pool = NodeId("training-0"), PoolName("training")
    launch = Launch(
        token=Token("launch-1"),
        node=name,
        pool=pool,
        offering=H100,
        asked_at=registered.created_at,
        instance=InstanceId("i-123"),
        launched_at=registered.created_at,
    )
    node: Node = evolve(registered, id=name, pool=pool, launch=launch, offering=None)
    await local.store.commit(
        Change(nodes=[node], forget_nodes=[registered.id]),
        based_on=local.store.fleet().revision,
    )
