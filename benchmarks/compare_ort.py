#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compares hpu-run's host latency with ONNX Runtime's, alternating the two on the same cores.

Each round runs both programs once per model (hpu first in even rounds, ONNX Runtime first in odd
ones) and gives one ratio, hpu p50 / ONNX Runtime p50; below 1 hpu-run is faster. Exit codes: 0 ok,
1 user error, 2 a median ratio above --gate, 3 a program failed.
"""

import argparse
import datetime
import json
import os
import platform
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ORT_BENCH = os.path.join(HERE, "ort", "ort_bench.js")


class ProgramFailed(Exception):
    """One of the two programs ended with an error; the text says which, how and why."""


def run_json(command, cpus, timeout):
    """Runs a command and returns the JSON object that it prints; `cpus` None: on any CPU (threads may call then)."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus is not None else None
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                check=False, preexec_fn=pin)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{os.path.basename(command[0])}: {error}") from error
    if result.returncode != 0:
        reason = (result.stderr or result.stdout).strip().splitlines()
        raise ProgramFailed(f"{' '.join(command)}: exit code {result.returncode}: "
                            f"{reason[-1] if reason else 'no message'}")
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError as error:
        raise ProgramFailed(f"{' '.join(command)}: stdout is not JSON: {error}") from error


def find_models(paths):
    """(name, model file, data folder) of each model file, model folder or folder of those."""
    found = []
    for path in paths:
        if os.path.isfile(path):
            path = os.path.dirname(os.path.abspath(path))
        candidates = [path] + sorted(os.path.join(path, name) for name in os.listdir(path))
        for folder in candidates:
            model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "test_data_set_0")
            if os.path.isfile(model) and os.path.isdir(data):
                found.append((os.path.basename(os.path.abspath(folder)), model, data))
    return found


def measure(model, data, args, cpus):
    """Alternating rounds: a dictionary of latencies in milliseconds and of ratios."""
    common = ["--data", data, "--iters", str(args.iters), "--warmup", str(args.warmup),
              "--threads", str(args.threads), "--json"]
    commands = {
        "hpu": [os.path.join(args.build, "bin", "hpu-run"), model, *common, *args.hpu_option],
        "ort": ["node", ORT_BENCH, model, *common]}
    rounds = []
    for index in range(args.rounds):
        order = ("hpu", "ort") if index % 2 == 0 else ("ort", "hpu")
        results = {name: run_json(commands[name], cpus, args.timeout) for name in order}
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


def machine():
    """What the numbers depend on: processor, cores, kernel, date."""
    model = platform.processor() or "unknown"
    flags = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            text = file.read()
        model = re.search(r"model name\s*: (.*)", text).group(1)
        flags = " ".join(flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16")
                         if re.search(rf"\b{flag}\b", text))
    except (OSError, AttributeError):
        pass
    return {"cpu": model, "isa": flags, "cpus": os.cpu_count(), "kernel": platform.release(),
            "date": datetime.date.today().isoformat()}


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model files or folders, or a folder of them")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="build tree")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--iters", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", help="CPU numbers for both, such as 0,1 (default: the first ones)")
    parser.add_argument("--hpu-option", action="append", default=[],
                        help="another argument of hpu-run, such as --hpu-option=--precision=bf16")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--gate", type=float, help="exit 2 when a median ratio is above this")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    parser.add_argument("--json", action="store_true", help="print that JSON instead of the table")
    args = parser.parse_args(argv)
    if min(args.rounds, args.iters, args.threads) < 1:
        parser.error("--rounds, --iters and --threads must be at least 1")
    return args


def main(argv=None):
    try:
        args = parse(argv)
        allowed = sorted(os.sched_getaffinity(0))
        cpus = {int(cpu) for cpu in args.cpus.split(",")} if args.cpus else \
            set(allowed[:args.threads])
        models = find_models(args.models)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except SystemExit as stop:  # argparse exits with 2, which means a regression here
        return 1 if stop.code else 0
    if not models:
        print("error: no folder with model.onnx and test_data_set_0 among the arguments; make some "
              "with tests/models/export_models.py", file=sys.stderr)
        return 1

    report = {"machine": machine(), "threads": args.threads, "cpus": sorted(cpus),
              "rounds": args.rounds, "iters": args.iters, "warmup": args.warmup, "models": {}}
    failed = False
    for name, model, data in models:
        print(f"{name} ...", file=sys.stderr)
        try:
            report["models"][name] = measure(model, data, args, cpus)
        except ProgramFailed as error:
            report["models"][name] = {"error": str(error)}
            failed = True
    text = json.dumps(report, indent=1)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    print(text if args.json else table(report))
    if failed:
        return 3
    slow = [name for name, result in report["models"].items()
            if args.gate and result["ratio"]["median"] > args.gate]
    for name in slow:
        print(f"error: {name}: median ratio above {args.gate}", file=sys.stderr)
    return 2 if slow else 0


def table(report):
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


if __name__ == "__main__":
    sys.exit(main())
