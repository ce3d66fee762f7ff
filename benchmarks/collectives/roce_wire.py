#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""RoCE v2 in user space beside plain UDP, over a veth pair between two network namespaces (needs root).

    benchmarks/collectives/roce_wire.py build/benchmarks

Plain UDP ("udp") moves the same bytes in the same trains with the same copies and a CRC-32 at both ends; "bare" does
without copies and CRC. Modes alternate; the medians of the rounds are compared.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

A, B = "fd00:1::1", "fd00:1::2"


def run(*command):
    subprocess.run(command, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", help="with roce_wire")
    parser.add_argument("--mtu", type=int, default=4096, help="RoCE's path MTU")
    parser.add_argument("--link-mtu", type=int, default=9000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    first, second = (f"hpu-wire-{side}-{os.getpid()}" for side in "ab")
    results = {}
    try:
        for name in (first, second):
            run("ip", "netns", "add", name)
        run("ip", "link", "add", "wire0", "netns", first, "mtu", str(arguments.link_mtu), "type", "veth", "peer", "name", "wire0",
            "netns", second)
        run("ip", "-n", second, "link", "set", "wire0", "mtu", str(arguments.link_mtu))
        for name, address in ((first, A), (second, B)):
            run("ip", "-n", name, "-6", "addr", "add", address + "/64", "dev", "wire0", "nodad")
            run("ip", "-n", name, "link", "set", "wire0", "up")
        # Plain UDP sends nothing again: no datagram may be dropped while the neighbour is looked for.
        macs = {}
        for name in (first, second):
            link = subprocess.run(["ip", "-n", name, "-j", "link", "show", "wire0"], capture_output=True, text=True, check=True)
            macs[name] = json.loads(link.stdout)[0]["address"]
        run("ip", "-n", first, "neigh", "replace", B, "lladdr", macs[second], "dev", "wire0", "nud", "permanent")
        run("ip", "-n", second, "neigh", "replace", A, "lladdr", macs[first], "dev", "wire0", "nud", "permanent")
        program = os.path.join(arguments.directory, "roce_wire")
        for size, messages in ((1 << 20, 256), (64 << 20, 8)):
            seconds = {mode: [] for mode in ("bare", "udp", "roce")}
            for _ in range(arguments.rounds):
                for mode in seconds:
                    out = subprocess.run(["ip", "netns", "exec", first, program, mode, str(size), str(messages), str(arguments.mtu), A, B,
                                          second], capture_output=True, text=True, timeout=300)
                    if out.returncode != 0:
                        sys.exit(f"{mode}: {out.stderr}")
                    seconds[mode].append(float(out.stdout.split()[0]))
            rates = {mode: size * messages / statistics.median(all_) / 1e9 for mode, all_ in seconds.items()}
            results[size] = {**{mode + "_GBps": round(rate, 3) for mode, rate in rates.items()},
                             "of_udp": round(rates["roce"] / rates["udp"], 3), "of_bare": round(rates["roce"] / rates["bare"], 3),
                             "udp_spread": [round(min(seconds["udp"]), 4), round(max(seconds["udp"]), 4)],
                             "roce_spread": [round(min(seconds["roce"]), 4), round(max(seconds["roce"]), 4)]}
            print(f"{size >> 20:4d} MiB: RoCE {rates['roce']:.2f} GB/s, {results[size]['of_udp']:.2f} of plain UDP with copies and "
                  f"CRC ({rates['udp']:.2f}), {results[size]['of_bare']:.2f} of bare UDP ({rates['bare']:.2f})")
    finally:
        for name in (first, second):
            subprocess.run(["ip", "netns", "del", name], check=False)
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"mtu": arguments.mtu, "link_mtu": arguments.link_mtu, "rounds": arguments.rounds, "results": results}, file, indent=1)


if __name__ == "__main__":
    main()
