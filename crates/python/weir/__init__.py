"""Weir shares one storage drive among many clients and keeps each its contract.

`compare`, `plan` and `search` do what the command `weir` does, in virtual time, and return Arrow tables; `sweep` does one of these again and
again; `Elevator` is the block layer, call by call. https://github.com/weir-io/weir has the words and the files' keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Optional, TypedDict, TypeVar, Union

import pyarrow as pa

from . import _weir
from ._sweep import sweep
from ._tables import schema as _schema
from ._tables import table as _table
from ._weir import (
    Dispatch,
    Done,
    Drive,
    Elevator,
    Policy,
    ProblemError,
    Request,
    RunError,
    Scenario,
    Step,
    UsageError,
    WeirError,
    drives,
    policies,
    scenarios,
)

__all__ = [
    "Contract",
    "Dispatch",
    "Done",
    "Drive",
    "Elevator",
    "Max",
    "Policy",
    "ProblemError",
    "Request",
    "RunError",
    "Scenario",
    "Step",
    "UsageError",
    "WeirError",
    "compare",
    "drives",
    "elevator",
    "plan",
    "policies",
    "scenarios",
    "search",
    "sweep",
]

#: A name, a file, or a mapping with the keys of a file.
Source = Union[str, "os.PathLike[str]", Mapping[str, Any]]


class Max(TypedDict, total=False):
    """Limits that hold in every window of time, with their units: `{"bandwidth": "50MB/s", "iops": 5000}`."""

    bandwidth: str
    read_bandwidth: str
    write_bandwidth: str
    iops: int
    read_iops: int
    write_iops: int
    iops_size: str
    burst: str


#: What a client is promised, as keys of a client in a scenario: `{"name": "a", "rw": "randread", **Contract(min="5MB/s")}`.
Contract = TypedDict(
    "Contract",
    {"min": str, "min_iops": int, "share": int, "max": Max, "class": str, "latency": str},
    total=False,
)

_Class = TypeVar("_Class", Scenario, Policy, Drive)

_RECORDS = _schema(_weir.records())
_NEEDS = _schema(_weir.needs())
_FOUND = pa.schema(
    [
        ("seed", pa.uint64()),
        ("kind", pa.string()),
        ("title", pa.string()),
        ("promised", pa.bool_()),
        ("feasible", pa.bool_()),
        ("realtime", pa.bool_()),
        ("kept", pa.bool_()),
        ("bfq_keeps", pa.bool_()),
        ("promised_part", pa.float64()),
        ("worst", pa.float64()),
        ("total", pa.float64()),
        ("total_bfq", pa.float64()),
        ("share_off", pa.float64()),
        ("idle_wait_ms", pa.float64()),
        ("failures", pa.list_(pa.string())),
        ("findings", pa.int64()),
        ("broken", pa.string()),
    ]
)


def compare(
    scenario: Union[Source, Scenario],
    *,
    drives: Union[Source, Drive, Iterable[Union[Source, Drive]]] = (),
    policies: Union[Source, Policy, Iterable[Union[Source, Policy]]] = (),
    cases: Union[str, Iterable[str]] = (),
    repetitions: Optional[int] = None,
    seconds: Optional[int] = None,
    jobs: Optional[int] = None,
    audit: bool = False,
) -> pa.Table:
    """Plays a scenario on drives under policies, in virtual time, as `weir compare`: a row for each client of each run, and one for all.

    What is left out is as in the command: the scenario's drives and policies, all cases, as many repetitions and seconds as the scenario says.
    `jobs` runs are played at a time, on all processors if it is left out; results do not depend on it. With `audit` every decision is checked.
    The columns are the keys of `docs/json.md`.
    """
    lines = _weir.compare(
        _one(Scenario, scenario),
        _all(Drive, drives),
        _all(Policy, policies),
        [cases] if isinstance(cases, str) else list(cases),
        repetitions,
        seconds,
        jobs,
        audit,
    )
    return _table(lines, _RECORDS)


def plan(
    contracts: Union[Source, Scenario],
    *,
    drives: Union[Source, Drive, Iterable[Union[Source, Drive]]] = (),
    policies: Union[Source, Policy, Iterable[Union[Source, Policy]]] = (),
    case: Optional[str] = None,
    keep: int = 99,
    average: Optional[int] = None,
    repetitions: Optional[int] = None,
    seconds: Optional[int] = None,
    jobs: Optional[int] = None,
) -> pa.Table:
    """How many drives clients need under each policy so that their promises are kept in `keep` of a hundred seconds, as `weir plan`: a row for
    each kind of drive and policy. With `average`, in bytes per second, clients must also get that bandwidth on average. The columns are the keys of `docs/json.md`.
    """
    lines = _weir.plan(
        _one(Scenario, contracts),
        _all(Drive, drives),
        _all(Policy, policies),
        case,
        keep,
        average,
        repetitions,
        seconds,
        jobs,
    )
    return _table(lines, _NEEDS)


def search(
    runs: int,
    *,
    seed: int = 1,
    kind: Optional[str] = None,
    admitted: bool = False,
    jobs: Optional[int] = None,
) -> pa.Table:
    """Draws `runs` cases from consecutive seeds and looks for contracts that are not kept (`docs/search.md`): a row for each seed.

    `kind` is a kind of drive (null, ssd, hdd); with `admitted` promises are scaled down to what admission accepts. A seed always gives the same
    row. `failures` names in which ways a case fails; `broken` is why there is no outcome.
    """
    return _table(_weir.search(runs, seed, kind, admitted, jobs), _FOUND)


def elevator(
    scenario: Union[Source, Scenario],
    *,
    policy: Union[Source, Policy] = "contract",
    drive: Union[Source, Drive, None] = None,
    case: Optional[str] = None,
) -> Elevator:
    """The block layer between a scenario's clients and its drive, call by call: contracts, limits and elevator of a policy, and neither the
    clients' programs nor a drive, both of which are the caller's. The drive is the scenario's first if none is given.
    """
    played = _one(Scenario, scenario)
    if drive is None:
        if not played.drives:
            raise UsageError(f"{played.name} names no drive; give one as drive=")
        drive = played.drives[0]
    return Elevator(played, _one(Policy, policy), _one(Drive, drive), case)


def _one(kind: type[_Class], given: Union[Source, _Class]) -> _Class:
    return given if isinstance(given, kind) else kind(given)


def _all(kind: type[_Class], given: Union[Source, _Class, Iterable[Union[Source, _Class]]]) -> list[_Class]:
    if isinstance(given, (kind, str, os.PathLike, Mapping)):
        return [_one(kind, given)]
    return [_one(kind, each) for each in given]
