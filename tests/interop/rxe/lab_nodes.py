#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Communicators over HPU_COMM_NETWORK=verbs: two nodes, each a kernel in user mode with Linux' rdma_rxe. Values alone count:
the adapters are programs of one processor.

    tests/interop/rxe/build_lab.sh --install      once: builds the kernel
    tests/interop/rxe/lab_nodes.py build [--ranks 2,4,8] [--step N] [--quick] [--loss 1%] [--keep DIRECTORY]

Ends with 77 ("left out"), saying what is missing, where the lab or libibverbs is not there.
"""
import argparse
import os
import shutil
import sys
import tempfile

from lab import THEIRS, find_kernel, run

# What all ranks have. The device's own pages are what it writes, of little memory.
SETTINGS = """export HPU_COMM_NETWORK=${NETWORK:-verbs} HPU_COMM_SECRET=of-the-lab-and-of-nobody-else HPU_SIM_HBM_BYTES=1G HPU_LOG_LEVEL=${LEVEL:-warning}
export HCCL_SOCKET_IFNAME=vec0 HPU_COMM_IFNAME=vec0 HPU_NODE=lab HPU_COMM_TIMEOUT_MS=120000 HPU_COMM_SILENCE_MS=60000
export HPU_NUM_THREADS=1 TMPDIR=/tmp
for i in $(seq 50); do ibv_devinfo >/dev/null 2>&1 && break; sleep 0.1; done
"""


EXTRA = os.environ.get("HPU_LAB_SETTINGS", "")  # For a look: "export NETWORK=tcp LEVEL=info".


def node_script(node, ranks, body, timeout):
    """Runs `body` once for each rank of a node, with RANK, LOCAL and so on; fails when one fails."""
    here = [rank for rank in range(ranks) if rank * 2 // ranks == node]
    lines = [EXTRA, SETTINGS, f"export WORLD_SIZE={ranks} LOCAL_WORLD_SIZE={len(here)}", "pids="]
    for local, rank in enumerate(here):
        lines.append(f"( export RANK={rank} LOCAL_RANK={local}; {body} ) & pids=\"$pids $!\"")
    lines.append("code=0; for pid in $pids; do wait $pid || code=1; done")
    lines.append("exit $code")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", help="with tests/matrix_rank and bin/hccl-perf")
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--step", type=int, default=6, help="every STEP-th case of the matrix")
    parser.add_argument("--quick", action="store_true", help="one operation of larger data")
    parser.add_argument("--loss", default="", help="of packets, as tc takes it")
    parser.add_argument("--keep", help="a folder for logs")
    parser.add_argument("--timeout", type=int, default=240, help="seconds of each program")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    matrix, perf = os.path.join(build, "tests/matrix_rank"), os.path.join(build, "bin/hccl-perf")
    kernel = find_kernel([matrix, perf, os.path.join(build, "tests/verbs_peer")])
    work = os.path.abspath(arguments.keep or tempfile.mkdtemp(prefix="hpu-lab-"))
    os.makedirs(work, exist_ok=True)
    good = True
    most = arguments.timeout
    for ranks in map(int, arguments.ranks.split(",")):
        # Pairwise cases of types, operations, counts and so on, against an oracle. Rank 0's first line is the id.
        step = arguments.step
        name = f"matrix{ranks}"
        body = (f"if [ $RANK = 0 ]; then exec timeout {most} {matrix} $RANK {ranks} 0 {step} $LOCAL_RANK >/run/lab/{name}.0; "
                f"else for i in $(seq 300); do grep -qs ^id /run/lab/{name}.0 && break; [ ! -e /run/lab/{name}.first.rc ] || exit 1; sleep 0.1; done; "
                f"grep -m1 ^id /run/lab/{name}.0 | cut -c4- | timeout {most} {matrix} $RANK {ranks} 0 {step} $LOCAL_RANK >/run/lab/{name}.$RANK; fi")
        good &= both(kernel, work, name, ranks, body, arguments.loss, most)
        good &= check_matrix(work, name, ranks)
        # Larger data, and over IPv6: by the interface through which the coordinator is reached.
        ops = ["all_reduce -b 4 -e 4M -f 64", "all_to_all -b 64K -e 1M -f 16", "broadcast -b 1M -e 1M"]
        if arguments.quick:
            ops = ["all_reduce -b 1M -e 1M"]
        calls = " && ".join(f"timeout {most} {perf} {op} --iters 2 -w 1 >>/run/lab/perf{ranks}.$RANK 2>&1" for op in ops)
        good &= both(kernel, work, f"perf{ranks}", ranks,
                     f"unset HPU_COMM_IFNAME; export HCCL_COMM_ID=[{THEIRS}]:5555; {calls} || {{ cat /run/lab/perf{ranks}.$RANK; exit 1; }}",
                     arguments.loss, most)
    if not arguments.quick:
        good &= port_down(kernel, work, perf)
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if good else 1)


def both(kernel, work, name, ranks, body, loss, timeout):
    # The node that starts first has rank 0, and is the one whose end nobody waits for: so it tells by a file.
    theirs = node_script(0, ranks, body, timeout)
    ours = node_script(1, ranks, body, timeout)
    theirs = "(\n" + theirs + f")\necho $? >/run/lab/{name}.first.rc\n"
    ours = "(\n" + ours + f")\ncode=$?\nfor i in $(seq 300); do [ -s /run/lab/{name}.first.rc ] && break; sleep 0.1; done\n" + \
        f"[ $code = 0 ] && [ \"$(cat /run/lab/{name}.first.rc)\" = 0 ]\n"
    return run(kernel, work, name, ours, theirs, loss, both_rxe=True, timeout=timeout)


def port_down(kernel, work, perf):
    """The network of a node goes down while its rank waits for data: it hears of it at once, from the device."""
    said = "/run/lab/down"
    body = (f"unset HPU_COMM_IFNAME; export HCCL_COMM_ID=[{THEIRS}]:5555 HPU_LOG_LEVEL=info; "
            f"timeout 100 {perf} all_reduce -b 256K -e 256K --iters 5000 -w 1 >{said}.$RANK 2>&1")
    ours = (f"( for i in $(seq 300); do grep -qs ready {said}.1 && break; sleep 0.1; done; sleep 1; ip link set vec0 down ) &\n"
            f"(\n{node_script(1, 2, body, 100)})\n"
            f"cat {said}.1; grep -q 'rxe0: port error: port 1 (interface vec0) is down' {said}.1\n")
    return run(kernel, work, "down", ours, node_script(0, 2, body, 100), both_rxe=True, timeout=120)


def check_matrix(work, name, ranks):
    """Every rank has done all cases, and none is wrong."""
    counts = set()
    for rank in range(ranks):
        try:
            with open(os.path.join(work, f"{name}.{rank}")) as file:
                lines = file.read().splitlines()
        except OSError as error:
            print(f"   rank {rank}: {error}")
            return False
        cases = [line for line in lines if line.startswith("case ")]
        wrong = [line for line in cases if len(line.split(None, 3)) > 3]
        counts.add(len(cases))
        if wrong or not lines or lines[-1] != "done":
            print(f"   rank {rank}: " + "\n     ".join(wrong[:5] or lines[-3:]))
            return False
    print(f"   {ranks} ranks: {max(counts)} cases of the matrix, all right")
    return len(counts) == 1 and 0 not in counts


if __name__ == "__main__":
    main()
