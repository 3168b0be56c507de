"""The encodings of heartbeats: each reader returns the same `Heartbeat` for the same readings.

A node whose sensor fails is alive, so a reading that is no usable number costs only itself: it
becomes NaN here or in `HeartbeatDesk`, and the value before stays.
"""

import re
import sys
from array import array
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import msgspec
import numpy as np
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from msgspec import Meta

from navarch.api.heartbeats import GPUS_MAX, Heartbeat
from navarch.api.limits import check_json, check_message
from navarch.api.readings import NAN, load_heartbeat
from navarch.core.errors import InvalidError
from navarch.core.ids import NodeId
from navarch.core.limits import CONNECT_JSON_VALUES, GPUS_PER_HEARTBEAT
from navarch.wire.bodies import Beat
from navarch.wire.reference import navarch_pb2 as reference
from navarch.wire.v1.agent_pb2 import HeartbeatRequest
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatWire

MIB = 2**20
WHOLE_READINGS = frozenset(
    ("temperature", "powerUsage", "power_usage", "memoryUsed", "memory_used")
)
"""The readings that are whole numbers in the messages of the Go system, where there is no NaN."""

_read_beat = msgspec.json.Decoder(Beat).decode


def read_packed(body: bytes) -> Heartbeat:
    """Read a navarch.v1.HeartbeatRequest."""
    try:
        message = HeartbeatWire.FromString(body)
    except DecodeError as error:
        raise InvalidError("not a HeartbeatRequest") from error
    temperatures = message.temperature_c
    size = len(temperatures)
    if not size and len(body) > 64:
        # Arrays may also come unpacked, which no generated code does: read them slowly.
        message = _packed(body)
        temperatures = message.temperature_c
        size = len(temperatures)
    power, use, memory = message.power_w, message.utilization_pct, message.memory_used_mib
    is_even = len(power) == len(use) == len(memory) == size
    if not is_even or size % 4 or size > 4 * GPUS_MAX:
        _refuse(message)
    readings = temperatures + power + use + memory
    return Heartbeat(NodeId(message.node_id), (message.cpu_pct, message.memory_pct), readings)


def _packed(body: bytes) -> HeartbeatWire:
    """Return the message with its arrays packed."""
    try:
        message = HeartbeatRequest.FromString(body)
    except DecodeError as error:
        raise InvalidError("not a HeartbeatRequest") from error
    check_message(message)
    return HeartbeatWire(
        node_id=message.node_id,
        sequence=message.sequence,
        cpu_pct=message.cpu_pct,
        memory_pct=message.memory_pct,
        temperature_c=np.array(message.temperature_c, "<f4").tobytes(),
        power_w=np.array(message.power_w, "<f4").tobytes(),
        utilization_pct=np.array(message.utilization_pct, "<f4").tobytes(),
        memory_used_mib=np.array(message.memory_used_mib, "<f4").tobytes(),
    )


def _refuse(message: HeartbeatWire) -> None:
    lengths = {
        "temperature_c": len(message.temperature_c),
        "power_w": len(message.power_w),
        "utilization_pct": len(message.utilization_pct),
        "memory_used_mib": len(message.memory_used_mib),
    }
    counts = ", ".join(f"{name} has {length / 4:g}" for name, length in lengths.items())
    raise InvalidError(f"one value per GPU, at most {GPUS_MAX}: {counts} - at `$.temperature_c`")


