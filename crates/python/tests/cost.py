"""What `weir.compare` costs beside the command: `WEIR=path/to/weir python cost.py`. Both builds have to be release.

Processor time of both, alternately, since others' work changes wall-clock time more. The command's is that of its whole process; the module's
that of the call, with its table. What others do to caches only adds to it, so that the least of each counts; medians stand beside. Fails above 10 %.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

import weir

#: More than the goal is said; far more fails.
ROUNDS, GOAL, MOST = int(os.environ.get("WEIR_ROUNDS", "9")), 0.02, 0.1
DRIVE, CASE, POLICIES, REPETITIONS = "plextor-px-256m5s", "readers", ["none", "bfq", "contract"], 40


def command(weir: str) -> float:
    words = ["compare", "latency", "--drive", DRIVE, "--case", CASE, "--repetitions", str(REPETITIONS), "--jobs", "1", "--json", os.devnull]
    for policy in POLICIES:
        words += ["--policy", policy]
    before = os.times()
    subprocess.run([weir, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def module() -> float:
    before = os.times()
    weir.compare("latency", drives=DRIVE, cases=CASE, policies=POLICIES, repetitions=REPETITIONS, jobs=1)
    after = os.times()
    return after.user + after.system - before.user - before.system


def main() -> None:
    program = os.environ["WEIR"]
    command(program), module()
    pairs = []
    for turn in range(ROUNDS):
        # Each goes first in turn.
        if turn % 2:
            mine, its = module(), command(program)
        else:
            its, mine = command(program), module()
        pairs.append((its, mine))
    least = [min(side) for side in zip(*pairs)]
    its, mine = (statistics.median(side) for side in zip(*pairs))
    more = least[1] / least[0] - 1
    print(
        f"compare: {100 * more:+.1f} % beside the command (goal: {100 * GOAL:.0f} %), least of {ROUNDS} runs each: "
        f"{least[1]:.2f} s beside {least[0]:.2f} s; medians {mine:.2f} s beside {its:.2f} s"
    )
    sys.exit(more > MOST)


if __name__ == "__main__":
    main()
