#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compile and load times of models beside ONNX Runtime's session creation, on the same cores.

For each model: a cold compilation (hpu-compile, without a cache: time by phase and peak memory of
the process), then alternating rounds of a warm start (hpu-run with a cache that holds the recipe:
finding it by content, verifying it and loading it onto the device) and of ONNX Runtime creating its
session. The process's own start is in neither. Ratio = warm start / session; below 1 the warm start
is faster. Exit codes: 0 ok, 1 user error, 2 beyond a --gate, 3 a program failed.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from harness import (ORT_BENCH, ProgramFailed, add_timing_options, chosen_cpus, data_set, in_turn, machine, make_parser,
                     measure_each, parse_json, reason_of, run_benchmark, run_json)

MB = 1e6


def model_bytes(model):
    """Bytes of the model with all files beside it that may hold its weights."""
    folder = os.path.dirname(os.path.abspath(model))
    return os.path.getsize(model) + sum(
        entry.stat().st_size for entry in os.scandir(folder)
        if entry.is_file() and entry.name.endswith((".data", ".bin", ".weight")))


def run_measured(command, cpus, timeout):
    """As run_json, and the peak resident memory of the process in bytes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            process = subprocess.Popen(command, stdout=out, stderr=err,
                                       preexec_fn=lambda: os.sched_setaffinity(0, cpus))
        except OSError as error:
            raise ProgramFailed(f"{os.path.basename(command[0])}: {error}") from error
        # wait4 tells the usage of this child alone.
        stop = time.monotonic() + timeout
        while True:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > stop:
                process.kill()
                process.wait()
                raise ProgramFailed(f"{os.path.basename(command[0])}: no end within {timeout:g} s")
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode != 0:
            reason = reason_of(*(stream.read().decode(errors="replace") for stream in (err, out)))
            raise ProgramFailed(f"{' '.join(command)}: exit code {process.returncode}: {reason}")
        return parse_json(command, out.read()), usage.ru_maxrss * 1024


def measure(model, data, args, cpus, work):
    recipe, cache = os.path.join(work, "cold.recipe"), os.path.join(work, "cache")
    options = ["--target", args.target, *args.hpu_option]
    cold, peak = run_measured([os.path.join(args.build, "bin", "hpu-compile"), model, "-o", recipe,
                               "--json", *options], cpus, args.timeout)
    size = model_bytes(model)
    result = {
        "model_bytes": size, "recipe_bytes": cold["recipe_bytes"],
        "cold_ms": cold["compile_ms"], "phases": {p["name"]: p["ms"] for p in cold["phases"]},
        "peak_bytes": peak, "peak_limit_bytes": 3 * size + int(500 * MB), "rounds": []}
    os.remove(recipe)
    hpu = [os.path.join(args.build, "bin", "hpu-run"), model, "--data", data, "--cache", cache,
           "--threads", str(args.threads), "--iters", "1", "--json", *options]
    ort = ["node", ORT_BENCH, model, "--data", data, "--threads", str(args.threads), "--iters", "1",
           "--warmup", "0", "--json"]
    run_json(hpu, cpus, args.timeout)  # fills the cache
    for index in range(args.rounds):
        found = {}
        for name in in_turn(index, "hpu", "ort"):
            found[name] = run_json(hpu if name == "hpu" else ort, cpus, args.timeout)
        if not found["hpu"].get("cache_hit"):
            raise ProgramFailed("hpu-run: the recipe was not found in the cache")
        warm = found["hpu"]["compile_ms"] + found["hpu"]["load_ms"]
        result["rounds"].append({
            "lookup_ms": found["hpu"]["compile_ms"], "load_ms": found["hpu"]["load_ms"],
            "warm_ms": warm, "ort_session_ms": found["ort"]["session_ms"],
            "ratio": warm / found["ort"]["session_ms"]})
    ratios = [r["ratio"] for r in result["rounds"]]
    result["ratio"] = {"min": min(ratios), "median": statistics.median(ratios), "max": max(ratios)}
    return result


def parse(argv):
    parser = make_parser(__doc__)
    add_timing_options(parser)
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--gate-cold", type=float, metavar="S",
                        help="exit 2 when a cold compilation takes longer")
    parser.add_argument("--gate-memory", action="store_true",
                        help="exit 2 when a compilation's peak is beyond 3 x the model + 500 MB")
    parser.add_argument("--gate", type=float, metavar="RATIO",
                        help="exit 2 when a median ratio is above this")
    args = parser.parse_args(argv)
    if min(args.rounds, args.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    return args


def failures(name, result, args):
    """What of one model is beyond a gate."""
    found = []
    if args.gate_cold and result["cold_ms"] > args.gate_cold * 1000:
        found.append(f"{name}: compiled in {result['cold_ms'] / 1000:.1f} s, more than {args.gate_cold:g} s")
    if args.gate_memory and result["peak_bytes"] > result["peak_limit_bytes"]:
        found.append(f"{name}: peak memory {result['peak_bytes'] / MB:.0f} MB, more than "
                     f"{result['peak_limit_bytes'] / MB:.0f} MB")
    if args.gate and result["ratio"]["median"] > args.gate:
        found.append(f"{name}: median ratio {result['ratio']['median']:.2f}, above {args.gate:g}")
    return found


def table(report, _args):
    lines = [f"{report['machine']['cpu']}, {report['threads']} threads on CPUs {report['cpus']}; "
             f"warm and session: medians of {report['rounds']} rounds; ratio = warm / session",
             f"{'model':32} {'cold s':>7} {'peak MB':>8} {'limit':>6} {'lookup ms':>10} {'load ms':>8} "
             f"{'warm ms':>8} {'ort ms':>8} {'ratio':>6} {'max':>5}"]
    for name, result in report["models"].items():
        if "error" in result:
            lines.append(f"{name:32} FAILED {result['error']}")
            continue

        def median(key, rounds=result["rounds"]):
            return statistics.median(r[key] for r in rounds)
        lines.append(f"{name:32} {result['cold_ms'] / 1000:7.2f} {result['peak_bytes'] / MB:8.0f} "
                     f"{result['peak_limit_bytes'] / MB:6.0f} {median('lookup_ms'):10.1f} "
                     f"{median('load_ms'):8.1f} {median('warm_ms'):8.1f} {median('ort_session_ms'):8.1f} "
                     f"{result['ratio']['median']:6.2f} {result['ratio']['max']:5.2f}")
    return "\n".join(lines)


def make_report(args, models):
    cpus = chosen_cpus(args)
    report = {"machine": machine(), "threads": args.threads, "cpus": sorted(cpus),
              "rounds": args.rounds, "models": {}}

    def one(model, folder):
        work = tempfile.mkdtemp(prefix="hpu-compile-time-")
        try:
            return measure(model, data_set(folder), args, cpus, work)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    measure_each(models, report, one)
    return report


def beyond(report, args):
    return [line for name, result in report["models"].items() for line in failures(name, result, args)]


def main(argv=None):
    return run_benchmark(argv, parse, True, make_report, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
