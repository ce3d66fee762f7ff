#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What an enqueue, a cached eager op and a replayed launch cost their caller, beside an op of PyTorch CPU eager.

    benchmarks/runtime/eager_ratio.py build/bin/runtime_enqueue_benchmark

Both sides are measured on this machine, one after the other, ROUNDS times; the ratio is that of the medians
(below 1: cheaper than PyTorch's call). PyTorch's op copies 4 KB of i32 into a given tensor, on one thread: its cost is
the dispatcher's and the copy's, where ours is the enqueue alone (the work runs behind it).

With --gate the exit code is 2 when a row is above its aim: the gate of a release, on an idle machine. No test gates on it,
since it is wall time."""
import argparse
import json
import statistics
import subprocess
import sys
import time

ROWS = {
    "copy 4 KB to the device": "enqueueCopyToDevice/100",
    "fill 4 KB": "enqueueFill/100",
    "event record": "enqueueRecord/100",
    "launch, same buffers": "enqueueLaunch/100",
    "cached eager op": "eagerOp/100",
    "replay, per captured launch": "replayPerLaunch/100",
}
AIMS_NS = {"cached eager op": 15000, "replay, per captured launch": 3000}


def torch_ns(samples):
    """Median nanoseconds of one torch op."""
    import torch
    torch.set_num_threads(1)
    source, target = torch.zeros(1024, dtype=torch.int32), torch.zeros(1024, dtype=torch.int32)
    for _ in range(1000):
        target.copy_(source)
    times = []
    for _ in range(samples):
        start = time.perf_counter_ns()
        for _ in range(20):
            target.copy_(source)
        times.append((time.perf_counter_ns() - start) / 20)
    return statistics.median(times)


def ours_ns(program):
    """Median nanoseconds by row, from one run of the benchmark."""
    names = "|".join(f"^{name}/" for name in ROWS.values())
    text = subprocess.run([program, f"--benchmark_filter={names}", "--benchmark_format=json"], check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    medians = {}
    for run in json.loads(text)["benchmarks"]:
        for row, name in ROWS.items():
            if run["name"].startswith(name + "/"):
                medians[row] = run["median_ns"]
    missing = [row for row in ROWS if row not in medians]
    if missing:
        sys.exit(f"{program} has no benchmark for: {', '.join(missing)}")
    return medians


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="runtime_enqueue_benchmark")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--gate", action="store_true", help="exit code 2 when a row is above its aim")
    options = parser.parse_args()
    theirs, ours = [], {row: [] for row in ROWS}
    for _ in range(options.rounds):
        theirs.append(torch_ns(2000))
        for row, value in ours_ns(options.program).items():
            ours[row].append(value)
    base = statistics.median(theirs)
    print(f"PyTorch CPU eager, copy_ of 4 KB: median {base:.0f} ns (rounds {min(theirs):.0f} to {max(theirs):.0f})")
    print(f"{'call':30} {'median':>9} {'rounds':>17} {'aim':>9} {'ratio':>7}")
    missed = []
    for row, values in ours.items():
        median = statistics.median(values)
        aim = AIMS_NS.get(row, 5000)
        if median > aim:
            missed.append(row)
        print(f"{row:30} {median:6.0f} ns {min(values):7.0f} to {max(values):6.0f} {aim:6d} ns {median / base:7.2f}"
              f"{'' if median <= aim else '  above its aim'}")
    return 2 if options.gate and missed else 0


if __name__ == "__main__":
    sys.exit(main())
