#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wall clock of hccl-perf beside gloo, Open MPI and plain memcpy, alternating in one run.

    benchmarks/collectives/wall/compare.py build/bin --ranks 2,4,8 --output FILE

Each round runs all four on the same operation and sizes, in turn; figures are medians of the rounds, the
spread (largest over smallest) says how idle the machine was. Sizes are those of the largest buffer of a
rank, f32 sums, times those of the slowest rank, per operation, with operations queued behind each other,
out of place, but for broadcasts, which the others have in place only;
below 64 KiB hccl-perf is also measured one operation at a time. gloo runs over a loopback of its own with
an MTU of 65536 and of 9000 (the better one counts), Open MPI with and without yielding when idle (likewise).
Exit codes: 0 ok, 1 user error, 2 beyond a gate (--gate), 3 a program failed.
"""

import argparse
import json
import math
import os
import platform
import shutil
import statistics
import subprocess
import sys

OPS = ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"]
SIZES = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20]


WARMUP = 20  # As kWarmup of Ranks.h: the same for all contenders.


class Failed(Exception):
    """A program ended with an error."""


def run(command, timeout, env=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False,
                              env=dict(os.environ, **(env or {})))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}: {lines[-1] if lines else 'no message'}")
    return json.loads(done.stdout)


def ours(bin_dir, op, ranks, sizes, blocking, timeout):
    """Microseconds by size. One run a size: the sizes need not be a sequence."""
    result = {}
    for size in sizes:
        iterations = 100 if size <= 4 << 20 else 20
        report = run([os.path.join(bin_dir, "hccl-perf"), op, "--ranks", str(ranks), "-b", str(size), "-e", str(size),
                      "--iters", str(iterations), "-w", str(WARMUP), "--no-check", "--json", "--target", "gaudi2"] +
                     (["--blocking"] if blocking else []), timeout)
        result[size] = next(line["wall_us"] for line in report["results"] if line["in_place"] == (op == "broadcast"))
    return result


def theirs(command, timeout, env=None):
    return {line["bytes"]: line["us"] for line in run(command, timeout, env)["results"]}


def contenders(bin_dir, op, ranks, sizes, timeout):
    """Names and functions that give microseconds by size."""
    listed = ",".join(map(str, sizes))
    runs = {
        "ours": lambda: ours(bin_dir, op, ranks, sizes, False, timeout),
        "memcpy": lambda: theirs([os.path.join(bin_dir, "copy_bench"), op, str(ranks), listed], timeout),
    }
    small = [size for size in sizes if size < 64 << 10]
    if small:
        runs["ours, one at a time"] = lambda: ours(bin_dir, op, ranks, small, True, timeout)
    gloo = os.path.join(bin_dir, "gloo_bench")
    # gloo's reduce-scatter gives other parts than asked for unless the ranks are a power of two.
    if os.path.exists(gloo):
        for mtu in (65536, 9000):
            script = f"ip link set lo mtu {mtu} up && exec {gloo} {op} {ranks} {listed}"
            runs[f"gloo, MTU {mtu}"] = lambda script=script: theirs(["unshare", "-rn", "sh", "-c", script], timeout)
    mpi = os.path.join(bin_dir, "mpi_bench")
    if os.path.exists(mpi) and shutil.which("mpirun"):
        command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), mpi, op, listed]
        if os.geteuid() == 0:
            command.insert(1, "--allow-run-as-root")
        for name, yields in (("Open MPI", "0"), ("Open MPI, yielding", "1")):
            runs[name] = lambda yields=yields: theirs(command, timeout, {"OMPI_MCA_mpi_yield_when_idle": yields})
    return runs


def measure(bin_dir, op, ranks, sizes, rounds, timeout):
    samples = {}
    runs = contenders(bin_dir, op, ranks, sizes, timeout)
    for _ in range(rounds):
        for name, function in runs.items():
            for size, us in function().items():
                samples.setdefault(name, {}).setdefault(size, []).append(us)
    return samples


def rows_of(op, ranks, samples):
    rows = []
    median = {name: {size: statistics.median(us) for size, us in sizes.items()} for name, sizes in samples.items()}
    for size, mine in sorted(median["ours"].items()):
        others = {name: by_size[size] for name, by_size in median.items()
                  if not name.startswith("ours") and name != "memcpy" and size in by_size}
        best = min(others, key=others.get) if others else None
        rows.append({
            "op": op, "ranks": ranks, "bytes": size, "us": mine,
            "spread": max(samples["ours"][size]) / min(samples["ours"][size]),
            "one_at_a_time_us": median.get("ours, one at a time", {}).get(size),
            "others_us": others, "best": best, "ratio": others[best] / mine if best else None,
            "memcpy_us": median["memcpy"].get(size), "share_of_memory_bound": median["memcpy"][size] / mine,
        })
    return rows


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def summary_of(rows):
    compared = [row for row in rows if row["ratio"]]
    large = [row["ratio"] for row in compared if row["bytes"] >= 1 << 20]
    middle = [row for row in compared if row["bytes"] >= 64 << 10]
    worst = min(middle, key=lambda row: row["ratio"]) if middle else None
    return {
        "geomean_from_1MB": geomean(large),
        "slowest_from_64KB": {key: worst[key] for key in ("op", "ranks", "bytes", "ratio", "best")} if worst else None,
        "slower_from_64KB": sum(row["ratio"] < 1 for row in middle),
        "rows_from_64KB": len(middle),
        "share_of_memory_bound_from_1MB": geomean([row["share_of_memory_bound"] for row in rows if row["bytes"] >= 1 << 20]),
        "latency_ratio_below_64KB": geomean([row["ratio"] for row in compared if row["bytes"] < 64 << 10]),
    }


def table(rows):
    lines = [f"{'op':15}{'ranks':>6}{'bytes':>10}{'us':>11}{'spread':>8}{'one us':>9}{'best other':>24}{'us':>11}{'ratio':>8}"
             f"{'memcpy us':>11}{'share':>7}"]
    for row in rows:
        one = f"{row['one_at_a_time_us']:.1f}" if row["one_at_a_time_us"] else ""
        other = f"{row['others_us'][row['best']]:.1f}" if row["best"] else ""
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else ""
        lines.append(f"{row['op']:15}{row['ranks']:6}{row['bytes']:10}{row['us']:11.1f}{row['spread']:8.2f}{one:>9}"
                     f"{row['best'] or '':>24}{other:>11}{ratio:>8}{row['memcpy_us']:11.1f}{row['share_of_memory_bound']:7.2f}")
    return "\n".join(lines)


def machine():
    model = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            model = next((line.split(":", 1)[1].strip() for line in info if line.startswith("model name")), "")
    except OSError:
        pass
    return {"cpu": model, "cpus": len(os.sched_getaffinity(0)), "kernel": platform.release()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder with hccl-perf, copy_bench, gloo_bench and mpi_bench")
    parser.add_argument("--ops", default=",".join(OPS))
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--output", help="file for all figures")
    parser.add_argument("--gate", type=float, help="fail when the geomean ratio from 1 MiB on is below this")
    args = parser.parse_args()
    try:
        ops, ranks = args.ops.split(","), [int(r) for r in args.ranks.split(",")]
        sizes = [int(s) for s in args.sizes.split(",")]
    except ValueError as error:
        parser.error(str(error))
    if args.rounds < 1 or not set(ops) <= set(OPS) or min(sizes) < 64:
        parser.error(f"--rounds must be at least 1, --ops of {', '.join(OPS)}, --sizes at least 64")
    rows = []
    try:
        for op in ops:
            for count in ranks:
                rows += rows_of(op, count, measure(args.bin, op, count, sizes, args.rounds, args.timeout))
                print(table(rows[-len(sizes):]), flush=True)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    summary = summary_of(rows)
    print(json.dumps(summary, indent=2))
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "rounds": args.rounds, "summary": summary, "rows": rows}, file, indent=1)
            file.write("\n")
    if args.gate and (summary["geomean_from_1MB"] or 0) < args.gate:
        print(f"error: the geomean from 1 MiB on is below {args.gate}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
