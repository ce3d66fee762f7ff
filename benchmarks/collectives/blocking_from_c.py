#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collectives that a C client waits for one at a time, beside hccl-perf --blocking: both in turn, several times.

    benchmarks/collectives/blocking_from_c.py build [--ranks 2,4] [--bytes 1048576] [--gate 1.5]

What is compared is the fastest round of each, which the load of the machine meets least.
"""
import argparse
import json
import os
import subprocess
import sys


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def perf(build, ranks, size, iterations):
    text = run([os.path.join(build, "bin", "hccl-perf"), "all_reduce", "-n", str(ranks), "-b", str(size), "-e",
                str(size), "--blocking", "--no-check", "--json", "--iters", str(iterations)])
    return json.loads(text)


def out_of_place_us(result):
    rows = [row for row in result["results"] if not row.get("in_place", row.get("inPlace", False))]
    row = rows[0]
    return row.get("wall_us", row.get("wallUs"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="the build folder")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--bytes", type=int, default=1 << 20)
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--gate", type=float, help="a larger ratio is a failure")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "benchmarks", "collectives_blocking_from_c")
    worst = 0.0
    print("| ranks | hccl-perf --blocking, us | C, stream, us | ratio | event | device |")
    print("|---|---|---|---|---|---|")
    for ranks in map(int, arguments.ranks.split(",")):
        ours, theirs = {"stream": [], "event": [], "device": []}, []
        for _ in range(arguments.rounds):
            theirs.append(out_of_place_us(perf(arguments.build, ranks, arguments.bytes, arguments.iterations)))
            round_ = json.loads(run([program, str(ranks), str(arguments.bytes), str(arguments.iterations)]))
            for way, us in round_.items():
                ours[way].append(us)
        base = min(theirs)
        ratios = {way: min(us) / base for way, us in ours.items()}
        worst = max(worst, ratios["stream"])
        print(f"| {ranks} | {base:.0f} | {min(ours['stream']):.0f} | {ratios['stream']:.2f} | "
              f"{ratios['event']:.2f} | {ratios['device']:.2f} |", flush=True)
    if arguments.gate and worst > arguments.gate:
        sys.exit(f"a collective from C costs {worst:.2f} times hccl-perf's, more than {arguments.gate:.2f}")


if __name__ == "__main__":
    main()
