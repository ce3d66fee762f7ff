# SPDX-License-Identifier: Apache-2.0
"""Forks, workers, devices that others have, and the repairs of PyTorch on Python 3.11."""
import dataclasses
import importlib.util
import os
import re
import subprocess
import sys

import hpu_torch
import pytest
import torch


def test_importing_opens_nothing_and_a_child_may_use_devices(run_python):
    output = run_python("""
        import os, torch, hpu_torch
        assert not torch.hpu.is_initialized()
        child = os.fork()
        if child == 0:
            ok = torch.ones(3, device="hpu").sum().item() == 3
            os._exit(0 if ok else 1)
        print(os.waitpid(child, 0)[1], torch.ones(3, device="hpu").sum().item())
    """)
    assert output.split() == ["0", "3.0"]


def test_a_child_of_a_process_with_devices_gets_an_error_and_may_work_on_the_cpu(run_python):
    output = run_python("""
        import gc, os, sys, threading, torch, hpu_torch
        a = torch.ones(1000, device="hpu")
        b = torch.ones(10).pin_memory()
        stop = False
        def busy():  # Locks are held when the fork comes.
            while not stop:
                torch.ones(100, device="hpu").cpu()
                torch.ones(10).pin_memory()
        threads = [threading.Thread(target=busy) for _ in range(2)]
        for thread in threads: thread.start()
        codes = []
        for _ in range(5):
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    torch.ones(3, device="hpu")
                except RuntimeError as error:
                    code = 0 if "forked" in str(error) and "spawn" in str(error) else 2
                try:
                    a.cpu()
                    code = 3
                except RuntimeError:
                    pass
                global_a, a = a, None
                del global_a, b
                gc.collect()
                torch.manual_seed(3)
                if not torch.ones(10).pin_memory().is_pinned(): code = 5
                if (torch.ones(3) * 2).sum().item() != 6: code = 4
                os._exit(code)
            codes.append(os.waitpid(child, 0)[1])
        stop = True
        for thread in threads: thread.join()
        print(codes, a.sum().item())
    """)
    assert "[0, 0, 0, 0, 0] 1000.0" in output


def test_forked_workers_of_a_data_loader(run_python):
    output = run_python("""
        import torch, hpu_torch
        from torch.utils.data import DataLoader, TensorDataset
        net = torch.nn.Linear(3, 2).to("hpu")  # Devices are open when the workers are forked.
        data = TensorDataset(torch.arange(60.).view(20, 3), torch.arange(20))
        total = torch.zeros((), device="hpu")
        for pin in (False, True):
            for x, y in DataLoader(data, batch_size=4, num_workers=2, shuffle=True, pin_memory=pin, pin_memory_device="hpu" if pin else ""):
                assert x.is_pinned() == pin, x.is_pinned()
                total += x.to("hpu", non_blocking=True).sum() + y.to("hpu", non_blocking=True).sum()
                net(x.hpu()).sum().backward()
        print(total.item())
    """)
    assert str(2 * (sum(range(60)) + sum(range(20)))) in output


@pytest.mark.long
def test_spawned_processes_use_devices_of_their_own(run_python):
    output = run_python("""
        import torch, torch.multiprocessing as mp
        import hpu_torch
        def work(rank):
            with torch.hpu.device(rank + 1):
                print(f"rank {rank} {torch.ones(2, device='hpu').device}\\n", end="", flush=True)  # One write.
        if __name__ == "__main__":
            torch.ones(1, device="hpu:0")
            mp.spawn(work, nprocs=2)
    """)
    assert "rank 0 hpu:1" in output and "rank 1 hpu:2" in output


@pytest.mark.long  # The runtime's tests have it.
def test_a_device_that_another_process_has_is_named_with_its_owner(run_python):
    output = run_python("""
        import os, subprocess, sys, torch, hpu_torch
        torch.ones(1, device="hpu:2")
        done = subprocess.run([sys.executable, "-c", "import torch, hpu_torch; torch.ones(1, device='hpu:2')"], capture_output=True, text=True,
                              env={**os.environ, "HPU_ACQUIRE_TIMEOUT_MS": "0"})
        assert done.returncode and f"in use by process {os.getpid()}" in done.stderr, done.stderr
        print(done.stderr.splitlines()[-1])
    """)
    assert "RuntimeError: opening hpu:2" in output


