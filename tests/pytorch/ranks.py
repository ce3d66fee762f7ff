# SPDX-License-Identifier: Apache-2.0
"""Ranks of a process group for tests: processes that a server with PyTorch and hpu_torch already imported forks off, so that
eight of them cost less than one import."""
import multiprocessing
import os
import pickle
import signal
import socket
import tempfile
import traceback
from datetime import timedelta

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["hpu_torch", "torch.nn.parallel", "torch.distributed.optim", "hpu_torch.compiler"])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _child(function, rank, ranks, arguments, environment, timeout_s, result):
    signal.alarm(100)  # A test that hangs ends.
    os.environ.update(environment)
    import torch
    import torch.distributed as dist

    import hpu_torch  # noqa: F401
    torch.set_num_threads(1)
    if environment.get("PT_HPU_LAZY_MODE") == "1":
        torch.hpu.set_lazy(True)
    try:
        dist.init_process_group("hccl", timeout=timedelta(seconds=timeout_s))
        value = (True, function(rank, ranks, *arguments))
        dist.destroy_process_group()
    except BaseException as error:
        value = (False, "".join(traceback.format_exception(error)))
    with open(result + ".part", "wb") as file:
        pickle.dump(value, file)
    os.rename(result + ".part", result)


def run(function, ranks, *arguments, nodes=1, timeout_s=60, dies=(), **environment):
    """What function(rank, ranks, *arguments) gave on each rank; an assertion with the traceback of a rank that raised. Ranks in `dies`
    may end without a result, which is None then. With nodes=2 the first half of the ranks is on one simulated node, the rest on another."""
    node = f"{os.environ.get('HPU_NODE', 'ranks')}-{os.getpid()}"[-50:]
    store = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
             "LOCAL_WORLD_SIZE": str(ranks // nodes), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(ranks):
            own = {"RANK": str(rank), "LOCAL_RANK": str(rank % (ranks // nodes)),
                   "HPU_NODE": f"{node}.n{rank * nodes // ranks}", "HPU_ACQUIRE_TIMEOUT_MS": "20000"}
            process = _context.Process(target=_child, args=(function, rank, ranks, arguments, {**store, **own, **environment}, timeout_s,
                                                            f"{folder}/{rank}"))
            process.start()
            processes.append(process)
        for process in processes:
            process.join()
        results = []
        for rank, process in enumerate(processes):
            if not os.path.exists(f"{folder}/{rank}"):
                assert rank in dies, f"rank {rank} ended with {process.exitcode}"
                results.append(None)
                continue
            with open(f"{folder}/{rank}", "rb") as file:
                is_good, value = pickle.load(file)
            assert is_good, f"rank {rank}:\n{value}"
            results.append(value)
        return results
