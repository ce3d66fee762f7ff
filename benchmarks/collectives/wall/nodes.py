#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wall clock of hccl-perf between two nodes, over TCP and RoCE, beside gloo and Open MPI (needs root).

    benchmarks/collectives/wall/nodes.py build/bin --sizes 1M,16M,64M

Two network namespaces joined by one veth pair are two nodes, with two ranks each. In each round all contenders run in
turn; figures are medians of the rounds, f32 sums, sizes of a rank's buffer, times of the slowest rank for an operation,
with operations queued behind each other. gloo and Open MPI (btl tcp,self) have all their ranks on the same interface.
Exit codes: 0 ok, 1 user error, 2 slower than another one (--gate), 3 a program failed.
"""

import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

WARMUP = 20  # As kWarmup of Ranks.h: the same for all contenders.
ADDRESSES = ("10.91.0.1", "10.91.0.2")
ADDRESSES_V6 = ("fd91::1", "fd91::2")  # What roce takes: trains of datagrams need IPv6.
LINK = "node0"
PER_NODE = 2
RANKS = 2 * PER_NODE


class Failed(Exception):
    """A program ended with an error."""


def bytes_of(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text} is not a size")
    return int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[match.group(2)]


class Nodes:
    """Two network namespaces that are two machines to programs."""

    def __init__(self, mtu):
        self.mtu = mtu
        self.names = [f"hpu-nodes-{side}-{os.getpid()}" for side in "ab"]
        self.ipv6 = True

    def __enter__(self):
        ip = lambda *words: subprocess.run(["ip", *words], check=True)
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", LINK, "netns", self.names[0], "mtu", str(self.mtu), "type", "veth", "peer", "name", LINK, "netns",
           self.names[1])
        for name, address, address_v6 in zip(self.names, ADDRESSES, ADDRESSES_V6):
            ip("-n", name, "link", "set", LINK, "mtu", str(self.mtu))
            ip("-n", name, "addr", "add", address + "/24", "dev", LINK)
            # A kernel may have no IPv6. Nobody else is there whom the address might belong to, so that it counts at once.
            self.ipv6 &= subprocess.run(["ip", "-n", name, "addr", "add", address_v6 + "/64", "dev", LINK, "nodad"], check=False,
                                        capture_output=True).returncode == 0
            for link in ("lo", LINK):
                ip("-n", name, "link", "set", link, "up")
        # Programs look for interfaces that run: both ends have to be seen to be up.
        for name in self.names * 30:
            shown = subprocess.run(["ip", "-n", name, "-j", "link", "show", LINK], capture_output=True, text=True, check=True)
            if json.loads(shown.stdout)[0]["operstate"] != "UP":
                time.sleep(0.1)
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)

    def offloads(self):
        """TSO, GSO and GRO of the link, as ethtool's ioctl says."""
        script = ("import fcntl, json, socket, struct, array\n"
                  "result = {}\n"
                  "for name, code in (('tso', 0x1e), ('gso', 0x23), ('gro', 0x2b)):\n"
                  "    value = array.array('I', [code, 0])\n"
                  f"    request = struct.pack('16sP', b'{LINK}', value.buffer_info()[0])\n"
                  "    fcntl.ioctl(socket.socket(), 0x8946, request + bytes(40 - len(request)))\n"
                  "    result[name] = bool(value[1])\n"
                  "print(json.dumps(result))")
        done = subprocess.run(["ip", "netns", "exec", self.names[0], sys.executable, "-c", script], capture_output=True, text=True,
                              check=False)
        return json.loads(done.stdout) if done.returncode == 0 else {}


# Below the ephemeral ports of the namespaces, where nothing but the contenders is: one for each run.
PORTS = itertools.count(20000)


def finish(command, process, timeout):
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        raise Failed(f"{command[0]}: {error}") from error
    if process.returncode != 0:
        lines = (err or out).strip().splitlines()
        raise Failed(f"{' '.join(command)}: exit code {process.returncode}: {lines[-1] if lines else 'no message'}")
    return out


