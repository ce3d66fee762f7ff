#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Endpoints of ours against Linux' rdma_rxe: two kernels in user mode, joined by a pair of sockets. No root is needed.

    tests/interop/rxe/build_lab.sh --install      once: builds the kernel
    tests/interop/rxe/lab.py build/tests [--keep DIRECTORY]

Ends with 77 ("left out"), saying what is missing, where the lab or verbs_peer is not there.
"""
import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import typing

HERE = os.path.dirname(os.path.abspath(__file__))
OURS, THEIRS = "fd00::2", "fd00::1"
# Over which ibv_rc_pingpong, as the server, tells of its queue pair.
THEIRS4, OURS4 = "10.7.0.1", "10.7.0.2"
TIMEOUT = 150


def left_out(why):
    print(f"roce_rxe_lab: left out: {why}")
    sys.exit(77)


class Kernel(typing.NamedTuple):
    """The lab's kernel, and the folder of the programs that run in it."""
    path: str
    programs: str


def find_kernel(programs):
    """Where all is there that is needed."""
    lab = os.environ.get("HPU_LAB") or os.path.join(os.environ.get("HOME") or "/root", ".cache/openhpu/rxe-lab")
    kernel = os.path.join(lab, "linux")
    if not os.access(kernel, os.X_OK):
        left_out(f"there is no {kernel}; tests/interop/rxe/build_lab.sh --install builds it")
    for program in programs:
        if not os.access(program, os.X_OK):
            left_out(f"there is no {program} (verbs_peer needs libibverbs-dev)")
    for program in ("ibv_rc_pingpong", "rdma", "ip", "busybox"):
        if not shutil.which(program):
            left_out(f"'{program}' is not installed")
    return Kernel(kernel, os.path.commonpath([os.path.dirname(program) for program in programs]))


def boot(kernel, work, name, end, script, transport, rxe, loss):
    """`end`: 0 or 1, of the pair of sockets. `rxe`: rdma_rxe gets the network, not the guest's own sockets."""
    with open(os.path.join(work, name), "w") as file:
        file.write(script)
    # The kernel keeps its memory in a file there.
    home = tempfile.mkdtemp(prefix="hpu-lab-", dir="/dev/shm")
    number = transport.fileno()
    command = [kernel.path, "mem=512M", "rootfstype=hostfs", "rootflags=/", "ro", f"init={HERE}/guest_init.sh", "con=null",
               "con0=null,fd:1", "con1=null", f"uml_dir={home}/", "quiet", "loglevel=4",
               f"vec0:transport=fd,fd={number},vec=0,mtu=9000,mac=52:54:00:00:00:0{end + 1}",
               f"OWN={(THEIRS, OURS)[end]}", f"OWN4={(THEIRS4, OURS4)[end]}", f"SCRIPT={name}", f"WORK={work}", f"PROGRAMS={kernel.programs}", f"SEED={os.urandom(32).hex()}", f"RXE={int(rxe)}", f"LOSS={loss}"]
    log = open(os.path.join(work, name + ".log"), "w")
    return subprocess.Popen(command, pass_fds=[number], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                            env={"HOME": home, "PATH": os.environ["PATH"], "TMPDIR": home}, start_new_session=True), home


def run(kernel, work, name, ours, theirs, loss="", both_rxe=False, timeout=TIMEOUT):
    """Both scripts, each in its kernel; true when ours ended well. `both_rxe`: ours has an rdma_rxe, too."""
    ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for end in ends:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
    begin = time.time()
    both = [boot(kernel, work, name + ".theirs", 0, theirs, ends[0], True, loss),
            boot(kernel, work, name + ".ours", 1, ours, ends[1], both_rxe, loss)]
    both, homes = zip(*both)
    try:
        both[1].wait(timeout)
    except subprocess.TimeoutExpired:
        print(f"{name}: not done after {timeout} s")
    for process in both:
        try:
            os.killpg(process.pid, 9)
        except ProcessLookupError:
            pass
        process.wait()
    for end in ends:
        end.close()
    for home in homes:
        shutil.rmtree(home, ignore_errors=True)
    try:
        with open(os.path.join(work, name + ".ours.rc")) as file:
            code = file.read().strip()
    except OSError:
        code = "none"
    with open(os.path.join(work, name + ".ours.log")) as file:
        text = file.read()
    print(f"-- {name}: {'right' if code == '0' else 'WRONG'} ({time.time() - begin:.1f} s)")
    print("".join("   " + line + "\n" for line in text.splitlines()), end="")
    if code != "0":
        with open(os.path.join(work, name + ".theirs.log")) as file:
            print("   the other side:\n" + "".join("     " + line for line in file))
    return code == "0"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", help="with roce_interop and verbs_peer")
    parser.add_argument("--keep", help="a folder for logs and captures")
    arguments = parser.parse_args()
    tests = os.path.abspath(arguments.tests)
    kernel = find_kernel([os.path.join(tests, program) for program in ("roce_interop", "verbs_peer")])
    work = arguments.keep or tempfile.mkdtemp(prefix="hpu-lab-")
    work = os.path.abspath(work)
    os.makedirs(work, exist_ok=True)
    good = True
    wait = "for i in $(seq 50); do ibv_devinfo >/dev/null 2>&1 && break; sleep 0.1; done\n"
    # The GID of the address: rdma_rxe lists the link-local one first.
    gid = ("for g in 0 1 2 3; do case $(cat /sys/class/infiniband/rxe0/ports/1/gids/$g 2>/dev/null) in "
           "fd00:*) GID=$g ;; esac; done\n")
    for mtu, loss, faults in ((1024, "", ""), (4096, "", ""), (256, "", ""), (512, "", ""), (2048, "", ""), (1024, "1%", ""), (4096, "3%", ""), (1024, "5%", ""),
                              (2048, "", "drop=0.01,duplicate=0.01,corrupt=0.01,seed=3")):
        name = f"verbs.{mtu}{'.loss' + loss.strip('%') if loss else ''}{'.faults' if faults else ''}"
        capture = f"/run/lab/{name}.pcap" if not loss and not faults else ""
        good &= run(kernel, work, name,
                    f"exec timeout 140 {tests}/roce_interop verbs {OURS} {THEIRS} 19000 {mtu} '{faults}' {capture}\n",
                    wait + gid + f"exec timeout 140 {tests}/verbs_peer 19000 $GID {mtu}\n", loss)
    good &= run(kernel, work, "pingpong.client",
                # So that their kernel knows the way to our IPv6 address, which the exchange over IPv4 does not tell it.
                f"timeout 5 bash -c 'echo >/dev/tcp/{THEIRS}/9' 2>/dev/null\n"
                f"exec timeout 100 {tests}/roce_interop pingpong-client {OURS} {THEIRS} 18515 1024 ::ffff:{THEIRS4}\n",
                wait + gid + "exec timeout 100 ibv_rc_pingpong -e -g $GID -m 1024\n")
    good &= run(kernel, work, "pingpong.server",
                f"exec timeout 100 {tests}/roce_interop pingpong-server {OURS} {THEIRS} 18515 1024\n",
                wait + gid + "sleep 1\nexec timeout 100 ibv_rc_pingpong -e -g $GID -m 1024 " + OURS + "\n")
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
