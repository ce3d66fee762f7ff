#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduces between two network namespaces over two rails, one of which goes down and comes back (needs root).

    tests/interop/rails/two_rails.py build/bin

Results are checked by hccl-perf, device times compared with those of a run whose rails stay up. Exit codes: 0 passed,
1 failed, 77 left out (not root, or no namespaces).
"""

import json
import os
import subprocess
import sys
import threading
import time

LINKS = {"meet": "10.91", "rail0": "10.92", "rail1": "10.93"}
TIMEOUT = 100


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class TooShort(Exception):
    """The run was over before the rail was back."""


class Nodes:
    """Two network namespaces that are two machines to programs."""

    def __init__(self, name):
        self.names = [f"hpu-{name}-{side}-{os.getpid()}" for side in "ab"]

    def __enter__(self):
        try:
            for name in self.names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            for link, prefix in LINKS.items():
                ip("link", "add", link, "netns", self.names[0], "type", "veth", "peer", "name", link, "netns", self.names[1])
                for host, name in enumerate(self.names, 1):
                    ip("-n", name, "addr", "add", f"{prefix}.0.{host}/24", "dev", link)
                    ip("-n", name, "link", "set", link, "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


class Run:
    """A rank in each of the two."""

    def __init__(self, nodes, bin_dir, name, iterations):
        self.errors = ""
        node = f"{os.environ.get('HPU_NODE', 'rails')}.{name}.{os.getpid()}"
        command = [os.path.join(bin_dir, "hccl-perf"), "all_reduce", "-b", "256K", "-e", "256K", "--iters", str(iterations), "--json"]
        environment = dict(os.environ, HCCL_COMM_ID="10.91.0.1:5555", HPU_COMM_SECRET=os.urandom(16).hex(), WORLD_SIZE="2",
                           LOCAL_WORLD_SIZE="1", LOCAL_RANK="0", HPU_COMM_IFNAME="rail", HPU_COMM_CHECK="crc32c",
                           HPU_LOG_LEVEL="info")
        self.ranks = [subprocess.Popen(["ip", "netns", "exec", space, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True, env=dict(environment, RANK=str(rank), HPU_NODE=f"{node}.{rank}"))
                      for rank, space in enumerate(nodes.names)]
        self.readers = [threading.Thread(target=self.read, args=(rank,)) for rank in self.ranks]
        for reader in self.readers:
            reader.start()

    def read(self, rank):
        for line in rank.stderr:
            self.errors += line

    def wait_to_begin(self):
        """Data goes between the nodes when the communicator is there."""
        self.wait_for("is ready")
        time.sleep(0.2)

    def wait_for(self, text):
        until = time.monotonic() + TIMEOUT
        while text not in self.errors:
            if any(rank.poll() == 0 for rank in self.ranks):
                raise TooShort()
            if time.monotonic() > until or any(rank.poll() is not None for rank in self.ranks):
                raise SystemExit(f"no '{text}' in:\n{self.errors}")
            time.sleep(0.02)

    def finish(self):
        outputs = [rank.stdout.read() for rank in self.ranks]
        for rank in self.ranks:
            rank.wait(TIMEOUT)
        for reader in self.readers:
            reader.join()
        if any(rank.returncode for rank in self.ranks):
            raise SystemExit(f"a rank failed:\n{self.errors}")
        return [(line["device_us"], line["wrong"], line["algorithm"]) for line in json.loads(outputs[0])["results"]]

    def kill(self):
        for rank in self.ranks:
            rank.kill()
            rank.wait()


def check(calm, stormy, bin_dir, iterations):
    runs = []
    try:
        runs = [Run(calm, bin_dir, "calm", iterations), Run(stormy, bin_dir, "stormy", iterations)]
        runs[1].wait_to_begin()
        ip("-n", stormy.names[0], "link", "set", "rail0", "down")
        runs[1].wait_for("rail 0 is down")
        ip("-n", stormy.names[0], "link", "set", "rail0", "up")
        runs[1].wait_for("rail 0 is back")
        expected, found = (run.finish() for run in runs)
    finally:
        for run in runs:
            run.kill()
    print("\n".join(line for line in runs[1].errors.splitlines() if "[warning]" in line), found)
    if "is down" in runs[0].errors:
        raise SystemExit(f"a rail that was up is said to be down:\n{runs[0].errors}")
    if any(wrong != 0 for _, wrong, _ in found):
        raise SystemExit(f"wrong results: {found}")
    if found != expected:
        raise SystemExit(f"{found} and, with all rails up, {expected}")


def main():
    iterations = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    try:
        while True:
            try:
                with Nodes("calm") as calm, Nodes("stormy") as stormy:
                    check(calm, stormy, sys.argv[1], iterations)
                break
            except TooShort:
                iterations *= 4
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        print(f"left out: {error} {getattr(error, 'stderr', '')}")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
