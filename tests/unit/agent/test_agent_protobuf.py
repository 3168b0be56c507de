"""The heartbeat's codec, against Google's library and against random bytes."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from navarch.agent.transport.protobuf import (
    MalformedError,
    heartbeat_bytes,
    heartbeat_reply_bytes,
    parse_heartbeat,
    parse_heartbeat_reply,
)
from navarch.core.ids import CommandId, NodeId
from navarch.core.instance import GpuMetrics, NodeMetrics
from navarch.core.recovery import Command, CommandKind

NODE = NodeId("gpu-7")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MIB = 1024.0 * 1024.0

floats = st.floats(width=32, allow_nan=False, allow_infinity=False)
gpus = st.builds(
    GpuMetrics,
    temperature_c=floats,
    power_w=floats,
    utilization_pct=floats,
    memory_used_bytes=st.integers(0, 1 << 24).map(lambda mib: mib * MIB),
)
readings = st.builds(
    NodeMetrics,
    cpu_pct=floats,
    memory_pct=floats,
    gpus=st.lists(gpus, max_size=16).map(tuple),
)
texts = st.text(st.characters(codec="utf-8"), max_size=30)
moments = st.integers(-(10**12), 10**13).map(lambda ms: EPOCH + timedelta(milliseconds=ms))
commands = st.builds(
    Command,
    id=texts.map(CommandId),
    node=st.just(NODE),
    kind=st.sampled_from(CommandKind),
    issued_at=moments,
    expires_at=moments,
    parameters=st.dictionaries(texts, texts, max_size=4),
)


def google() -> dict[str, Any]:
    """Return Google's classes for the messages of `agent.proto`, or skip."""
    pytest.importorskip("google.protobuf")
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped,unused-ignore]

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="agent", package="t", syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, bool, str]) -> Any:  # noqa: ANN401
        described = file.message_type.add(name=name)
        for field, number, kind, repeated, of in fields:
            label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            described.field.add(
                name=field, number=number, type=kind, label=label, type_name=of or None
            )
        return described

    text, number, single = kinds.TYPE_STRING, kinds.TYPE_UINT64, kinds.TYPE_FLOAT
    message(
        "HeartbeatRequest",
        ("node_id", 1, text, False, ""),
        ("sequence", 2, number, False, ""),
        ("cpu_pct", 3, single, False, ""),
        ("memory_pct", 4, single, False, ""),
        ("temperature_c", 5, single, True, ""),
        ("power_w", 6, single, True, ""),
        ("utilization_pct", 7, single, True, ""),
        ("memory_used_mib", 8, single, True, ""),
    )
    message("HeartbeatResponse", ("commands", 1, kinds.TYPE_MESSAGE, True, ".t.AgentCommand"))
    command = message(
        "AgentCommand",
        ("command_id", 1, text, False, ""),
        ("kind", 2, text, False, ""),
        ("parameters", 3, kinds.TYPE_MESSAGE, True, ".t.AgentCommand.ParametersEntry"),
        ("issued_at_unix_ms", 4, kinds.TYPE_INT64, False, ""),
        ("expires_at_unix_ms", 5, kinds.TYPE_INT64, False, ""),
    )
    entry = command.nested_type.add(name="ParametersEntry")
    entry.field.add(name="key", number=1, type=text, label=kinds.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=text, label=kinds.LABEL_OPTIONAL)
    entry.options.map_entry = True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ("HeartbeatRequest", "HeartbeatResponse")
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{name}"))
        for name in names
    }


@given(readings, st.integers(0, (1 << 64) - 1))
def test_heartbeats_match_googles_encoding_byte_for_byte(
    metrics: NodeMetrics, sequence: int
) -> None:
    theirs = google()["HeartbeatRequest"](
        node_id=NODE,
        sequence=sequence,
        cpu_pct=metrics.cpu_pct,
        memory_pct=metrics.memory_pct,
        temperature_c=[gpu.temperature_c for gpu in metrics.gpus],
        power_w=[gpu.power_w for gpu in metrics.gpus],
        utilization_pct=[gpu.utilization_pct for gpu in metrics.gpus],
        memory_used_mib=[gpu.memory_used_bytes / MIB for gpu in metrics.gpus],
    )

    assert heartbeat_bytes(NODE, metrics, sequence=sequence) == theirs.SerializeToString()


