#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Instructions that a collective costs a rank, counted by callgrind.

    benchmarks/collectives/operation_cost.py build/benchmarks

Two runs differ only in how many operations they do; the difference of their instructions is divided by the difference
of their operations. The count of one rank alone differs by a few percent from run to run, with how often its progress
thread looks; with peers it has their waiting in it.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile


def instructions(program, ranks, operations, queued, size):
    with tempfile.TemporaryDirectory() as directory:
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", "--callgrind-out-file=" + os.path.join(directory, "out"), program,
             "--ranks", str(ranks), "--operations", str(operations), "--queued", str(queued), "--bytes", str(size)],
            capture_output=True, text=True, timeout=1800)
    if run.returncode != 0:
        sys.exit(run.stderr)
    allocations = float(re.search(r": ([0-9.]+) allocations", run.stdout).group(1))
    return int(re.search(r"Collected : (\d+)", run.stderr).group(1)), allocations


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", help="with collectives_operation_cost")
    parser.add_argument("--ranks", default="1,2")
    parser.add_argument("--operations", type=int, default=2000)
    parser.add_argument("--queued", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--most-instructions", type=float, help="more than that is a failure")
    parser.add_argument("--most-allocations", type=float)
    arguments = parser.parse_args()
    program = os.path.join(arguments.directory, "collectives_operation_cost")
    print("| ranks | instructions an operation | allocations an operation |")
    print("|---|---|---|")
    for ranks in map(int, arguments.ranks.split(",")):
        few, _ = instructions(program, ranks, arguments.operations, arguments.queued, arguments.bytes)
        many, allocations = instructions(program, ranks, 3 * arguments.operations, arguments.queued, arguments.bytes)
        cost = (many - few) / (2 * arguments.operations * ranks)
        print(f"| {ranks} | {cost:,.0f} | {allocations:.2f} |", flush=True)
        for value, most, what in ((cost, arguments.most_instructions, "instructions"),
                                  (allocations, arguments.most_allocations, "allocations")):
            if most is not None and value > most:
                sys.exit(f"an operation of {ranks} ranks costs {value:,.2f} {what}, more than {most:,.2f}")


if __name__ == "__main__":
    main()
