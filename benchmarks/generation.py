#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Greedy generation: tokens a second of examples/generation beside ONNX Runtime, alternating on the same cores.

The decoders of tests/models/nets_late.py, exported with PyTorch, with caches that begin empty. Each round runs the C++ and the Python
example and ONNX Runtime (benchmarks/ort/ort_generate.js) on the same prompt; the ratio is ours / ONNX Runtime's, above 1 ours is
faster. Compiling and loading is not in it. Exit codes: 0 ok, 1 user error, 2 below --gate or other tokens, 3 a program failed.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys

from harness import HERE, ProgramFailed, run_networks

ROOT = os.path.join(HERE, "..")
PROMPT = ["3", "141", "59", "26", "535"]
PROGRAMS = ("cpp", "python", "ort")


def commands(model, args):
    count = str(args.tokens)
    return {"cpp": [os.path.join(args.build, "bin", "example_generation"), model, count, *PROMPT],
            "python": [sys.executable, os.path.join(ROOT, "examples", "generation", "generate.py"), model, count, *PROMPT],
            "ort": ["node", os.path.join(HERE, "ort", "ort_generate.js"), model, str(len(args.cpus)), count, *PROMPT]}


def run(command, args):
    """(the tokens, tokens a second)"""
    environment = dict(os.environ, PYTHONPATH=os.path.join(args.build, "python"))
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=args.timeout, check=False, env=environment,
                                preexec_fn=lambda: os.sched_setaffinity(0, args.cpus))
    except subprocess.TimeoutExpired as error:
        raise ProgramFailed(str(error)) from error
    speed = re.search(r"then (\d+) tokens/s", result.stderr)
    if result.returncode != 0 or not speed:
        raise ProgramFailed(f"{' '.join(command)}: exit code {result.returncode}: {result.stderr.strip()}")
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
    for name, result in report["networks"].items():
        for program, ratio in result["ratio"].items():
            ours, theirs = (statistics.median(result["tokens_per_s"][key]) for key in (program, "ort"))
            lines.append(f"{name:8} {program:8} {ours:9.0f} {theirs:9.0f} {ratio['min']:6.2f} {ratio['median']:7.2f} {ratio['max']:6.2f}"
                         f"{'' if result['same_tokens'] else '  OTHER TOKENS'}")
    return "\n".join(lines)


def beyond(report, args):
    found = [f"{name}: the programs give other tokens" for name, result in report["networks"].items() if not result["same_tokens"]]
    for name, result in report["networks"].items():
        ratio = result["ratio"]["cpp"]["median"]
        if args.gate and ratio < args.gate:
            found.append(f"{name}: {ratio:.2f} of ONNX Runtime's tokens a second, below {args.gate}")
    return found


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", default=["gpt2", "llama"], help="of tests/models/nets_late.py (default: gpt2 llama)")
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gate", type=float, help="exit 2 when a median ratio of the C++ example is below this")
    return run_networks(argv, parser, lambda args: {"tokens": args.tokens, "rounds": args.rounds}, measure, table, beyond)


if __name__ == "__main__":
    sys.exit(main())