@given(st.lists(commands, max_size=4))
def test_replies_encoded_by_google_are_decoded(sent: list[Command]) -> None:
    theirs = google()["HeartbeatResponse"]()
    for command in sent:
        theirs.commands.add(
            command_id=command.id,
            kind=command.kind.value,
            parameters=dict(command.parameters),
            issued_at_unix_ms=(command.issued_at - EPOCH) // timedelta(milliseconds=1),
            expires_at_unix_ms=(command.expires_at - EPOCH) // timedelta(milliseconds=1),
        )

    assert list(parse_heartbeat_reply(theirs.SerializeToString(), NODE).commands) == sent


def test_a_heartbeat_matches_stored_bytes_of_googles_library() -> None:
    """The bytes come from Google's library, so the test also runs without it."""
    metrics = NodeMetrics(
        cpu_pct=12.5,
        memory_pct=0.0,
        gpus=(
            GpuMetrics(
                temperature_c=41.0,
                power_w=70.5,
                utilization_pct=0.0,
                memory_used_bytes=512 * MIB,
            ),
            GpuMetrics(
                temperature_c=-1.5,
                power_w=700.0,
                utilization_pct=100.0,
                memory_used_bytes=0.0,
            ),
        ),
    )

    assert heartbeat_bytes(NODE, metrics, sequence=300).hex() == (
        "0a056770752d3710ac021d000048412a08000024420000c0bf320800008d4200002f44"
        "3a08000000000000c84242080000004400000000"
    )


@given(readings, st.integers(0, (1 << 64) - 1))
def test_a_heartbeat_can_be_read_back(metrics: NodeMetrics, sequence: int) -> None:
    raw = heartbeat_bytes(NODE, metrics, sequence=sequence)

    assert parse_heartbeat(raw) == (NODE, sequence, metrics)


@given(st.lists(commands, max_size=4))
def test_commands_can_be_read_back(sent: list[Command]) -> None:
    assert list(parse_heartbeat_reply(heartbeat_reply_bytes(sent), NODE).commands) == sent


def test_an_unknown_command_kind_is_named_and_the_others_are_kept() -> None:
    known = Command(
        id=CommandId("c1"),
        node=NODE,
        kind=CommandKind.DRAIN,
        issued_at=EPOCH,
        expires_at=EPOCH,
    )
    raw = heartbeat_reply_bytes([known]).replace(b"drain", b"dance") + heartbeat_reply_bytes(
        [known]
    )

    orders = parse_heartbeat_reply(raw, NODE)

    assert orders.unknown == ("dance",)
    assert orders.commands == (known,)


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(noise: bytes) -> None:
    try:
        parse_heartbeat_reply(noise, NODE)
    except MalformedError:
        return


@given(st.lists(commands, min_size=1, max_size=3), st.data())
def test_a_truncated_reply_is_refused_or_shorter(sent: list[Command], data: st.DataObject) -> None:
    raw = heartbeat_reply_bytes(sent)
    cut = data.draw(st.integers(0, len(raw) - 1))
    try:
        orders = parse_heartbeat_reply(raw[:cut], NODE)
    except MalformedError:
        return
    assert list(orders.commands) == sent[: len(orders.commands)]
    assert len(orders.commands) < len(sent)


def test_fields_of_a_later_version_are_skipped() -> None:
    later = bytes.fromhex("7a03616263") + bytes.fromhex("8001ff01") + bytes.fromhex("8d0100000000")

    assert parse_heartbeat_reply(later, NODE).commands == ()


@pytest.mark.parametrize("value", [1e300, -1e300, float("inf"), float("nan")])
def test_readings_that_overflow_a_float_do_not_stop_a_heartbeat(value: float) -> None:
    assert heartbeat_bytes(NODE, NodeMetrics(cpu_pct=value), sequence=1)
