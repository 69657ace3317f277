"""A comparison, a plan or a search again and again with other arguments, over processes or a Ray cluster, with what is done kept on the way."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import multiprocessing
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import pyarrow as pa
import pyarrow.parquet as pq

from ._weir import UsageError

if TYPE_CHECKING:
    import optuna

Point = dict[str, Any]
Grid = Mapping[str, Sequence[Any]]
Run = Callable[..., pa.Table]

#: In a file's metadata: what was swept, so that another sweep does not take it for its own.
_SWEPT = b"weir.sweep"


def sweep(
    over: Union[Grid, optuna.Study],
    *,
    out: Union[str, os.PathLike[str]],
    run: Optional[Run] = None,
    workers: Optional[int] = None,
    on: str = "processes",
    suggest: Optional[Callable[[optuna.Trial], Point]] = None,
    objective: Optional[Callable[[pa.Table], Any]] = None,
    trials: Optional[int] = None,
    **fixed: Any,
) -> pa.Table:
    """Calls `run` (default: `weir.compare`) with `fixed` and every point of a grid, and puts all tables below each other into the Parquet file `out`.

    A grid maps arguments to the values that they take; every combination is a point, in the order of the grid, and its number is the column
    `point`, its values, as text, the columns `point.NAME`. What is done of a sweep that was ended lies in `out` + ".parts"; the same call
    goes on from there, and the table is the same as without the end. Another sweep there is refused.

    With an Optuna study `suggest` draws a point from a trial, `objective` says what its table is worth, and it goes on until the study has
    `trials` trials that are complete. The study's own storage makes it resumable; the parts are kept beside it, under the numbers of trials.

    `workers` processes (default: one for each processor) call `run` at a time, or as many tasks of a Ray cluster with `on="ray"`, which needs
    the extra `ray`; `run` and the arguments have to be importable and picklable there.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"workers: {workers} must be a number from 1 on")
    run = run or _compare
    if run.__module__.partition(".")[0] == "weir":
        # As many runs at a time as there are workers, and not times processors.
        fixed.setdefault("jobs", 1)
    count = workers or os.cpu_count() or 1
    path = Path(out)
    if isinstance(over, Mapping):
        if suggest or objective or trials is not None:
            raise UsageError("suggest, objective and trials require a study of Optuna; a grid does not support them")
        return _grid(_points(over, fixed), run, fixed, path, count, on)
    if suggest is None or objective is None or trials is None:
        raise UsageError("a study of Optuna requires suggest=, objective= and trials=")
    return _study(over, run, fixed, path, count, on, suggest, objective, trials)


def _compare(scenario: Any, **arguments: Any) -> pa.Table:
    from . import compare

    return compare(scenario, **arguments)


def _points(grid: Grid, fixed: Point) -> list[Point]:
    for name, values in grid.items():
        if isinstance(values, (str, bytes)) or not isinstance(values, Sequence) or not values:
            raise UsageError(f"grid: {name} must be a list of values, not {values!r}")
        if name in fixed:
            raise UsageError(f"grid: {name} is also set outside of the grid; remove one of the two")
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def _grid(points: list[Point], run: Run, fixed: Point, out: Path, count: int, on: str) -> pa.Table:
    parts = _Parts(out, _digest(points, run, fixed))
    done = parts.whole()
    if done is not None:
        return done
    missing = {number: point for number, point in enumerate(points) if not parts.has(number)}
    with _pool(on, count) as pool:
        todo = iter(missing.items())
        pending: dict[Any, int] = {}
        while True:
            for number, point in itertools.islice(todo, count - len(pending)):
                pending[pool.submit(run, {**fixed, **point})] = number
            if not pending:
                break
            for future in pool.first(pending):
                number = pending.pop(future)
                parts.put(number, points[number], pool.result(future))
    return parts.join(range(len(points)))


def _study(
    study: optuna.Study,
    run: Run,
    fixed: Point,
    out: Path,
    count: int,
    on: str,
    suggest: Callable[[optuna.Trial], Point],
    objective: Callable[[pa.Table], Any],
    trials: int,
) -> pa.Table:
    from optuna.trial import TrialState

    parts = _Parts(out, _digest([study.study_name], run, fixed))
    for ended in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        # Begun by a sweep that was ended: the same point is tried again.
        study.tell(ended.number, state=TrialState.FAIL)
        study.enqueue_trial(ended.params)
    complete = [t.number for t in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))]
    with _pool(on, count) as pool:
        pending: dict[Any, tuple[optuna.Trial, Point]] = {}
        while len(complete) < trials:
            while len(pending) < min(count, trials - len(complete)):
                trial = study.ask()
                point = suggest(trial)
                pending[pool.submit(run, {**fixed, **point})] = (trial, point)
            for future in pool.first(pending):
                trial, point = pending.pop(future)
                table = pool.result(future)
                # First the table: a trial that is complete has one, whenever this is ended.
                parts.put(trial.number, point, table)
                study.tell(trial, objective(table))
                complete.append(trial.number)
    return parts.join([number for number in complete if parts.has(number)], whole=False)