def ours(nodes, bin_dir, network, op, size, timeout):
    iterations = 100 if size <= 4 << 20 else 20
    command = [os.path.join(bin_dir, "hccl-perf"), op, "-b", str(size), "-e", str(size), "--iters", str(iterations), "-w",
               str(WARMUP), "--no-check", "--json", "--target", "gaudi2"]
    environment = dict(os.environ, HCCL_COMM_ID=f"{ADDRESSES[0]}:{next(PORTS)}", HPU_COMM_SECRET=os.urandom(16).hex(),
                       WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(PER_NODE), HPU_COMM_NETWORK=network)
    processes = []
    for rank in range(RANKS):
        processes.append(subprocess.Popen(
            ["ip", "netns", "exec", nodes.names[rank // PER_NODE], *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank % PER_NODE))))
    try:
        outputs = [finish(command, process, timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    results = json.loads(outputs[0])["results"]
    return next(line["wall_us"] for line in results if line["in_place"] == (op == "broadcast"))


def gloo(nodes, bin_dir, op, size, timeout):
    # Ranks take the namespaces in turn; which neighbour is where makes no difference to a veth pair.
    command = [os.path.join(bin_dir, "gloo_bench"), op, str(RANKS), str(size), LINK,
               ",".join(name for name in nodes.names for _ in range(PER_NODE))]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(finish(command, process, timeout))["results"][0]["us"]


def open_mpi(nodes, bin_dir, op, size, yields, timeout):
    # What mpirun takes for ssh: it goes into the other namespace, under another host name.
    with tempfile.NamedTemporaryFile("w", suffix=".sh", delete=False) as agent:
        agent.write(f'#!/bin/sh\nshift\nexec ip netns exec {nodes.names[1]} unshare -u sh -c "hostname node-b; $*"\n')
    os.chmod(agent.name, 0o755)
    words = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "--host",
             f"{ADDRESSES[0]}:{PER_NODE},{ADDRESSES[1]}:{PER_NODE}", "--map-by", f"ppr:{PER_NODE}:node", "--mca", "plm", "rsh", "--mca",
             "plm_rsh_agent", agent.name, "--mca", "btl", "tcp,self", "--mca", "pml", "ob1", "--mca", "btl_tcp_if_include", LINK,
             "--mca", "oob_tcp_if_include", LINK, "--mca", "mpi_yield_when_idle", yields, os.path.join(bin_dir, "mpi_bench"), op,
             str(size)]
    command = ["ip", "netns", "exec", nodes.names[0], *words]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return json.loads(finish(command, process, timeout))["results"][0]["us"]
    finally:
        os.unlink(agent.name)


def contenders(nodes, bin_dir, op, size, timeout):
    runs = {"tcp": lambda: ours(nodes, bin_dir, "tcp", op, size, timeout),
            "roce": lambda: ours(nodes, bin_dir, "roce", op, size, timeout)}
    if os.path.exists(os.path.join(bin_dir, "gloo_bench")) and op != "reduce_scatter":
        runs["gloo"] = lambda: gloo(nodes, bin_dir, op, size, timeout)
    if os.path.exists(os.path.join(bin_dir, "mpi_bench")) and shutil.which("mpirun"):
        runs["Open MPI"] = lambda: open_mpi(nodes, bin_dir, op, size, "0", timeout)
        runs["Open MPI, yielding"] = lambda: open_mpi(nodes, bin_dir, op, size, "1", timeout)
    return runs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", help="folder with hccl-perf, gloo_bench and mpi_bench")
    parser.add_argument("--ops", default="all_reduce")
    parser.add_argument("--sizes", default="1M,16M,64M")
    parser.add_argument("--mtu", type=int, default=9000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one program")
    parser.add_argument("--only", help="contenders, separated by commas")
    parser.add_argument("--output", help="file for all figures")
    parser.add_argument("--gate", action="store_true", help="fail when the better of tcp and roce is slower than another one")
    args = parser.parse_args()
    try:
        sizes = [bytes_of(size) for size in args.sizes.split(",")]
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    rows, slower = [], False
    try:
        with Nodes(args.mtu) as nodes:
            offloads = nodes.offloads()
            for op in args.ops.split(","):
                for size in sizes:
                    samples = {}
                    runs = contenders(nodes, args.bin, op, size, args.timeout)
                    if args.only:
                        runs = {name: run for name, run in runs.items() if name in args.only.split(",")}
                    for _ in range(args.rounds):
                        for name, run in runs.items():
                            samples.setdefault(name, []).append(run())
                    medians = {name: statistics.median(us) for name, us in samples.items()}
                    mine = {name: us for name, us in medians.items() if name in ("tcp", "roce")}
                    others = {name: us for name, us in medians.items() if name not in mine}
                    ratio = min(others.values()) / min(mine.values()) if others and mine else None
                    slower |= ratio is not None and ratio < 1
                    rows.append({"op": op, "bytes": size, "us": medians, "ratio": ratio,
                                 "spread": {name: max(us) / min(us) for name, us in samples.items()}})
                    print(f"{op} {size >> 10} KiB: " + ", ".join(f"{name} {us:.0f} us" for name, us in medians.items()) +
                          (f"; {ratio:.2f} times as fast as the best of the others" if ratio else ""), flush=True)
    except Failed as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    if args.output:
        with open(args.output, "w", encoding="utf-8") as file:
            json.dump({"mtu": args.mtu, "offloads": offloads, "ipv6": nodes.ipv6, "nodes": 2, "ranks": RANKS, "rounds": args.rounds, "rows": rows}, file,
                      indent=1)
            file.write("\n")
    return 2 if args.gate and slower else 0


if __name__ == "__main__":
    sys.exit(main())
