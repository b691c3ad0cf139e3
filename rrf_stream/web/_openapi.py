"""The description of the interface that a server gives of itself, as OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from rrf_stream import ArmStatus, Outcome, __version__
from rrf_stream.web._asked import Defaults
from rrf_stream.web._limits import Limits
from rrf_stream.web._problems import MEDIA_TYPE

__all__ = ["document"]

_JSON = "application/json"
_NO_SUCH = {405: "Only GET is answered."}
_WRONG = {
    400: "A parameter is wrong, and is named, or the query string is.",
    403: "A page of another site asks, which is none of those that may.",
} | _NO_SUCH
_NOT_NOW = "The server starts or ends; Retry-After says when to try again."
_BUSY = {
    429: "As many searches of this client are under way as may; Retry-After says when there is room.",
    503: "The same of all clients together, or the server starts or ends.",
}


def document(*, title: str, limits: Limits, defaults: Defaults, has_token: bool, root: str) -> dict[str, Any]:
    """Return the description.

    Args:
        title: The name of the server.
        limits: What clients may ask for.
        defaults: What a search is when a client does not say.
        has_token: Whether a token is wanted.
        root: The path below which the server answers; empty if there is none.
    """
    parameters = _parameters(limits, defaults)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": title, "version": __version__},
        "servers": [{"url": root or "/"}],
        "paths": {
            "/search": {"get": _search(parameters)},
            "/search/stream": {"get": _stream(parameters)},
            "/page.json": {"get": _operation("What the page must know.", {"type": "object"}, _NOT_NOW)},
            "/openapi.json": {"get": _operation("This description.", {"type": "object"}, _NOT_NOW)},
            "/healthz": {"get": _operation("Whether the server is alive.", _STATE)},
            "/readyz": {"get": _operation("Whether every required arm can answer.", _STATE, _NOT_READY)},
            "/metrics": {"get": _metrics()},
        },
        "components": {"schemas": {"Problem": _PROBLEM, "Snapshot": _SNAPSHOT}},
    }
    if has_token:
        described["components"]["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "basic": {
                "type": "http",
                "scheme": "basic",
                "description": "Any user; the token is the password.",
            },
        }
        described["security"] = [{"bearer": []}, {"basic": []}]
        described["paths"]["/healthz"]["get"]["security"] = []
        for path, operations in described["paths"].items():
            if path != "/healthz":
                operations["get"]["responses"]["401"] = _problem("The token is missing or wrong.")
    return described


_NOT_READY = "A required arm, which is named, cannot answer, or the server starts or ends."
_STATE = {"type": "object", "required": ["status"], "properties": {"status": {"type": "string"}}}
_PROBLEM = {
    "type": "object",
    "description": "Problem details by RFC 9457.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "parameter": {"type": "string", "description": "The parameter that is wrong."},
    },
}
_SECONDS = {"type": ["number", "null"], "minimum": 0}
_COUNT = {"type": ["integer", "null"], "minimum": 0}
_ARM = {
    "type": "object",
    "required": ["name", "status", "weight", "received", "elapsed", "error"],
    "properties": {
        "name": {"type": "string"},
        "status": {"enum": [str(status) for status in ArmStatus]},
        "weight": {"type": "number", "minimum": 0},
        "window": {"type": ["integer", "null"]},
        "received": {"type": "integer", "minimum": 0},
        "first_hit_after": _SECONDS,
        "elapsed": _SECONDS,
        "error": {"type": ["string", "null"]},
        "retry_after": _SECONDS,
    },
}
_HIT = {
    "type": "object",
    "required": ["id", "rank", "score", "normalized", "item", "items", "ranks"],
    "properties": {
        "id": {},
        "rank": {"type": "integer", "minimum": 1},
        "score": {"type": "number"},
        "normalized": {"type": "number"},
        "item": {},
        "items": {"type": "object"},
        "ranks": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 1}},
        "upper": {"type": ["number", "null"]},
        "best_rank": _COUNT,
        "worst_rank": _COUNT,
    },
}
_SNAPSHOT: dict[str, Any] = {
    "type": "object",
    "required": ["hits", "seq", "elapsed", "final", "outcome", "coverage", "settled", "exact"],
    "properties": {
        "hits": {"type": "array", "items": _HIT},
        "seq": {"type": "integer", "minimum": 1},
        "elapsed": _SECONDS,
        "final": {"type": "boolean"},
        "outcome": {"enum": [*map(str, Outcome), None]},
        "coverage": {
            "type": "object",
            "required": ["full", "degraded", "reasons", "answered", "weight_fraction", "arms"],
            "properties": {
                "full": {"type": "boolean"},
                "degraded": {"type": "boolean"},
                "reasons": {"type": "array", "items": {"type": "string"}},
                "answered": {"type": "array", "items": {"type": "string"}},
                "weight_fraction": {"type": "number", "minimum": 0, "maximum": 1},
                "arms": {"type": "array", "items": _ARM},
            },
        },
        "settled": _COUNT,
        "exact": _COUNT,
        "settled_set": _COUNT,
        "exact_set": _COUNT,
        "unseen_possible": {"type": ["boolean", "null"]},
        "blocking_arms": {"type": ["array", "null"], "items": {"type": "string"}},
        "contenders": {"type": ["array", "null"]},
        "theta": {"type": ["number", "null"]},
    },
}


_NOT_BLANK = r"[^\s\u001c-\u001f\u0085]"
"""A character that is none of the blanks that Python knows, also where `\\s` does not know them."""


def _event(kind: str, data: dict[str, Any], *further: str) -> dict[str, Any]:
    content = {"type": "string", "contentMediaType": _JSON, "contentSchema": data}
    return {
        "type": "object",
        "required": ["event", "data", *further],
        "properties": {
            "event": {"const": kind},
            "id": {"type": "string", "pattern": "^[0-9]+$"},
            "data": content,
        },
    }


_DONE = {
    "type": "object",
    "required": ["seq", "outcome", "elapsed"],
    "properties": {name: _SNAPSHOT["properties"][name] for name in ("seq", "outcome", "elapsed")},
}
_EVENTS = {
    "description": "Each event of the stream.",
    "oneOf": [
        _event("snapshot", {"$ref": "#/components/schemas/Snapshot"}, "id"),
        _event("done", _DONE),
        _event("error", {"$ref": "#/components/schemas/Problem"}),
    ],
}


def _parameters(limits: Limits, defaults: Defaults) -> list[dict[str, Any]]:
    most_arms = len(defaults.arms) if limits.arms is None else min(limits.arms, len(defaults.arms))
    asked = "all of them" if most_arms == len(defaults.arms) else f"the first {most_arms}"
    schemas: dict[str, tuple[str, dict[str, Any]]] = {
        "q": (
            "What to search for.",
            {"type": "string", "minLength": 1, "maxLength": limits.query_length, "pattern": _NOT_BLANK},
        ),
        "timeout_ms": (
            "Milliseconds until the final snapshot.",
            _whole(limits.timeout_ms, defaults.timeout_ms),
        ),
        "top_k": ("Hits at most.", _whole(limits.top_k, defaults.top_k)),
        "arms": (
            f"Names of the arms to ask, with commas between them; without it {asked}.",
            {
                "type": "array",
                "items": {"type": "string", "enum": list(defaults.arms)},
                "minItems": 1,
                "maxItems": most_arms,
                "uniqueItems": True,
            },
        ),
    }
    shape = {"arms": {"style": "form", "explode": False}}
    return [
        {
            "name": name,
            "in": "query",
            "required": name == "q",
            "description": text,
            "schema": schema,
            **shape.get(name, {}),
        }
        for name, (text, schema) in schemas.items()
    ]


def _whole(most: int, default: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "default": default}


def _search(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    answer = _json(
        "The final snapshot, also of a search in which an arm was cut off or failed.",
        {"$ref": "#/components/schemas/Snapshot"},
    )
    answer["headers"] = {
        "RRF-Coverage": {
            "description": "How complete the answer is: full, or degraded with the reasons.",
            "schema": {"type": "string"},
        }
    }
    failed = {502: "An arm that is required failed, and is named."}
    return {
        "summary": "Search, and answer when the search is over.",
        "parameters": parameters,
        "responses": _responses(answer, _WRONG | failed | _BUSY),
    }


def _stream(parameters: list[dict[str, Any]]) -> dict[str, Any]:
    resumed = {
        "name": "Last-Event-ID",
        "in": "header",
        "required": False,
        "description": "Sent by a client whose stream broke; it is answered with 204, and no second search.",
        "schema": {"type": "string"},
    }
    answer = {
        "description": "Server-sent events: a `snapshot`, with its number as id, whenever the answer got "
        "better, and at last `done`, or `error` with a problem. An id comes first, without any event.",
        "content": {"text/event-stream": {"schema": _EVENTS}},
    }
    responses = _responses(answer, _WRONG | _BUSY)
    responses["204"] = {"description": "The stream that broke is not begun again."}
    return {
        "summary": "Search, and answer while results arrive.",
        "parameters": [*parameters, resumed],
        "responses": responses,
    }


def _metrics() -> dict[str, Any]:
    content = {"text/plain": {"schema": {"type": "string"}}}
    text = {"description": "In the text format of Prometheus.", "content": content}
    return {"summary": "What was measured of all searches.", "responses": _responses(text, _NO_SUCH)}


def _operation(summary: str, schema: dict[str, Any], unavailable: str | None = None) -> dict[str, Any]:
    problems = _NO_SUCH if unavailable is None else _NO_SUCH | {503: unavailable}
    return {"summary": summary, "responses": _responses(_json(summary, schema), problems)}


def _responses(answer: dict[str, Any], problems: dict[int, str]) -> dict[str, Any]:
    return {"200": answer} | {str(status): _problem(text) for status, text in problems.items()}


def _json(description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {_JSON: {"schema": schema}}}


def _problem(description: str) -> dict[str, Any]:
    return {
        "description": description,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
