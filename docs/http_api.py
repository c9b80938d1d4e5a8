"""Write the reference of the HTTP API from the servers' own OpenAPI descriptions: python docs/http_api.py"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast

from starlette.testclient import TestClient

from clearhead.search import Index
from clearhead.serve.app import make_app
from clearhead.serve.model_registry import ModelRegistry
from clearhead.serve.search_app import SearchService, make_search_app

TARGET = Path(__file__).with_name("http.md")
INTRODUCTION = """\
# HTTP API

The routes of `clearhead serve MODEL` and of `clearhead serve INDEX`, from the OpenAPI descriptions that the servers publish at
`/openapi.json`; `/docs` of a running server shows the same with a form for each route. `python docs/http_api.py` writes this page.
How requests are batched, secured and limited: [Serving](serve.md).

Bodies are JSON. Unknown fields are refused. Where a field takes one text or a list, a list gives one answer per text, in order.
An address of the server comes before each path, `http://127.0.0.1:8000` unless `--host` and `--port` say otherwise.
"""
TITLES = {
    "tasks": "Tasks",
    "attention": "Attention",
    "openai": "OpenAI's routes",
    "search": "Search",
    "server": "Server",
}
SIMPLE = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "null": "null"}
LARGE = 2**31 - 1  # limits from here on are not shown
EVENT_STREAM = "text/event-stream"

Schema = dict[str, Any]


def descriptions() -> dict[str, Schema]:
    """The OpenAPI description of each kind of server, by title."""
    search = SearchService(cast("Index", None), None, None)  # routes are described before the index is used
    found = {}
    for title, app in (
        ("Server of models", make_app(ModelRegistry({}))),
        ("Server of an index", make_search_app(search)),
    ):
        with TestClient(app, base_url="http://127.0.0.1") as client:
            found[title] = client.get("/openapi.json").json()
    return found


def routes(api: Schema) -> dict[tuple[str, str], Schema]:
    """The operations of an API by method and path."""
    return {(method.upper(), path): op for path, methods in api["paths"].items() for method, op in methods.items()}


def resolve(schema: Schema, api: Schema) -> Schema:
    name = schema.get("$ref", "").rpartition("/")[2]
    return api["components"]["schemas"][name] if name else schema


def kind(schema: Schema, api: Schema) -> str:
    """The type of a value in words."""
    schema = resolve(schema, api)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        words = [kind(option, api) for option in options if option.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    if "const" in schema:
        return f"`{schema['const']}`"
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    if schema.get("type") == "array":
        return f"list of {plural(kind(schema.get('items', {}), api))}"
    if schema.get("type") == "object" or "properties" in schema:
        fields = ", ".join(f"`{name}`" for name in schema.get("properties", {}))
        return f"object ({fields})" if fields else "object"
    return SIMPLE.get(schema.get("type", ""), "any value") + limits(schema)


def plural(words: str) -> str:
    head, space, rest = words.partition(" ")
    known = {"text": "texts", "integer": "integers", "number": "numbers", "object": "objects", "list": "lists"}
    return known.get(head, head) + space + rest


def limits(schema: Schema) -> str:
    """The limits of a number in words."""
    if schema.get("type") not in ("integer", "number"):
        return ""
    low, high = schema.get("minimum"), schema.get("maximum")
    above = schema.get("exclusiveMinimum")
    start = f"above {above:g}" if above is not None else "" if low is None else f"from {low:g}"
    end = f" to {high:g}" if high is not None and high < LARGE else ""
    return f", {start}{end}" if start or end else ""


def shape(schema: Schema, api: Schema) -> Any:
    """A value of this form, with types in place of values."""
    schema = resolve(schema, api)
    if options := schema.get("anyOf") or schema.get("oneOf"):
        shapes = [shape(option, api) for option in options]
        return shapes[0] if isinstance(shapes[0], dict) else " or ".join(map(str, shapes)).replace("'", "")
    if "const" in schema or "enum" in schema:
        return " or ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema.get("type") == "array":
        return [shape(schema.get("items", {}), api)]
    if "properties" in schema:
        return {name: shape(inner, api) for name, inner in schema["properties"].items()}
    if isinstance(inner := schema.get("additionalProperties"), dict):
        return {"name": shape(inner, api)}
    return SIMPLE.get(schema.get("type", ""), schema.get("type", "any value"))


def written(value: Any) -> str:
    """JSON in several lines, with a list of one type on one line."""
    return re.sub(r'\[\s+("[^"]*")\s+\]', r"[\1]", json.dumps(value, indent=2, ensure_ascii=False))


def default(name: str, field: Schema, body: Schema) -> str:
    if name in body.get("required", ()):
        return "required"
    value = field.get("default")
    return "" if value is None else f"`{json.dumps(value)}`"


def request_table(body: Schema, api: Schema) -> str:
    """The fields of a request body."""
    rows = ["| field | value | default | meaning |", "|---|---|---|---|"]
    for name, field in body["properties"].items():
        meaning = field.get("description", "").replace("|", "\\|")
        rows.append(f"| `{name}` | {kind(field, api)} | {default(name, field, body)} | {meaning} |")
    return "\n".join(rows) + "\n"


def section(method: str, path: str, operation: Schema, api: Schema) -> str:
    """One route: what it does, its body, an example and its answer."""
    parts = [f"#### {method} {path}\n", f"{operation['description']}\n"]
    if parameters := operation.get("parameters"):
        parts.append("In the path: " + ", ".join(f"`{each['name']}`" for each in parameters) + ".\n")
    if "requestBody" in operation:
        body = resolve(operation["requestBody"]["content"]["application/json"]["schema"], api)
        parts.append(request_table(body, api))
        for example in body.get("examples", ()):
            parts.append(f"```json\n{json.dumps(example, ensure_ascii=False)}\n```\n")
    content = operation["responses"]["200"]["content"]
    if "application/json" in content and (answer := content["application/json"]["schema"]):
        about = resolve(answer, api).get("description", "").rstrip(".").replace("\n", " ")
        shown = written(shape(answer, api))
        parts.append(f"Answer: {about}.\n\n```json\n{shown}\n```\n")
    if EVENT_STREAM in content:
        parts.append("With `stream`, the answer is a stream of server-sent events.\n")
    if "text/plain" in content:
        parts.append("The answer is plain text.\n")
    return "\n".join(parts)


def errors(api: Schema) -> str:
    """The statuses of errors, which are those of every route."""
    operation = next(iter(routes(api).values()))
    rows = [
        f"| {status} | {response['description']} |"
        for status, response in operation["responses"].items()
        if status != "200"
    ]
    return "\n".join(
        [
            "## Errors\n",
            "Every error has the same body, in the format of OpenAI's API, and says what was given, why it is refused and how to fix it.\n",
            f"```json\n{written(shape({'$ref': 'ErrorBody'}, api))}\n```\n",
            "| status | meaning |\n|---|---|",
            *rows,
        ]
    )


def page() -> str:
    """The text of the page."""
    parts, apis = [INTRODUCTION], descriptions()
    for title, api in apis.items():
        parts.append(f"## {title}\n")
        by_tag: dict[str, list[str]] = {}
        for (method, path), operation in routes(api).items():
            by_tag.setdefault(operation["tags"][0], []).append(section(method, path, operation, api))
        for tag, sections in by_tag.items():
            parts += [f"### {TITLES.get(tag, tag)}\n", *sections]
    return "\n".join([*parts, errors(next(iter(apis.values())))]).rstrip() + "\n"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
