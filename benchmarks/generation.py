#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy generation: tokens a second of examples/generation beside ONNX Runtime, alternating on the same cores.

The decoders of tests/models/nets_late.py, exported with PyTorch, with caches that begin empty. Each round runs the C++ and the Python
example and ONNX Runtime (benchmarks/ort/ort_generate.js) on the same prompt; the ratio is ours / ONNX Runtime's, above 1 ours is
faster. Compiling and loading is not in it. Exit codes: 0 ok, 1 user error, 2 below --gate or other tokens, 3 a program failed.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

from harness import HERE, cpu_list, machine

ROOT = os.path.join(HERE, "..")
PROMPT = ["3", "141", "59", "26", "535"]
PROGRAMS = ("cpp", "python", "ort")


class Failed(Exception):
    """A program that ended with an error."""


def commands(model, args):
    count = str(args.tokens)
    return {"cpp": [os.path.join(args.build, "bin", "example_generation"), model, count, *PROMPT],
            "python": [sys.executable, os.path.join(ROOT, "examples", "generation", "generate.py"), model, count, *PROMPT],
            "ort": ["node", os.path.join(HERE, "ort", "ort_generate.js"), model, str(len(args.cpus)), count, *PROMPT]}


def run(command, args):
    """(the tokens, tokens a second)"""
    environment = dict(os.environ, PYTHONPATH=os.path.join(args.build, "python"))
    result = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout, check=False, env=environment,
                            preexec_fn=lambda: os.sched_setaffinity(0, args.cpus))
    speed = re.search(r"then (\d+) tokens/s", result.stderr)
    if result.returncode != 0 or not speed:
        raise Failed(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()}")
    return result.stdout.split(), float(speed.group(1))


def measure(name, args, work):
    sys.path[:0] = [os.path.join(ROOT, "examples", "generation"), os.path.join(ROOT, "tests", "models")]
    import check  # pylint: disable=import-outside-toplevel
    import nets_late  # pylint: disable=import-outside-toplevel
    model = os.path.join(work, name + ".onnx")
    check.export(nets_late.NETS[name], nets_late.build(name), model)
    speeds, tokens = {program: [] for program in PROGRAMS}, {}
    for number in range(args.rounds):
        for program in PROGRAMS[number % 3:] + PROGRAMS[:number % 3]:
            tokens[program], speed = run(commands(model, args)[program], args)
            speeds[program].append(speed)
    ratios = {program: [ours / theirs for ours, theirs in zip(speeds[program], speeds["ort"])] for program in ("cpp", "python")}
    return {"tokens_per_s": speeds, "same_tokens": tokens["cpp"] == tokens["python"] == tokens["ort"],
            "ratio": {program: {"min": min(values), "median": statistics.median(values), "max": max(values)}
                      for program, values in ratios.items()}}


def table(report):
    lines = [f"{report['machine']['cpu']}, CPUs {report['cpus']}, {report['tokens']} tokens, {report['rounds']} rounds; "
             "ratio = ours / ONNX Runtime's tokens a second",
             f"{'model':8} {'program':8} {'tokens/s':>9} {'ort':>9} {'min':>6} {'median':>7} {'max':>6}"]
    for name, result in report["models"].items():
        for program, ratio in result["ratio"].items():
            ours, theirs = (statistics.median(result["tokens_per_s"][key]) for key in (program, "ort"))
            lines.append(f"{name:8} {program:8} {ours:9.0f} {theirs:9.0f} {ratio['min']:6.2f} {ratio['median']:7.2f} {ratio['max']:6.2f}"
                         f"{'' if result['same_tokens'] else '  OTHER TOKENS'}")
    return "\n".join(lines)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=["gpt2", "llama"], help="of tests/models/nets_late.py (default: gpt2 llama)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="build tree")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cpus", type=cpu_list, default={0, 1}, metavar="LIST", help="CPU numbers for all (default: 0,1)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one program")
    parser.add_argument("--gate", type=float, help="exit 2 when a median ratio of the C++ example is below this")
    parser.add_argument("--output", metavar="FILE", help="write everything measured as JSON")
    try:
        args = parser.parse_args(argv)
    except SystemExit as stop:  # argparse exits with 2, which means a regression here
        return 1 if stop.code else 0
    args.build = os.path.abspath(args.build)
    report = {"machine": machine(), "cpus": sorted(args.cpus), "tokens": args.tokens, "rounds": args.rounds, "models": {}}
    try:
        with tempfile.TemporaryDirectory(prefix="hpu-generation-") as work:
            for name in args.nets:
                print(f"{name} ...", file=sys.stderr)
                report["models"][name] = measure(name, args, work)
    except (Failed, subprocess.TimeoutExpired, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            file.write(json.dumps(report, indent=1) + "\n")
    print(table(report))
    results = report["models"].values()
    slow = args.gate and any(result["ratio"]["cpp"]["median"] < args.gate for result in results)
    return 2 if slow or not all(result["same_tokens"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
