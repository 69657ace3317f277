"""Sweeps: over processes, ended in the middle, with Optuna, on a Ray cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import weir

GRID: dict[str, list[Any]] = {"policies": ["none", "bfq", "contract"], "seconds": [1, 2]}
FIXED: dict[str, Any] = {"scenario": "latency", "drives": "plextor-px-256m5s", "cases": "readers", "repetitions": 1}


def double(number: int, slow: float = 0.0) -> pa.Table:
    time.sleep(slow)
    return pa.table({"double": [2 * number]})


def fail_at_two(number: int) -> pa.Table:
    if number == 2:
        raise weir.RunError("two is refused")
    return double(number)


def give_up(number: int) -> pa.Table:
    os._exit(1)


def test_a_sweep_is_its_comparisons_below_each_other(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "sweep.parquet"
    table = weir.sweep(GRID, out=out, workers=2, **FIXED)
    assert table.column_names[:3] == ["point", "point.policies", "point.seconds"]
    alone = weir.compare(policies="bfq", seconds=2, **FIXED)
    bare = table.filter(pa.compute.equal(table["point"], 3)).drop_columns(["point", "point.policies", "point.seconds"])
    assert bare.replace_schema_metadata(None).to_pylist() == alone.to_pylist()
    assert pq.read_table(out).equals(table)
    assert weir.sweep(GRID, out=out, workers=1, **FIXED).equals(table), "it is there already"
    assert list(out.parent.iterdir()) == [out], "nothing is left beside it"
    with pytest.raises(weir.UsageError, match="another sweep"):
        weir.sweep(GRID, out=out, **{**FIXED, "repetitions": 2})


def test_a_sweep_that_was_killed_goes_on_and_gives_the_same_table(tmp_path: Path) -> None:
    whole = weir.sweep(GRID, out=tmp_path / "whole.parquet", workers=2, **FIXED)
    out = tmp_path / "killed.parquet"
    program = f"""
import weir
if __name__ == "__main__":
    weir.sweep({GRID!r}, out={str(out)!r}, workers=2, **{FIXED!r})
"""
    (tmp_path / "sweep.py").write_text(program)
    parts = tmp_path / "killed.parquet.parts"
    kept = 0
    for least in (1, 3, 5):
        child = subprocess.Popen([sys.executable, str(tmp_path / "sweep.py")], start_new_session=True)
        while child.poll() is None and len(list(parts.glob("*.parquet"))) < least:
            time.sleep(0.005)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        before, kept = kept, len(list(parts.glob("*.parquet")))
        assert kept >= before
    print(f"killed three times, with {kept} of 6 points done at last")
    table = weir.sweep(GRID, out=out, workers=1, **FIXED)
    assert table.equals(whole) and table.schema.equals(whole.schema)
    assert out.read_bytes() == (tmp_path / "whole.parquet").read_bytes()


def test_a_point_that_fails_ends_the_sweep_and_what_is_done_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "sweep.parquet"
    with pytest.raises(weir.RunError, match="two is refused"):
        weir.sweep({"number": [1, 2]}, run=fail_at_two, out=out, workers=1)
    assert not out.exists()
    assert len(list(Path(f"{out}.parts").glob("*.parquet"))) == 1
    with pytest.raises(Exception, match="terminated abruptly"):
        weir.sweep({"number": [1]}, run=give_up, out=tmp_path / "died.parquet", workers=1)


@pytest.mark.parametrize(
    ("over", "more", "words"),
    [
        ({"number": []}, {}, "number must be a list of values"),
        ({"number": "12"}, {}, "number must be a list of values"),
        ({"number": [1]}, {"number": 2}, "also set outside of the grid"),
        ({"number": [1]}, {"workers": 0}, "from 1 on"),
        ({"number": [1]}, {"on": "moon"}, "processes, ray"),
        ({"number": [1]}, {"trials": 3}, "require a study"),
        ({"number": [object()]}, {}, "of JSON"),
    ],
)
def test_what_is_wrong_with_a_sweep_is_said(tmp_path: Path, over: Any, more: Any, words: str) -> None:
    with pytest.raises(weir.UsageError, match=words):
        weir.sweep(over, run=double, out=tmp_path / "sweep.parquet", **more)


def test_a_study_of_optuna_is_swept_and_goes_on(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def study() -> Any:
        backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal"))
        storage = optuna.storages.JournalStorage(backend)
        return optuna.create_study(study_name="s", storage=storage, load_if_exists=True)

    def sweep(trials: int) -> pa.Table:
        return weir.sweep(
            study(),
            run=double,
            out=tmp_path / "study.parquet",
            workers=2,
            suggest=lambda trial: {"number": trial.suggest_int("number", 1, 100)},
            objective=lambda table: table["double"][0].as_py(),
            trials=trials,
        )

    first = sweep(4)
    assert len(first) == 4
    # As if it had been ended with a trial under way.
    study().ask({"number": optuna.distributions.IntDistribution(1, 100)})
    more = sweep(6)
    assert len(more) == 6
    assert more.slice(0, 4).equals(first), "what was done stays"
    values = [2 * int(number) for number in more["point.number"].to_pylist()]
    assert more["double"].to_pylist() == values


def test_a_ray_cluster_gives_the_same_table(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    here = weir.sweep(GRID, out=tmp_path / "here.parquet", workers=2, **FIXED)
    there = weir.sweep(GRID, out=tmp_path / "there.parquet", workers=2, on="ray", **FIXED)
    assert there.equals(here)