def read_json(body: bytes) -> Heartbeat:
    """Read a `Beat` in JSON."""
    check_json(body)
    try:
        beat = _read_beat(body or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # Only if a reading is at fault does the heartbeat count without it.
        flawless = _beat_without_flaws(body)
        if flawless is None:
            raise InvalidError(str(error)) from error
        beat = flawless
    metrics = beat.metrics
    if metrics is None:
        return Heartbeat(beat.node)
    gpus = metrics.gpus
    return Heartbeat(
        beat.node,
        (metrics.cpu_pct, metrics.memory_pct),
        _floats(
            [gpu.temperature_c for gpu in gpus],
            [gpu.power_w for gpu in gpus],
            [gpu.utilization_pct for gpu in gpus],
            [gpu.memory_used_bytes / MIB for gpu in gpus],
        ),
    )


def _beat_without_flaws(body: bytes) -> Beat | None:
    try:
        return msgspec.convert(load_heartbeat(body, NAN), Beat)
    except (ValueError, RecursionError):
        return None


def read_connect_proto(body: bytes) -> Heartbeat:
    """Read a heartbeat of the Go system in protobuf."""
    try:
        message = reference.HeartbeatRequest.FromString(body)
    except DecodeError as error:
        raise InvalidError(f"unmarshal message: {error}") from error
    return _from_reference(message)


def _from_reference(message: reference.HeartbeatRequest) -> Heartbeat:
    if not message.HasField("metrics"):
        return Heartbeat(NodeId(message.node_id))
    metrics = message.metrics
    gpus = metrics.gpu_metrics
    # The only list of the message, so this bounds its values without counting each of them.
    GPUS_PER_HEARTBEAT.check(len(gpus), "$.metrics.gpu_metrics")
    temperatures, powers, loads, memories, places = [], [], [], [], []
    for gpu in gpus:
        places.append(gpu.gpu_index)
        temperatures.append(gpu.temperature)
        powers.append(gpu.power_usage)
        loads.append(gpu.utilization_percent)
        memories.append(gpu.memory_used / MIB)
    readings = _floats(temperatures, powers, loads, memories, places=places)
    host = (metrics.cpu_usage_percent, metrics.memory_usage_percent)
    return Heartbeat(NodeId(message.node_id), host, readings)


def read_connect_json(body: bytes) -> Heartbeat:
    """Read a heartbeat of the Go system in JSON."""
    check_json(body, CONNECT_JSON_VALUES)
    return read_plain_connect_json(body) or read_any_connect_json(body)


def read_any_connect_json(body: bytes) -> Heartbeat:
    """Read every form of JSON that the protobuf library accepts."""
    if body and not body.lstrip().startswith(b"{"):
        # The library takes an array for an object without fields.
        raise InvalidError("unmarshal message: the body must be a JSON object")
    message = reference.HeartbeatRequest()
    try:
        json_format.Parse(body or b"{}", message, ignore_unknown_fields=True)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError) as error:
        flawless = _reference_without_flaws(body)
        if flawless is None:
            raise InvalidError(f"unmarshal message: {error}") from error
        message = flawless
    return _from_reference(message)


def _reference_without_flaws(body: bytes) -> reference.HeartbeatRequest | None:
    """Return a heartbeat without the readings that are no usable numbers, if that is the flaw."""
    message = reference.HeartbeatRequest()
    try:
        given = load_heartbeat(body, "NaN", without=WHOLE_READINGS)
        json_format.ParseDict(given, message, ignore_unknown_fields=True)
    except (json_format.ParseError, ValueError, RecursionError):
        return None
    return message


_Int32 = Annotated[int, Meta(ge=-(2**31), lt=2**31)]
_Int64 = Annotated[str, Meta(pattern="^[0-9]{1,18}$")]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z", re.ASCII)


class _PlainGpu(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    gpu_index: _Int32 = 0
    temperature: _Int32 = 0
    power_usage: _Int32 = 0
    utilization_percent: float = 0.0
    memory_used: _Int64 = "0"


class _PlainMetrics(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    cpu_usage_percent: float = 0.0
    memory_usage_percent: float = 0.0
    gpu_metrics: list[_PlainGpu] = []


class _PlainBeat(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    node_id: str = ""
    timestamp: str = "1970-01-01T00:00:00Z"
    metrics: _PlainMetrics | None = None


_read_plain_beat = msgspec.json.Decoder(_PlainBeat).decode


def read_plain_connect_json(body: bytes) -> Heartbeat | None:
    """Read the form that the Go system's agents send; return None for any other.

    The library accepts more forms, and takes twenty times as long.
    """
    try:
        beat = _read_plain_beat(body)
        datetime.fromisoformat(beat.timestamp[:19])
    except (ValueError, RecursionError):
        return None
    if _TIME.fullmatch(beat.timestamp) is None:
        return None
    node, metrics = NodeId(beat.node_id), beat.metrics
    if metrics is None:
        return Heartbeat(node)
    gpus = metrics.gpu_metrics
    readings = _floats(
        [gpu.temperature for gpu in gpus],
        [gpu.power_usage for gpu in gpus],
        [gpu.utilization_percent for gpu in gpus],
        [int(gpu.memory_used) / MIB for gpu in gpus],
        places=[gpu.gpu_index for gpu in gpus],
    )
    return Heartbeat(node, (metrics.cpu_usage_percent, metrics.memory_usage_percent), readings)


def _floats(*columns: Sequence[float], places: list[int] | None = None) -> bytes:
    """Return `columns`, one value per GPU each, in the order of `places` if they are given."""
    if places is not None and places != sorted(places):
        order = sorted(range(len(places)), key=places.__getitem__)
        columns = tuple([column[place] for place in order] for column in columns)
    values = array("f", [value for column in columns for value in column])
    if sys.byteorder == "big":
        values.byteswap()
    return values.tobytes()
