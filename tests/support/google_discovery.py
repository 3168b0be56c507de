"""Validation of requests against Google's discovery documents.

The documents ship with Google's API client library for Python. A request is looked up by method
and path. Every parameter, and every field of its body at any depth, must be in the document, with
the given type, values and pattern.
"""

import functools
import importlib.resources
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs


@dataclass(frozen=True)
class Call:
    """A request that the document describes."""

    method: str
    """Such as `compute.instances.insert`."""
    path: Mapping[str, str]
    query: Mapping[str, str]
    request: str
    response: str


@functools.cache
def read_document(name: str) -> Any:
    folder = importlib.resources.files("googleapiclient") / "discovery_cache/documents"
    return json.loads((folder / f"{name}.json").read_text())


class Discovery:
    """One discovery document."""

    def __init__(self, name: str = "compute.v1") -> None:
        self._document = read_document(name)
        self._schemas = self._document["schemas"]
        self._methods = list(self._walk(self._document["resources"]))

    def call(self, method: str, path: str, query: str) -> Call:
        """Return the call of a request; raise ValueError if the request is invalid."""
        base = f"/{self._document['servicePath']}"
        if not path.startswith(base):
            raise ValueError(f"{path} is not under {base}")
        for pattern, described in self._methods:
            found = pattern.fullmatch(path[len(base) :])
            if found is None or described["httpMethod"] != method:
                continue
            parameters = {**self._document["parameters"], **described.get("parameters", {})}
            asked = {name: values[-1] for name, values in parse_qs(query).items()}
            self._check_parameters(described, parameters, found.groupdict(), asked)
            return Call(
                described["id"],
                found.groupdict(),
                asked,
                described.get("request", {}).get("$ref", ""),
                described.get("response", {}).get("$ref", ""),
            )
        raise ValueError(f"there is no {method} {path}")

    def check(self, schema: str, value: Any) -> None:
        """Raise ValueError if `value` does not match the named schema."""
        wrong = next(self._wrong({"$ref": schema}, value, schema), None)
        if wrong:
            raise ValueError(wrong)

    def _walk(self, resources: Any) -> Iterator[tuple[re.Pattern[str], Any]]:
        for resource in resources.values():
            for method in resource.get("methods", {}).values():
                pattern = re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", re.escape(method["path"]))
                for name, parameter in method.get("parameters", {}).items():
                    # A name that spans several parts of a path has its own pattern.
                    spans = parameter.get("pattern", ".+").removeprefix("^").removesuffix("$")
                    pattern = pattern.replace(rf"\{{\+{name}\}}", f"(?P<{name}>{spans})")
                yield re.compile(pattern), method
            yield from self._walk(resource.get("resources", {}))

    def _check_parameters(
        self, described: Any, parameters: Any, path: Mapping[str, str], query: Mapping[str, str]
    ) -> None:
        for name, value in {**path, **query}.items():
            if name not in parameters:
                raise ValueError(f"{described['id']} has no parameter {name}")
            wrong = next(self._wrong(parameters[name], _typed(parameters[name], value), name), None)
            if wrong:
                raise ValueError(wrong)
        for name, parameter in described.get("parameters", {}).items():
            if parameter.get("required") and name not in {**path, **query}:
                raise ValueError(f"{described['id']} needs {name}")

    def _wrong(self, schema: Any, value: Any, where: str) -> Iterator[str]:
        if "$ref" in schema:
            yield from self._wrong(self._schemas[schema["$ref"]], value, where)
            return
        kind = schema.get("type", "any")
        if not _is(kind, schema.get("format", ""), value):
            yield f"{where}: {value!r} is no {kind} {schema.get('format', '')}"
            return
        if "enum" in schema and value not in schema["enum"]:
            yield f"{where}: {value!r} is none of {schema['enum']}"
        if "pattern" in schema and not re.fullmatch(schema["pattern"], str(value)):
            yield f"{where}: {value!r} does not look like {schema['pattern']}"
        if kind == "array":
            for index, one in enumerate(value):
                yield from self._wrong(schema["items"], one, f"{where}[{index}]")
        if kind == "object":
            for name, one in value.items():
                inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
                if inner is None:
                    yield f"{where} has no field {name}"
                else:
                    yield from self._wrong(inner, one, f"{where}.{name}")


def _typed(schema: Any, value: str) -> Any:
    if schema.get("type") == "integer":
        return int(value)
    if schema.get("type") == "boolean":
        return {"true": True, "false": False}.get(value, value)
    return value


def _is(kind: str, form: str, value: Any) -> bool:
    match kind:
        case "string" if form in ("int64", "uint64"):
            return isinstance(value, str) and re.fullmatch(r"-?\d+", value) is not None
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "array":
            return isinstance(value, list)
        case "object":
            return isinstance(value, dict)
    return True
