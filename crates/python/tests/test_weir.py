"""The module as a stranger uses it: what comes out is the command's, and what is wrong is said."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import weir

#: For calls that a type checker refuses.
UNTYPED: Any = weir

SHORT: dict[str, Any] = {
    "drives": "plextor-px-256m5s",
    "cases": "readers",
    "policies": ["none", "bfq"],
    "repetitions": 2,
    "seconds": 1,
}

MINE: dict[str, Any] = {
    "name": "mine",
    "drives": ["plextor-px-256m5s"],
    "policies": ["none", "contract"],
    "duration": "2s",
    "grouping": "each",
    "client": [
        {"name": "a", "rw": "randread", "bs": "4KiB", "direct": True, "iodepth": 8, "size": "1GiB", **weir.Contract(min="10MB/s")},
        {"name": "b", "rw": "read", "bs": "128KiB", "direct": True, "iodepth": 32, "size": "1GiB"},
    ],
}


def test_a_comparison_is_the_commands() -> None:
    command = os.environ.get("WEIR")
    if not command:
        pytest.skip("WEIR names the command")
    words = "compare latency --drive plextor-px-256m5s --case readers --policy none --policy bfq --repetitions 2 --seconds 1 --json -"
    said = subprocess.run([command, *words.split()], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in said.stdout.splitlines()]
    table = weir.compare("latency", **SHORT)
    assert len(table) == len(lines)
    for row, line in zip(table.to_pylist(), lines):
        described = {path.split(".")[0] for path in row}
        assert set(line) <= described, "every key has a column"
        # The command writes it as text, because JSON's numbers are exact up to 2^53 only.
        assert row["seed"] == int(line["seed"])
        for key in ("policy", "client", "requests", "bandwidth_mb_per_s", "starved", "series_mb_per_s"):
            assert row[key] == line.get(key), key
        latency = line["latency_us"] or {}
        for key, value in latency.items():
            assert row[f"latency_us.{key}"] == value


def test_columns_are_the_same_whatever_was_played() -> None:
    one = weir.compare("latency", **SHORT)
    other = weir.compare(weir.Scenario(MINE), repetitions=1)
    assert one.schema == other.schema
    assert len(pa.concat_tables([one, other])) == len(one) + len(other)
    assert one.to_pandas()["bandwidth_mb_per_s"].gt(0).all()
    promised = [row for row in other.to_pylist() if row["promised_mb_per_s"]]
    assert {row["client"] for row in promised} == {"a"}
    assert {row["policy"]: row["promise"] for row in promised}["contract"] == "kept"


def test_results_do_not_depend_on_jobs_or_on_audits() -> None:
    assert weir.compare("latency", **SHORT, jobs=1) == weir.compare("latency", **SHORT, jobs=2, audit=True)


def test_a_plan_says_how_many_drives_are_needed() -> None:
    table = weir.plan(weir.Scenario(MINE), policies="contract", repetitions=1, keep=90)
    rows = {row["policy"]: row for row in table.to_pylist()}
    assert set(rows) == {"a drive each", "contract"}
    assert rows["contract"]["drives"] == 1
    assert rows["contract"]["searches"] == [1]


def test_a_seed_of_the_search_is_always_the_same() -> None:
    table = weir.search(2, seed=7, kind="null")
    assert table["seed"].to_pylist() == [7, 8]
    assert table.slice(1) == weir.search(1, seed=8, kind="null")
    assert table["broken"].null_count == 2


def test_objects_are_names_files_texts_and_mappings(tmp_path: Path) -> None:
    policy = weir.Policy("bfq")
    file = tmp_path / "mine.toml"
    file.write_text(policy.text.replace('"bfq"', '"mine"', 1))
    mine = weir.Policy(file)
    assert mine.name == "mine"
    assert weir.Policy.parse(mine.text, "mine.toml") == mine
    drive = weir.Drive({"name": "quick", "about": "none", "kind": "null", "service": "50us"})
    assert drive.name == "quick"
    table = weir.compare(MINE, drives=[drive], policies=[mine, "bfq + io.latency"], repetitions=1)
    assert set(table["policy"].to_pylist()) == {"mine", "bfq + io.latency"}
    assert "latency" in weir.scenarios() and "bfq" in weir.policies() and "samsung-970-pro" in weir.drives()
    assert weir.Scenario("latency").text.startswith("#")


def test_objects_can_be_pickled_and_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.toml").write_text(weir.Policy("bfq").text)
    for made in (weir.Scenario(MINE), weir.Policy("own.toml"), weir.Drive("samsung-970-pro")):
        text = pickle.dumps(made)
        monkeypatch.chdir("/")
        assert pickle.loads(text) == made == copy.deepcopy(made)
        monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: weir.compare("latncy"), weir.UsageError, "latency"),
        (lambda: weir.compare("latency", drives="samsung"), weir.UsageError, "weir drives"),
        (lambda: weir.compare("latency", policies="bfk"), weir.UsageError, "bfq"),
        (lambda: weir.compare("latency", cases="reader"), weir.UsageError, "has the cases readers, writers"),
        (lambda: weir.compare("latency", repetitions=0), weir.UsageError, "from 1 to 10000"),
        (lambda: weir.compare("latency", seconds=-1), weir.UsageError, "from 1 to 3600"),
        (lambda: weir.compare("latency", jobs=2**40), weir.UsageError, "from 1 to 1024"),
        (lambda: weir.compare("latency", seconds=2**80), OverflowError, ""),
        (lambda: UNTYPED.compare("latency", seconds="1"), TypeError, "integer"),
        (lambda: UNTYPED.compare(5), TypeError, "a name, a path or a mapping"),
        (lambda: UNTYPED.compare("latency", policies=[None]), TypeError, "a name, a path or a mapping"),
        (lambda: weir.compare("/none/such.toml"), weir.ProblemError, "/none/such.toml"),
        (lambda: weir.Scenario({"name": "a", "duraton": "2s"}), weir.ProblemError, "duration"),
        (lambda: weir.Scenario({"name": None}), weir.WeirError, ""),
        (lambda: weir.Scenario({"name": {1, 2}}), TypeError, "set"),
        (lambda: weir.Policy.parse("name = 5", "p.toml"), weir.ProblemError, "p.toml:1:8"),
        (lambda: weir.Drive("bad\0name.toml"), weir.WeirError, ""),
        (lambda: weir.plan("latency", keep=0), weir.UsageError, "from 1 to 100"),
        (lambda: weir.plan({**MINE, "client": MINE["client"][1:]}), weir.UsageError, "set a `min`"),
        (lambda: weir.search(0), weir.UsageError, "from 1 to"),
        (lambda: weir.search(1, kind="tape"), weir.UsageError, "null"),
        (lambda: weir.search(1, seed=-1), OverflowError, ""),
    ],
)
def test_what_is_wrong_is_said(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=".*") as raised:
        call()
    assert words in str(raised.value)


def test_two_drives_of_one_name_are_refused() -> None:
    drives = [weir.Drive({"name": "d", "about": "none", "kind": "null", "service": f"{n}us"}) for n in (50, 60)]
    with pytest.raises(weir.UsageError, match="two drives have the name d"):
        weir.compare(MINE, drives=drives)


def test_other_threads_go_on_meanwhile_and_may_call_too() -> None:
    alone = weir.compare("latency", **SHORT)
    came: list[pa.Table] = []
    threads = [threading.Thread(target=lambda: came.append(weir.compare("latency", **SHORT))) for _ in range(3)]
    for thread in threads:
        thread.start()
    ticks = 0
    while any(thread.is_alive() for thread in threads):
        ticks += 1
        time.sleep(0.001)
    assert ticks > 10, "this thread had its turns"
    assert came == [alone] * 3


@pytest.mark.parametrize(
    "call",
    ["compare('latency', seconds=3600)", "search(10**6)", "plan('contract', seconds=600, repetitions=100)"],
)
def test_an_interrupt_ends_a_call_soon(call: str) -> None:
    program = f"import weir\nprint('begun', flush=True)\ntry:\n    weir.{call}\nexcept KeyboardInterrupt:\n    print('ended')\n"
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert child.stdout and child.stdout.readline() == "begun\n"
    time.sleep(1)
    child.send_signal(signal.SIGINT)
    assert child.communicate(timeout=60)[0] == "ended\n"


def test_the_elevator_answers_every_request_once() -> None:
    layer = weir.elevator("latency", policy="bfq", case="readers")
    waiting: dict[int, str] = {}
    for turn in range(20):
        requests = [weir.Request(name, "read", turn * 4096, 4096) for name in layer.clients]
        waiting.update(zip(layer.submit(turn, requests), layer.clients))
    now, flying, served = 20, [], []
    while waiting:
        step = layer.poll(now)
        flying += [piece.tag for piece in step.dispatched]
        for done in step.done:
            assert waiting.pop(done.cookie) == done.client
            assert done.outcome == "ok" and done.limit + done.elevator + done.drive == now - done.submitted
            served.append(done.client)
        now = now + 50_000 if flying else max(now + 1, step.wake or 0)
        layer.complete(now, flying[:1])
        del flying[:1]
    assert len(served) == 20 * len(layer.clients)
    assert layer.in_flight == 0 and layer.stray == 0


def test_the_elevator_keeps_a_max() -> None:
    mine = copy.deepcopy(MINE)
    mine["client"][0] = {**mine["client"][0], **weir.Contract(min="1MB/s", max={"bandwidth": "1MB/s"})}
    layer = weir.elevator(mine)
    layer.submit(0, [weir.Request("a", "read", at * 2**20, 2**20) for at in range(3)])
    step = layer.poll(0)
    assert sum(piece.length for piece in step.dispatched) <= 2**20
    assert step.wake is not None


def test_the_elevator_refuses_what_cannot_be() -> None:
    layer = weir.elevator("latency", case="readers")
    name = layer.clients[0]
    with pytest.raises(weir.UsageError, match="nobody.*use one of target"):
        layer.submit(0, [weir.Request("nobody")])
    with pytest.raises(weir.UsageError, match="OutOfRange"):
        layer.submit(0, [weir.Request(name, "read", 2**64 - 4096, 8192)])
    with pytest.raises(weir.UsageError, match="BadLength"):
        layer.submit(0, [weir.Request(name, length=0)])
    with pytest.raises(weir.UsageError, match="write-zeroes"):
        weir.Request(name, "erase")
    with pytest.raises(OverflowError):
        weir.Request(name, "read", -1)
    with pytest.raises(weir.UsageError, match="StreamFull"):
        layer.submit(0, [weir.Request(name)] * 100_000)
    layer.poll(9)
    with pytest.raises(ValueError, match="must not be before"):
        layer.poll(8)
    layer.complete(10, [12345])
    assert layer.stray == 1
    with pytest.raises(weir.UsageError, match="has the cases"):
        weir.elevator("latency", case="none")
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(layer.poll(11)))
    thread.start()
    thread.join()
    assert len(came) == 1, "another thread may call it, too"
