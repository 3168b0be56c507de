"""The OpenAPI description, generated from the routes and their types."""

import re
from collections.abc import Iterable
from typing import Any, get_type_hints

import msgspec

from navarch.api.http.route import Route
from navarch.core.records import record_fields

_REF = "#/components/schemas/{name}"


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """The body of an error response."""

    code: str
    message: str


def render_openapi(routes: Iterable[Route], *, version: str) -> dict[str, Any]:
    """Return an OpenAPI 3.1 document."""
    known = list(routes)
    types = [kind for route in known for kind in (route.body, route.reply) if kind is not None]
    schemas, components = msgspec.json.schema_components([*types, Problem], ref_template=_REF)
    found = dict(zip(map(repr, [*types, Problem]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in known:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, found)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Navarch",
            "version": version,
            "description": "Keeps GPU fleets healthy. Times are RFC 3339, durations ISO 8601, "
            "amounts of money decimal strings.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}],
    }


def _operation(route: Route, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    words = [word for word in re.split(r"[^a-z0-9]+", route.path.lower()) if word not in ("v1", "")]
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    operation: dict[str, Any] = {
        "operationId": "_".join([route.method.lower(), *words]),
        "summary": route.summary,
        "parameters": [*in_path, *_query_parameters(route)],
        "responses": {
            **_success(route, schemas),
            "default": {
                "description": "An error with its reason",
                "content": {"application/json": {"schema": schemas[repr(Problem)]}},
            },
        },
    }
    if route.body is not None:
        content = {"application/json": {"schema": schemas[repr(route.body)]}}
        if route.path == "/v1/agent/heartbeat":
            content["application/proto"] = {"schema": {"type": "string", "format": "binary"}}
        required = any(part.required for part in record_fields(route.body))
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _success(route: Route, schemas: dict[str, dict[str, Any]]) -> dict[str, Any]:
    if route.reply is None:
        return {"204": {"description": "Done"}}
    schema = {"schema": schemas[repr(route.reply)]}
    if route.stream is not None:
        content = {"application/x-ndjson": schema, "text/event-stream": schema}
    else:
        content = {"application/json": schema}
    return {"200": {"description": "Done", "content": content}}


def _query_parameters(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    hints = get_type_hints(route.query, include_extras=True)
    parameters = []
    for part in record_fields(route.query):
        if part.name == "labels":
            schema: dict[str, Any] = {"type": "array", "items": {"type": "string", "pattern": "="}}
            parameters.append({"name": "label", "in": "query", "schema": schema})
            continue
        schema = _inlined(hints[part.name])
        if part.default is not None:
            schema = {**schema, "default": part.default}
        parameters.append({"name": part.name, "in": "query", "schema": schema})
    return parameters


def _inlined(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - any type may be asked for
    (schema,), components = msgspec.json.schema_components([kind], ref_template="{name}")
    options = schema.get("anyOf", [schema])
    chosen = next(option for option in options if option.get("type") != "null")
    found: dict[str, Any] = components[chosen["$ref"]] if "$ref" in chosen else chosen
    return found
