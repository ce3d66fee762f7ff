#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of sampling a node of eight devices in use: hpu-smi --loop, a new hpu-smi a sample, and the owners that answer.

    benchmarks/smi/sampling.py build [--seconds 20] [--owners 8]

Prints percent of one core at one sample a second. The owners are tests/node_worker, idle but for their answers.
"""

import argparse
import os
import subprocess
import sys
import time

TICKS = os.sysconf("SC_CLK_TCK")
FIELDS = "timestamp,index,name,utilization.aip,memory.used,power.draw,temperature.aip"


def cpu_seconds(pid):
    """User and system time of a process; nanoseconds where the kernel keeps them."""
    try:
        with open(f"/proc/{pid}/schedstat", encoding="ascii") as file:
            nanoseconds = int(file.read().split()[0])
        tasks = os.listdir(f"/proc/{pid}/task")
        if len(tasks) > 1:
            nanoseconds = 0
            for task in tasks:
                with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as file:
                    nanoseconds += int(file.read().split()[0])
        return nanoseconds / 1e9
    except (OSError, IndexError, ValueError):
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            parts = file.read().rsplit(")", 1)[1].split()
        return (int(parts[11]) + int(parts[12])) / TICKS


def start_owners(build, count):
    owners = []
    for index in range(count):
        owner = subprocess.Popen([os.path.join(build, "tests", "node_worker"), "--index", str(index)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        owners.append(owner)
        if not owner.stdout.readline().strip():
            raise SystemExit(f"no owner of device {index}: is another process of node {os.environ['HPU_NODE']} running?")
    return owners


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", help="the build tree")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--owners", type=int, default=8)
    options = parser.parse_args()
    os.environ["HPU_NODE"] = f"sampling-{os.getpid()}"
    smi = os.path.join(options.build, "bin", "hpu-smi")
    owners = start_owners(options.build, options.owners)
    try:
        time.sleep(1)
        before = [cpu_seconds(owner.pid) for owner in owners]
        time.sleep(options.seconds / 4)
        quiet = sum(cpu_seconds(owner.pid) - start for owner, start in zip(owners, before)) / (options.seconds / 4)

        loop = subprocess.Popen([smi, "-Q", FIELDS, "-f", "csv,noheader,nounits", "-l", "1"], stdout=subprocess.DEVNULL)
        time.sleep(1.5)
        began, start = time.monotonic(), cpu_seconds(loop.pid)
        before = [cpu_seconds(owner.pid) for owner in owners]
        time.sleep(options.seconds)
        elapsed = time.monotonic() - began
        sampler = (cpu_seconds(loop.pid) - start) / elapsed
        answers = sum(cpu_seconds(owner.pid) - each for owner, each in zip(owners, before)) / elapsed
        loop.terminate()
        loop.wait()

        usage = os.times()
        runs = 20
        for _ in range(runs):
            subprocess.run([smi, "-Q", FIELDS, "-f", "csv"], stdout=subprocess.DEVNULL, check=True)
        after = os.times()
        each = (after.children_user + after.children_system - usage.children_user - usage.children_system) / runs
    finally:
        for owner in owners:
            owner.kill()
            owner.wait()
    print(f"one sample a second of {options.owners} devices in use, percent of one core over {elapsed:.0f} s")
    print(f"  hpu-smi --loop 1            {100 * sampler:.3f}")
    print(f"  a new hpu-smi each second   {100 * each:.3f}")
    print(f"  all owners, sampled         {100 * answers:.3f}")
    print(f"  all owners, not sampled     {100 * quiet:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
