#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Compile and load times of models beside ONNX Runtime's session creation, on the same cores.

For each model: a cold compilation (hpu-compile, without a cache: time by phase and peak memory of
the process), then alternating rounds of a warm start (hpu-run with a cache that holds the recipe:
finding it by content, verifying it and loading it onto the device) and of ONNX Runtime creating its
session. The process's own start is in neither. Ratio = warm start / session; below 1 the warm start
is faster. Exit codes: 0 ok, 1 user error, 2 beyond a --gate, 3 a program failed.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare_ort import ORT_BENCH, ProgramFailed, find_models, machine, run_json

HERE = os.path.dirname(os.path.abspath(__file__))
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
            reason = (err.read() or out.read()).decode(errors="replace").strip().splitlines()
            raise ProgramFailed(f"{' '.join(command)}: exit code {process.returncode}: "
                                f"{reason[-1] if reason else 'no message'}")
        try:
            return json.loads(out.read()), usage.ru_maxrss * 1024
        except json.JSONDecodeError as error:
            raise ProgramFailed(f"{' '.join(command)}: stdout is not JSON: {error}") from error


def measure(model, data, args, cpus, folder):
    recipe, cache = os.path.join(folder, "cold.recipe"), os.path.join(folder, "cache")
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
        for name in (("hpu", "ort") if index % 2 == 0 else ("ort", "hpu")):
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
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model files or folders, or a folder of them")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="build tree")
    parser.add_argument("--target", default="gaudi2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", help="CPU numbers for both, such as 0,1 (default: the first ones)")
    parser.add_argument("--hpu-option", action="append", default=[],
                        help="another argument of hpu-compile and hpu-run, such as "
                             "--hpu-option=--precision=bf16")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--gate-cold", type=float, metavar="S",
                        help="exit 2 when a cold compilation takes longer")
    parser.add_argument("--gate-memory", action="store_true",
                        help="exit 2 when a compilation's peak is beyond 3 x the model + 500 MB")
    parser.add_argument("--gate", type=float, metavar="RATIO",
                        help="exit 2 when a median ratio is above this")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    parser.add_argument("--json", action="store_true", help="print that JSON instead of the table")
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


def table(report):
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


def main(argv=None):
    try:
        args = parse(argv)
        allowed = sorted(os.sched_getaffinity(0))
        cpus = {int(cpu) for cpu in args.cpus.split(",")} if args.cpus else set(allowed[:args.threads])
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
              "rounds": args.rounds, "models": {}}
    failed = False
    for name, model, data in models:
        print(f"{name} ...", file=sys.stderr)
        folder = tempfile.mkdtemp(prefix="hpu-compile-time-")
        try:
            report["models"][name] = measure(model, data, args, cpus, folder)
        except ProgramFailed as error:
            report["models"][name] = {"error": str(error)}
            failed = True
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    text = json.dumps(report, indent=1)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    print(text if args.json else table(report))
    if failed:
        return 3
    wrong = [line for name, result in report["models"].items() for line in failures(name, result, args)]
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    return 2 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
