"""Schemas of the services that receive alerts, from their published documentation."""

import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]
from slack_sdk.errors import SlackObjectFormationError
from slack_sdk.models.blocks import Block

from navarch.testing.loopback_server import HttpRequest, HttpResponse

TEXT = {"type": "string", "minLength": 1}
LABELS = {"type": "object", "additionalProperties": {"type": "string"}}

PAGERDUTY_EVENT = {
    "type": "object",
    "required": ["routing_key", "event_action"],
    "additionalProperties": False,
    "properties": {
        "routing_key": TEXT,
        "event_action": {"enum": ["trigger", "acknowledge", "resolve"]},
        "dedup_key": {"type": "string", "maxLength": 255},
        "client": {"type": "string"},
        "client_url": {"type": "string"},
        "links": {"type": "array"},
        "images": {"type": "array"},
        "payload": {
            "type": "object",
            "required": ["summary", "severity", "source"],
            "additionalProperties": False,
            "properties": {
                "summary": {**TEXT, "maxLength": 1024},
                "severity": {"enum": ["critical", "error", "warning", "info"]},
                "source": TEXT,
                "timestamp": {"type": "string", "format": "date-time"},
                "component": {"type": "string"},
                "group": {"type": "string"},
                "class": {"type": "string"},
                "custom_details": {"type": "object"},
            },
        },
    },
    "if": {"properties": {"event_action": {"const": "trigger"}}},
    "then": {"required": ["payload"]},
    "else": {"required": ["dedup_key"]},
}
"""The body of Events API v2, with the limits that its documentation states in prose."""

PAGERDUTY_BYTES_MAX = 512_000

ALERTMANAGER_ALERTS = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["labels"],
        "additionalProperties": False,
        "properties": {
            "labels": {**LABELS, "minProperties": 1},
            "annotations": LABELS,
            "startsAt": {"type": "string", "format": "date-time"},
            "endsAt": {"type": "string", "format": "date-time"},
            "generatorURL": {"type": "string", "format": "uri"},
        },
    },
}
"""The body of POST /api/v2/alerts."""

SLACK_MESSAGE = {
    "type": "object",
    "required": ["text"],
    "properties": {
        "text": {**TEXT, "maxLength": 40_000},
        "blocks": {"type": "array", "minItems": 1, "maxItems": 50},
    },
}
"""The body of an incoming webhook. Its blocks are validated by Slack's library."""


def problem(body: bytes, schema: dict[str, Any]) -> str | None:
    """Return why a service with this schema refuses a body, or None."""
    try:
        value = json.loads(body)
    except ValueError as error:
        return f"JSON parse error: {error}"
    checker = jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
    found = next(iter(checker.iter_errors(value)), None)
    return None if found is None else f"{found.json_path}: {found.message}"


class PagerDuty:
    """Accepts events as PagerDuty does, and keeps which incidents are open."""

    def __init__(self, routing_key: str) -> None:
        self.routing_key = routing_key
        self.open: set[str] = set()

    def answer(self, request: HttpRequest) -> HttpResponse:
        wrong = problem(request.body, PAGERDUTY_EVENT)
        if len(request.body) > PAGERDUTY_BYTES_MAX:
            wrong = "the event is too large"
        if wrong is not None or request.path != "/v2/enqueue":
            return _pagerduty(400, "invalid event", "Event object is invalid", [str(wrong)])
        event = json.loads(request.body)
        if event["routing_key"] != self.routing_key:
            return _pagerduty(400, "invalid event", "Invalid routing key", [event["routing_key"]])
        if event["event_action"] == "trigger":
            self.open.add(event["dedup_key"])
        else:
            self.open.discard(event["dedup_key"])
        return _pagerduty(202, "success", "Event processed", [])


def _pagerduty(status: int, short: str, message: str, errors: list[str]) -> HttpResponse:
    body = {"status": short, "message": message, "errors": errors}
    return HttpResponse(status, json.dumps(body).encode())


def slack(request: HttpRequest) -> HttpResponse:
    """Accept a message as an incoming webhook does."""
    plain = {"Content-Type": "text/html"}
    if request.headers.get("content-type") != "application/json":
        return HttpResponse(400, b"invalid_payload", plain)
    if problem(request.body, SLACK_MESSAGE) is not None:
        return HttpResponse(400, b"invalid_payload", plain)
    for each in json.loads(request.body).get("blocks", []):
        try:
            block = Block.parse(each)
            assert block is not None
            block.validate_json()
        except (SlackObjectFormationError, AssertionError, TypeError):
            return HttpResponse(400, b"invalid_blocks", plain)
        if block.to_dict() != each:  # what the library does not know
            return HttpResponse(400, b"invalid_blocks", plain)
    return HttpResponse(200, b"ok", plain)
