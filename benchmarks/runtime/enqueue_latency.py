#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Percentiles of what an enqueue and a launch cost their caller, beside those of an empty call, and whether they hold.

    benchmarks/runtime/enqueue_latency.py build/bin/runtime_enqueue_benchmark [--before OLD_PROGRAM] [--json FILE]

Runs the program ROUNDS times (and another build of it in turns, with --before) and takes the middle run of each row.
Fails when a 99th percentile is above its limit, when one of 200,000 enqueues cost its thread more than 200 us of CPU time
or of waiting for a lock (more often than an empty call did), when a call failed, or when a median is more than a tenth above the other build's.
For an otherwise idle machine: another program that wants the caller's core shows first in the 99th percentile, and in
the control's."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

LIMITS_NS = {
    "enqueueCopyToDevice": 5000,
    "enqueueCopyByAddress": 5000,
    "enqueueFill": 5000,
    "enqueueRecord": 5000,
    "enqueueWait": 5000,
    "enqueueLaunch": 8000,
    "enqueueLaunchByAddress": 8000,
    "enqueueLaunchBesideAllocations": 8000,
}
BATCHES = (1, 100, 10000)
STALLS = "stallsOfABacklog"
SLOWER = 1.1


def run(program):
    """The counters of one run, by row: "enqueueFill/100"."""
    names = "|".join(f"^{name}/" for name in [*LIMITS_NS, STALLS])
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([program, f"--benchmark_filter={names}", f"--benchmark_out={report}",
                        "--benchmark_out_format=json"], check=True, stdout=subprocess.DEVNULL)
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["benchmarks"]
    for row in rows:
        if row.get("error_occurred"):
            sys.exit(f"{program}: {row['name']}: {row.get('error_message', 'failed')}")
    table = {}
    for row in rows:
        name, batch = (row["name"].split("/") + ["1"])[:2]
        if name == STALLS:
            table[STALLS] = row
            continue
        row["mean_ns"] = row["real_time"] / int(batch)
        table[f"{name}/{batch}"] = row
    return table


def middle(runs, row, counter):
    values = [one[row][counter] for one in runs if row in one and counter in one[row]]
    return statistics.median(values) if values else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--before", help="another build of the program, whose medians are not to be better")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", help="writes the table there")
    options = parser.parse_args()
    ours, before = [], []
    for _ in range(options.rounds):
        ours.append(run(options.program))
        if options.before:
            before.append(run(options.before))
    failures, table = [], []
    print(f"{'call, batch':38} {'median':>8} {'mean':>8} {'p99':>8} {'p99.9':>8} {'max':>9}   control: {'median':>6} "
          f"{'p99':>6} {'p99.9':>7} {'limit':>7}" + ("   before: median     mean      p99" if before else ""))
    for name, limit in LIMITS_NS.items():
        for batch in BATCHES:
            row = f"{name}/{batch}"
            if any(row not in one for one in ours):
                sys.exit(f"{options.program} has no benchmark {row}")
            value = {counter: middle(ours, row, counter) for counter in
                     ("median_ns", "mean_ns", "p99_ns", "p999_ns", "max_ns", "control_median_ns", "control_p99_ns",
                      "control_p999_ns")}
            old, old_mean, old_p99 = (middle(before, row, counter) for counter in ("median_ns", "mean_ns", "p99_ns"))
            print(f"{row:38} {value['median_ns']:8.0f} {value['mean_ns']:8.0f} {value['p99_ns']:8.0f} "
                  f"{value['p999_ns']:8.0f} {value['max_ns']:9.0f}            {value['control_median_ns']:6.0f} "
                  f"{value['control_p99_ns']:6.0f} {value['control_p999_ns']:7.0f} {limit:7}" +
                  (f"         {old:8.0f} {old_mean:8.0f} {old_p99:8.0f}" if old is not None else ""))
            table.append({"row": row, "limit_ns": limit, "before_median_ns": old, "before_mean_ns": old_mean,
                          "before_p99_ns": old_p99, **value})
            if value["p99_ns"] > limit:
                failures.append(f"{row}: p99 is {value['p99_ns']:.0f} ns, above {limit}")
            if old is not None and value["median_ns"] > SLOWER * old:
                failures.append(f"{row}: the median is {value['median_ns']:.0f} ns, and was {old:.0f}")
    stalls = {counter: middle(ours, STALLS, counter) for counter in
              ("cpu_stalls", "wait_stalls", "longest_cpu_ns", "longest_wait_ns", "control_cpu_stalls",
               "control_wait_stalls")}
    print(f"200,000 enqueues: {stalls['cpu_stalls']:.0f} above 200 us of CPU time (longest "
          f"{stalls['longest_cpu_ns'] / 1000:.0f} us), {stalls['wait_stalls']:.0f} above 200 us of waiting (longest "
          f"{stalls['longest_wait_ns'] / 1000:.0f} us); of as many empty calls {stalls['control_cpu_stalls']:.0f} and "
          f"{stalls['control_wait_stalls']:.0f}")
    if (stalls["cpu_stalls"] > stalls["control_cpu_stalls"]
            or stalls["wait_stalls"] > stalls["control_wait_stalls"]):
        failures.append("enqueues of a backlog stalled")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"rounds": options.rounds, "rows": table, "stalls": stalls, "failures": failures}, file, indent=1)
    for failure in failures:
        print("FAILED:", failure)
    return 2 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
