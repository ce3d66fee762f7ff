# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks of models share: finding models, running programs, common options, the frame of main().

A benchmark gives a parser, what it needs of a model, a function that makes the report, one that makes
the table, and one that says what is beyond its gates; run_benchmark does the rest. Exit codes of all: 0
ok, 1 user error, 2 beyond a gate, 3 a program failed.
"""

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ORT_BENCH = os.path.join(HERE, "ort", "ort_bench.js")


class ProgramFailed(Exception):
    """A program ended with an error; the text says which, how and why."""


class GateError(Exception):
    """A gate that cannot be applied: a user's error."""


def reason_of(stderr, stdout):
    lines = (stderr or stdout).strip().splitlines()
    return lines[-1] if lines else "no message"


def parse_json(command, text):
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise ProgramFailed(f"{' '.join(command)}: stdout is not JSON: {error}") from error


def run_json(command, cpus, timeout):
    """Runs a command and returns the JSON object that it prints; `cpus` None: on any CPU (threads may call then)."""
    pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus is not None else None
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=timeout,
                                check=False, preexec_fn=pin)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProgramFailed(f"{os.path.basename(command[0])}: {error}") from error
    if result.returncode != 0:
        raise ProgramFailed(f"{' '.join(command)}: exit code {result.returncode}: "
                            f"{reason_of(result.stderr, result.stdout)}")
    return parse_json(command, result.stdout)


def find_models(paths, with_data):
    """(name, model file, folder) of each model file, model folder or folder of those; with_data: only
    those with a test_data_set_0."""
    found = []
    for path in paths:
        if os.path.isfile(path):
            path = os.path.dirname(os.path.abspath(path))
        for folder in [path] + sorted(os.path.join(path, name) for name in os.listdir(path)):
            model = os.path.join(folder, "model.onnx")
            if os.path.isfile(model) and (not with_data or os.path.isdir(data_set(folder))):
                found.append((os.path.basename(os.path.abspath(folder)), model, folder))
    return found


def data_set(folder):
    return os.path.join(folder, "test_data_set_0")


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


def make_parser(description):
    """A parser with the options of every benchmark."""
    parser = argparse.ArgumentParser(description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help="model files or folders, or a folder of them")
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="build tree")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    parser.add_argument("--json", action="store_true", help="print that JSON instead of the table")
    return parser


def cpu_list(text):
    return {int(cpu) for cpu in text.split(",")}


def add_timing_options(parser):
    """The options of benchmarks that run two programs in turn on the same CPUs."""
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpus", type=cpu_list, metavar="LIST",
                        help="CPU numbers for both, such as 0,1 (default: the first ones)")
    parser.add_argument("--hpu-option", action="append", default=[],
                        help="another argument of our programs, such as --hpu-option=--precision=bf16")


def chosen_cpus(args):
    return args.cpus or set(sorted(os.sched_getaffinity(0))[:args.threads])


def in_turn(index, first, second):
    """The two in the order of a round: even rounds begin with the first."""
    return (first, second) if index % 2 == 0 else (second, first)


def measure_each(models, report, measure):
    """report["models"][name] = measure(model, folder), or {"error": ...} when a program failed."""
    for name, model, folder in models:
        print(f"{name} ...", file=sys.stderr)
        try:
            report["models"][name] = measure(model, folder)
        except ProgramFailed as error:
            report["models"][name] = {"error": str(error)}


def run_networks(argv, parser, settings, measure, table, beyond):
    """The main() of a benchmark of networks that it exports itself (tests/models/nets_late.py); returns the exit code.

    To `parser`, which says the networks and what is its own, come the options that all have. settings(args) is kept with the report,
    measure(name, args, folder) gives what is measured of a network, in an empty folder; table and beyond as for run_benchmark.
    """
    parser.add_argument("--build", default=os.path.join(HERE, "..", "build"), help="build tree")
    parser.add_argument("--cpus", type=cpu_list, default={0, 1}, metavar="LIST", help="CPU numbers for all (default: 0,1)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:  # argparse exits with 2, which means a regression here
        return 1 if stop.code else 0
    args.build = os.path.abspath(args.build)
    report = {"machine": machine(), "cpus": sorted(args.cpus), **settings(args), "networks": {}}
    try:
        for name in args.nets:
            print(f"{name} ...", file=sys.stderr)
            with tempfile.TemporaryDirectory(prefix="hpu-benchmark-") as folder:
                report["networks"][name] = measure(name, args, folder)
    except (ProgramFailed, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    print(table(report))
    lines = beyond(report, args)
    for line in lines:
        print(f"error: {line}", file=sys.stderr)
    return 2 if lines else 0


def run_benchmark(argv, parse, with_data, make_report, table, beyond):
    """The main() of a benchmark; returns the exit code.

    parse(argv) gives the options; make_report(args, models) everything measured; table(report, args) the
    text for people; beyond(report, args) a line for each thing that a gate forbids (GateError when a gate
    cannot be applied). A result with "error" is a program that failed.
    """
    try:
        args = parse(argv)
        models = find_models(args.models, with_data)
    except OSError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except SystemExit as stop:  # argparse exits with 2, which means a regression here
        return 1 if stop.code else 0
    if not models:
        needed = "model.onnx and test_data_set_0" if with_data else "model.onnx"
        print(f"error: no folder with {needed} among the arguments; make some with "
              "tests/models/export_models.py", file=sys.stderr)
        return 1
    report = make_report(args, models)
    text = json.dumps(report, indent=1)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(text + "\n")
    print(text if args.json else table(report, args))
    results = report["models"].values() if "models" in report else report["rows"]
    if any("error" in result for result in results):
        return 3
    try:
        lines = beyond(report, args)
    except GateError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for line in lines:
        print(f"error: {line}", file=sys.stderr)
    return 2 if lines else 0
