"""Many heartbeats in one request: what a relay sends for the nodes of a rack."""

from google.protobuf.message import DecodeError

from navarch.api.heartbeat_formats import read_packed
from navarch.api.heartbeats import HeartbeatDesk, command_message
from navarch.core.errors import InvalidError, NavarchError
from navarch.core.limits import HEARTBEATS_PER_BATCH
from navarch.wire.fleet import code_of, text_of
from navarch.wire.v1.agent_pb2 import Error, HeartbeatBatchResponse
from navarch.wire.v1.heartbeat_wire_pb2 import HeartbeatBatchWire


def receive_batch(desk: HeartbeatDesk, body: bytes) -> bytes:
    """Process a HeartbeatBatchRequest; return the HeartbeatBatchResponse.

    The desk checks for each node whether the caller may report it. A heartbeat that is refused does
    not affect the others. Raises InvalidError for a batch that cannot be read.
    """
    try:
        beats = HeartbeatBatchWire.FromString(body).heartbeats
    except DecodeError as error:
        raise InvalidError("not a HeartbeatBatchRequest") from error
    HEARTBEATS_PER_BATCH.check(len(beats), "$.heartbeats")
    reply = HeartbeatBatchResponse()
    for index, beat in enumerate(beats):
        try:
            commands = desk.receive(read_packed(beat))
        except NavarchError as error:
            code = code_of(error)
            refusal = Error(code=code.name, message=text_of(error, code))
            reply.results.add(index=index, error=refusal)
        else:
            if commands:
                reply.results.add(index=index, commands=map(command_message, commands))
    reply.accepted = len(beats) - sum(result.HasField("error") for result in reply.results)
    return reply.SerializeToString()
