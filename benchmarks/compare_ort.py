#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares hpu-run's host latency with ONNX Runtime's, alternating the two on the same cores.

Each round runs both programs once per model (hpu first in even rounds, ONNX Runtime first in odd
ones) and gives one ratio, hpu p50 / ONNX Runtime p50; below 1 hpu-run is faster. Exit codes: 0 ok,
1 user error, 2 a median ratio above --gate, 3 a program failed.
"""

import os
import statistics
import sys

from harness import (ORT_BENCH, add_timing_options, chosen_cpus, data_set, in_turn, machine, make_parser, measure_each,
                     run_benchmark, run_json)


def measure(model, folder, args, cpus):
    """Alternating rounds: a dictionary of latencies in milliseconds and of ratios."""
    common = ["--data", data_set(folder), "--iters", str(args.iters), "--warmup", str(args.warmup),
              "--threads", str(args.threads), "--json"]
    commands = {
        "hpu": [os.path.join(args.build, "bin", "hpu-run"), model, *common, *args.hpu_option],
        "ort": ["node", ORT_BENCH, model, *common]}
    rounds = []
    for index in range(args.rounds):
        results = {name: run_json(commands[name], cpus, args.timeout) for name in in_turn(index, "hpu", "ort")}
        rounds.append({
            "hpu_p50_ms": results["hpu"]["host_latency_ms"]["p50"],
            "hpu_min_ms": results["hpu"]["host_latency_ms"]["min"],
            "ort_p50_ms": results["ort"]["host_latency_ms"]["p50"],
            "ort_min_ms": results["ort"]["host_latency_ms"]["min"],
            "device_time_us": results["hpu"].get("device_time_us")})
    ratios = [r["hpu_p50_ms"] / r["ort_p50_ms"] for r in rounds]
    return {"rounds": rounds,
            "ratio": {"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)},
            "ratio_of_minima": min(r["hpu_min_ms"] for r in rounds) /
                               min(r["ort_min_ms"] for r in rounds)}


def parse(argv):
    parser = make_parser(__doc__)
    add_timing_options(parser)
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--gate", type=float, help="exit 2 when a median ratio is above this")
    args = parser.parse_args(argv)
    if min(args.rounds, args.iters, args.threads) < 1:
        parser.error("--rounds, --iters and --threads must be at least 1")
    return args


def make_report(args, models):
    cpus = chosen_cpus(args)
    report = {"machine": machine(), "threads": args.threads, "cpus": sorted(cpus),
              "rounds": args.rounds, "iters": args.iters, "warmup": args.warmup, "models": {}}
    measure_each(models, report, lambda model, folder: measure(model, folder, args, cpus))
    return report


def table(report, _args):
    lines = [f"{report['machine']['cpu']}, {report['threads']} threads on CPUs {report['cpus']}, "
             f"{report['rounds']} rounds of {report['iters']} runs; ratio = hpu p50 / ort p50",
             f"{'model':28} {'hpu p50 ms':>11} {'ort p50 ms':>11} {'min':>6} {'median':>7} {'max':>6}"
             f" {'of minima':>10}"]
    for name, result in report["models"].items():
        if "error" in result:
            lines.append(f"{name:28} FAILED {result['error']}")
            continue
        latency = {key: statistics.median(r[key] for r in result["rounds"])
                   for key in ("hpu_p50_ms", "ort_p50_ms")}
        ratio = result["ratio"]
        lines.append(f"{name:28} {latency['hpu_p50_ms']:11.3f} {latency['ort_p50_ms']:11.3f} "
                     f"{ratio['min']:6.2f} {ratio['median']:7.2f} {ratio['max']:6.2f} "
                     f"{result['ratio_of_minima']:10.2f}")
    return "\n".join(lines)


def beyond(report, args):
    return [f"{name}: median ratio above {args.gate}" for name, result in report["models"].items()
            if args.gate and result["ratio"]["median"] > args.gate]


def main(argv=None):
    return run_benchmark(argv, parse, True, make_report, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