def _digest(over: Any, run: Run, fixed: Point) -> str:
    """What is swept, in a word: what has no form in JSON counts by its text, where it has one, and its type."""

    def plain(value: Any) -> Any:
        return [type(value).__qualname__, getattr(value, "text", None) or os.fspath(value)]

    name = f"{run.__module__}.{run.__qualname__}"
    try:
        text = json.dumps([over, name, fixed], sort_keys=True, default=plain)
    except TypeError as error:
        raise UsageError(f"a point's value must be of JSON, a scenario, policy, drive or path: {error}") from error
    return hashlib.sha256(text.encode()).hexdigest()


class _Parts:
    """The tables of points beside the file that they come to."""

    def __init__(self, out: Path, digest: str) -> None:
        self.out, self.digest = out, digest.encode()
        self.directory = out.with_name(out.name + ".parts")
        self.directory.mkdir(parents=True, exist_ok=True)
        mark = self.directory / "sweep"
        with contextlib.suppress(FileNotFoundError):
            self._check(mark.read_bytes(), self.directory)
        _replace(mark, lambda to: to.write_bytes(self.digest))

    def _check(self, found: Optional[bytes], at: Path) -> None:
        if found != self.digest:
            raise UsageError(f"{at} belongs to another sweep; remove it, or set out= to another file")

    def whole(self) -> Optional[pa.Table]:
        """The table, if it is complete."""
        if not self.out.exists():
            return None
        table = pq.read_table(self.out)
        self._check((table.schema.metadata or {}).get(_SWEPT), self.out)
        shutil.rmtree(self.directory, ignore_errors=True)
        return table

    def has(self, number: int) -> bool:
        return self._part(number).exists()

    def put(self, number: int, point: Point, table: pa.Table) -> None:
        if not isinstance(table, pa.Table):
            raise UsageError(f"run= must return a table of pyarrow, not {type(table).__qualname__}")
        columns: list[tuple[str, pa.Array]] = [("point", pa.array([number] * len(table), pa.int64()))]
        for name, value in point.items():
            columns.append((f"point.{name}", pa.array([_text(value)] * len(table), pa.string())))
        for at, (name, column) in enumerate(columns):
            table = table.add_column(at, name, column)
        _replace(self._part(number), lambda to: pq.write_table(table, to))

    def join(self, numbers: Sequence[int], whole: bool = True) -> pa.Table:
        """All tables below each other; the parts are of no use any more if nothing can be added."""
        tables = [pq.read_table(self._part(number)) for number in sorted(numbers)]
        table = pa.concat_tables(tables, promote_options="default").replace_schema_metadata({_SWEPT: self.digest})
        _replace(self.out, lambda to: pq.write_table(table, to))
        if whole:
            shutil.rmtree(self.directory)
        return table

    def _part(self, number: int) -> Path:
        return self.directory / f"{number}.parquet"


def _text(value: Any) -> str:
    return str(getattr(value, "name", value))


def _replace(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes a file as a whole, or not at all."""
    draft = path.with_name(path.name + ".draft")
    write(draft)
    os.replace(draft, path)


class _Processes:
    """Processes of this machine. Each begins anew: one that is forked would inherit locks of threads that it does not have."""

    def __init__(self, count: int) -> None:
        self.pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))

    def submit(self, run: Run, arguments: Point) -> Any:
        return self.pool.submit(run, **arguments)

    def first(self, pending: Mapping[Any, Any]) -> list[Any]:
        return list(wait(pending, return_when=FIRST_COMPLETED).done)

    def result(self, future: Any) -> pa.Table:
        return future.result()

    def end(self) -> None:
        self.pool.shutdown(cancel_futures=True)


class _Ray:
    """Tasks of the cluster that Ray is connected to, or of one that it starts here."""

    def __init__(self, count: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise UsageError("on='ray' requires Ray; run pip install 'weir[ray]'") from error
        self.ray = ray
        self.ours = not ray.is_initialized()
        if self.ours:
            ray.init(num_cpus=count, include_dashboard=False, log_to_driver=False)

    def submit(self, run: Run, arguments: Point) -> Any:
        return self.ray.remote(run).remote(**arguments)

    def first(self, pending: Mapping[Any, Any]) -> list[Any]:
        done: list[Any] = self.ray.wait(list(pending), num_returns=1)[0]
        return done

    def result(self, future: Any) -> pa.Table:
        return self.ray.get(future)

    def end(self) -> None:
        if self.ours:
            self.ray.shutdown()


@contextlib.contextmanager
def _pool(on: str, count: int) -> Iterator[Union[_Processes, _Ray]]:
    kinds: dict[str, Callable[[int], Union[_Processes, _Ray]]] = {"processes": _Processes, "ray": _Ray}
    if on not in kinds:
        raise UsageError(f"on: {on!r} is not one of {', '.join(kinds)}")
    pool = kinds[on](count)
    try:
        yield pool
    finally:
        pool.end()
