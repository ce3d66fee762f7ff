#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Attention over ranks beside that of one device: HBM above the inputs at its peak, and modelled device time, of a forward and backward.

PYTHONPATH=build/python benchmarks/context_parallel.py [--ranks 4] [--sequence 2048]; the ranks are processes of a simulated node. Both
columns are of rank 0, and the same on every machine."""
import argparse
import os
import socket

import hpu_torch  # noqa: F401: registers the device
import torch
import torch.distributed as dist
from hpu_torch.distributed.context_parallel import attention, ring_attention, ulysses_attention

HEADS, DIM = 8, 64


def measure(kind, sequence, ranks):
    q, k, v, grad = (torch.randn(1, HEADS, sequence, DIM).to("hpu") for _ in range(4))
    for one in (q, k, v):
        one.requires_grad_()
    for _ in range(2):  # The first one compiles, and makes the communicators.
        q.grad = k.grad = v.grad = None
        if ranks > 1:
            dist.barrier()
        torch.hpu.synchronize()
        torch.hpu.reset_peak_memory_stats()
        before = torch.hpu.memory_allocated()
        start, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
        start.record()
        kind(q, k, v).backward(grad)
        end.record()
        end.synchronize()
    return (torch.hpu.max_memory_allocated() - before) / 2**20, start.elapsed_time(end) * 1e3


def run(rank, port, args):
    torch.set_num_threads(1)
    os.environ.update(LOCAL_RANK=str(rank))
    dist.init_process_group("hccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=args.ranks)
    for name, kind in (("one device", attention), ("ring", ring_attention), ("all-to-all", ulysses_attention)):
        ranks = 1 if kind is attention else args.ranks
        if rank < ranks:
            mib, us = measure(kind, args.sequence // ranks, ranks)
            if rank == 0:
                print(f"| {name} | {mib:.0f} | {us:.0f} |", flush=True)
        dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=2048)
    args = parser.parse_args()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    print("| attention | MiB above the inputs | us |\n|---|---|---|", flush=True)
    torch.multiprocessing.spawn(run, args=(port, args), nprocs=args.ranks)


if __name__ == "__main__":
    main()
