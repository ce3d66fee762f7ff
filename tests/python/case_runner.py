# SPDX-License-Identifier: Apache-2.0
"""Runs a script's cases, each by its name: what test_openhpu_doubles.py and others end with. It imports nothing of ours, so that scripts
that only run the tools can use it."""
import argparse
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def arguments(description, runs_tools=False):
    parser = argparse.ArgumentParser(description=description)
    if runs_tools:
        parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--only", default="", help="cases whose name begins so")
    return parser.parse_args()


def has_onnx_runtime():
    found = os.path.isdir(os.path.join(ROOT, "benchmarks", "ort", "node_modules", "onnxruntime-node"))
    if not found:
        print("ONNX Runtime is not there: cd benchmarks/ort && npm ci --ignore-scripts")
    return found


def run_cases(args, cases, check, others=()):
    """The exit code. `check(*case)` says what is wrong, None for nothing; `others`: what else failed, as texts."""
    tested = failed = 0
    for name, *case in cases:
        if not name.startswith(args.only):
            continue
        tested += 1
        wrong = check(*case)
        if wrong:
            failed += 1
            print(f"FAIL  {name}: {wrong}", flush=True)
    for text in others:
        failed += 1
        print(f"FAIL  {text}", flush=True)
    print(f"{tested} cases, {failed} failed")
    return 1 if failed else 0
