"""Lines of JSON as Arrow tables, whose columns are the keys that Weir describes, whether a run has them or not."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

Keys = Iterable[tuple[str, str]]

#: What became of the seconds of a promise, and why: maps and lists, since their keys differ from run to run.
_NESTED = {
    "promise_seconds.short_by": pa.map_(pa.string(), pa.int64()),
    "promise_seconds.excused_by": pa.map_(pa.string(), pa.int64()),
    "promise_seconds.neighbours": pa.map_(pa.string(), pa.int64()),
    "promise_seconds.short_at": pa.list_(
        pa.struct(
            [("second", pa.int64()), ("owed", pa.int64()), ("lacking", pa.int64()), ("cause", pa.string()),
             ("neighbour", pa.string())]
        )
    ),
}

#: Keys of the operations of one kind, each of which has the keys of all (`reads.requests`).
_EACH = ("requests", "bytes", "bandwidth_mb_per_s", "latency_us.")


def schema(keys: Keys) -> pa.Schema:
    """The columns for keys with their types and units as Weir describes them."""
    fields: dict[str, pa.DataType] = {}
    described = list(keys)
    for path, value in described:
        if path.removesuffix(".*") in _NESTED:
            path = path.removesuffix(".*")
            fields[path] = _NESTED[path]
        elif path.endswith(".*"):
            for inner, of in described:
                if inner.startswith(_EACH) and of != "null":
                    fields[f"{path[:-1]}{inner}"] = _type(inner, of)
        elif value != "null":
            fields.setdefault(path, _type(path, value))
    return pa.schema(list(fields.items()))


def table(lines: bytes, columns: pa.Schema) -> pa.Table:
    """The table of these lines."""
    rows = [_flat(json.loads(line)) for line in lines.splitlines()]
    found: dict[str, list[Any]] = {}
    for at, row in enumerate(rows):
        for path, value in row.items():
            if path not in found:
                found[path] = [None] * len(rows)
            # Integers that can be above 2^53 are strings in JSON.
            found[path][at] = int(value) if path == "seed" else value
    # Most runs have few of the keys.
    arrays = [
        pa.array(found[field.name], field.type) if field.name in found else pa.nulls(len(rows), field.type)
        for field in columns
    ]
    return pa.table(arrays, schema=columns)


def _type(path: str, value: str) -> pa.DataType:
    if value.startswith("array of numbers"):
        return pa.list_(pa.float64() if "," in value else pa.int64())
    if value == "string":
        return pa.string()
    if path == "seed":
        return pa.uint64()
    # A number without a unit is a count, as bytes are; what is counted for each request is none.
    counted = value in ("number", "number, bytes") and not path.startswith("rings.")
    return pa.int64() if counted else pa.float64()


def _flat(row: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in row.items():
        path = f"{before}{key}"
        if isinstance(value, dict) and path not in _NESTED:
            flat.update(_flat(value, f"{path}."))
        else:
            flat[path] = list(value.items()) if isinstance(value, dict) else value
    return flat