def test_visible_modules(run_python):
    output = run_python("""
        import os, torch, hpu_torch
        for setting in ("6", "0,3,5", "7, 1", "all", "", "8", "1,1", "x", "1,", "-1", ","):
            child = os.fork()
            if child == 0:
                os.environ["HABANA_VISIBLE_MODULES"] = setting
                n = torch.hpu.device_count()
                assert torch.hpu.is_available() == (n > 0)
                modules = [torch.hpu.get_device_properties(i).module_id for i in range(n)]
                try:
                    assert torch.ones(2, device="hpu").sum().item() == 2
                    torch.ones(1, device=f"hpu:{n}")
                except RuntimeError as error:
                    print(repr(setting), modules, error, flush=True)
                os._exit(0)
            os.waitpid(child, 0)
    """)
    lines = output.splitlines()
    expected = [r"\[6\] .*hpu:1 does not exist", r"\[0, 3, 5\] .*hpu:3 does not exist: this process has 3", r"\[7, 1\] ",
                r"\[6, 7, 4, 5, 3, 2, 1, 0\] ", r"\[6, 7, 4, 5, 3, 2, 1, 0\] ", "no hpu device.*'8' is no module", "'1' is there twice",
                "'x' is no module", r"\[1\] ", "'-1' is no module", "names no module|'' is no module"]
    assert len(lines) == len(expected), output
    for line, pattern in zip(lines, expected):
        assert re.search(pattern, line), line


def test_the_repairs():
    import torch.distributed._shard.sharded_tensor
    import torch.distributed.fsdp  # noqa: F401: it can be imported
    from torch.distributed.elastic.multiprocessing.api import Std
    assert not torch.__version__.startswith("1.13.0a0")
    assert dataclasses.dataclass.__module__ == "dataclasses", "the standard library's own is back"
    assert [Std.from_str(text) for text in ("0", "1", "2", "3")] == [Std(value) for value in range(4)]
    assert Std.from_str("0:1,1:3") == {0: Std.OUT, 1: Std.ALL}
    for wrong in ("4", "a", "0:4", "", "0:1,"):
        with pytest.raises(ValueError):
            Std.from_str(wrong)


@pytest.mark.long  # test_distributed has it with our own process group.
def test_torchrun(tmp_path):
    (tmp_path / "worker.py").write_text("""
import os, torch, torch.distributed as dist
import hpu_torch
dist.init_process_group("gloo")
rank = dist.get_rank()
x = torch.full((3,), rank + 1., device=f"hpu:{rank}")
host = x.cpu()
dist.all_reduce(host)
print(f"rank {rank} {host.to(x.device).sum().item()}\\n", end="", flush=True)  # One write: the other's comes between two.
""")
    done = subprocess.run([sys.executable, "-m", "hpu_torch.run", "--nproc_per_node", "2", "--standalone", str(tmp_path / "worker.py")],
                          capture_output=True, text=True, timeout=100, env={**os.environ, "HPU_NODE": f"torchrun-{os.getpid()}"})
    assert "rank 0 9.0" in done.stdout and "rank 1 9.0" in done.stdout, done.stdout + done.stderr


def test_the_names_of_gaudis_bridge():
    import habana_frameworks.torch as ht
    import habana_frameworks.torch.core as htcore
    import habana_frameworks.torch.hpu as hthpu
    import habana_frameworks.torch.hpu.random as htrandom
    import torch.hpu.memory
    import torch.hpu.random
    from habana_frameworks.torch.hpu.memory import memory_stats
    from habana_frameworks.torch.utils.library_loader import is_habana_available
    assert importlib.util.find_spec("habana_frameworks.torch")
    assert hthpu is torch.hpu is hpu_torch.hpu is ht.hpu and htcore is hpu_torch.core is ht.core
    assert htrandom is torch.hpu.random is hpu_torch.hpu.random and memory_stats is torch.hpu.memory_stats
    assert is_habana_available() and hthpu.is_available() and hthpu.get_device_name() == "GAUDI2"
    htrandom.manual_seed_all(3)
    assert torch.hpu.initial_seed() == 3
    before = hthpu.memory_stats()["InUse"]
    x = torch.ones(2).hpu()
    htcore.mark_step()
    htcore.mark_step(sync=True)
    htcore.mark_step("hpu:0", True)
    assert hthpu.memory_stats()["InUse"] - before == 256 and x.is_hpu
