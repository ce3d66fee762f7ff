# SPDX-License-Identifier: Apache-2.0
"""The process group hccl: every collective against values computed on the host, types, order, failures."""
import os
import signal
import subprocess
import sys
import time

import pytest
import ranks as processes
import torch
import torch.distributed as dist

LAZY = pytest.mark.parametrize("lazy", ["0", "1"], ids=["eager", "lazy"])


def values(rank, shape=(3, 5), dtype=torch.float32):
    """What a rank gives: the same on all ranks that ask for it."""
    generator = torch.Generator().manual_seed(100 + rank)
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) > .5
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0 if dtype == torch.uint8 else -3, 4, shape, generator=generator).to(dtype)


def all_collectives(rank, ranks):
    mine, everybody = values(rank), [values(r) for r in range(ranks)]
    stacked = torch.stack(everybody)
    expected = {dist.ReduceOp.SUM: stacked.sum(0), dist.ReduceOp.AVG: stacked.mean(0), dist.ReduceOp.MIN: stacked.amin(0),
                dist.ReduceOp.MAX: stacked.amax(0), dist.ReduceOp.PRODUCT: stacked.prod(0)}
    for op, value in expected.items():
        x = mine.to("hpu")
        dist.all_reduce(x * 1, op=op)  # A result that nobody keeps.
        y = x + 1
        dist.all_reduce(x, op=op)
        torch.testing.assert_close(x.cpu(), value)
        torch.testing.assert_close((x - y).cpu(), value - mine - 1)
    x = mine.to("hpu")
    dist.all_reduce(x, op=dist._make_nccl_premul_sum(.5))
    torch.testing.assert_close(x.cpu(), stacked.sum(0) * .5)
    for root in range(ranks):
        x = mine.to("hpu")
        dist.broadcast(x, root)
        assert torch.equal(x.cpu(), everybody[root])
        x = mine.to("hpu")
        dist.reduce(x, root)
        torch.testing.assert_close(x.cpu(), stacked.sum(0) if rank == root else mine)
        parts = [torch.empty(3, 5, device="hpu") for _ in range(ranks)] if rank == root else None
        dist.gather(mine.to("hpu"), parts, root)
        if rank == root:
            assert torch.equal(torch.stack(parts).cpu(), stacked)
        part = torch.empty(3, 5, device="hpu")
        dist.scatter(part, [(one * 2).to("hpu") for one in everybody] if rank == root else None, root)
        assert torch.equal(part.cpu(), mine * 2)
    parts = [torch.empty(3, 5, device="hpu") for _ in range(ranks)]
    dist.all_gather(parts, mine.to("hpu"))
    assert torch.equal(torch.stack(parts).cpu(), stacked)
    whole = torch.empty(3 * ranks, 5, device="hpu")
    dist.all_gather_into_tensor(whole, mine.to("hpu"))
    assert torch.equal(whole.cpu(), stacked.flatten(0, 1))
    parts = [torch.empty(r, 2, device="hpu") for r in range(ranks)]  # Rank 0 has nothing.
    dist.all_gather(parts, values(rank, (rank, 2)).to("hpu"))
    assert all(torch.equal(part.cpu(), values(r, (r, 2))) for r, part in enumerate(parts))
    part = torch.empty(3, 5, device="hpu")
    dist.reduce_scatter(part, [(mine * (r + 1)).to("hpu") for r in range(ranks)])
    torch.testing.assert_close(part.cpu(), stacked.sum(0) * (rank + 1))
    dist.reduce_scatter_tensor(part, torch.cat([mine * (r + 1) for r in range(ranks)]).to("hpu"))
    torch.testing.assert_close(part.cpu(), stacked.sum(0) * (rank + 1))
    part = torch.empty(rank + 1, device="hpu")
    dist.reduce_scatter(part, [values(rank, (r + 1,)).to("hpu") for r in range(ranks)])
    torch.testing.assert_close(part.cpu(), sum(values(r, (rank + 1,)) for r in range(ranks)))
    x, y = torch.arange(2. * ranks).add(100 * rank).to("hpu"), torch.empty(2 * ranks, device="hpu")
    dist.all_to_all_single(y, x)
    assert y.tolist() == [100 * r + 2 * rank + i for r in range(ranks) for i in range(2)]
    into = [rank + r for r in range(ranks)]  # From r to s go r + s rows; from 0 to 0 none.
    x, y = torch.full((sum(into), 2), float(rank), device="hpu"), torch.empty(sum(into), 2, device="hpu")
    dist.all_to_all_single(y, x, into, into)
    assert y[:, 1].tolist() == [float(r) for r in range(ranks) for _ in range(into[r])]
    parts = [torch.empty(rank + r, device="hpu") for r in range(ranks)]
    dist.all_to_all(parts, [torch.full((rank + r,), float(rank), device="hpu") for r in range(ranks)])
    assert [part.tolist() for part in parts] == [[float(r)] * (rank + r) for r in range(ranks)]
    several = [mine.to("hpu"), (mine * 2).to("hpu"), torch.tensor([float(rank)], device="hpu")]
    dist.all_reduce_coalesced(several)
    torch.testing.assert_close(several[1].cpu(), stacked.sum(0) * 2)
    assert several[2].item() == sum(range(ranks))
    empty = torch.empty(0, 3, device="hpu")
    for call in (dist.all_reduce, lambda e: dist.broadcast(e, 0), lambda e: dist.all_gather([e] * ranks, e)):
        call(empty)
    dist.barrier()
    messages(rank, ranks)
    objects(rank, ranks)
    groups(rank, ranks)
    types(rank, ranks)
    works(rank, ranks)
    refusals(rank, ranks)


def messages(rank, ranks):
    """Both neighbours send first; messages of other tags and of a batch do not get in each other's way."""
    right, left = (rank + 1) % ranks, (rank - 1) % ranks
    out, into = torch.full((4,), float(rank), device="hpu"), torch.empty(4, device="hpu")
    for work in [dist.isend(out, right), dist.irecv(into, left)]:
        work.wait()
    assert into.tolist() == [left] * 4
    x, y = torch.empty(1, device="hpu"), torch.empty(1, device="hpu")
    works = [dist.irecv(x, left, tag=2), dist.irecv(y, left, tag=1),
             dist.isend(torch.ones(1, device="hpu"), right, tag=1), dist.isend(torch.ones(1, device="hpu") * 2, right, tag=2)]
    for work in works:
        work.wait()
    assert (x.item(), y.item()) == (2, 1)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, out, left), dist.P2POp(dist.irecv, into, right)])
    for work in works:
        work.wait()
    assert into.tolist() == [right] * 4
    host = torch.empty(3, dtype=torch.int64)
    if rank == 0:
        dist.send(torch.tensor([1, 2, 3]), 1)
    elif rank == 1:
        assert dist.recv(host, 0) == 0 and host.tolist() == [1, 2, 3]
    with pytest.raises(NotImplementedError, match="name the rank"):
        dist.recv(into)


def objects(rank, ranks):
    everybody = [None] * ranks
    dist.all_gather_object(everybody, {"rank": rank, "text": "x" * rank})
    assert everybody == [{"rank": r, "text": "x" * r} for r in range(ranks)]
    given = [("a", 1), None] if rank == 1 else [None, None]
    dist.broadcast_object_list(given, 1)
    assert given == [("a", 1), None]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(ranks)] if rank == 0 else [None] * ranks, 0)
    assert got == [f"for {rank}"]
    everybody = [None] * ranks if rank == 0 else None
    dist.gather_object(rank, everybody, 0)
    assert rank != 0 or everybody == list(range(ranks))


def groups(rank, ranks):
    """Several at once; a rank's number in a group is another one."""
    low, high = dist.new_group([0, 1]), dist.new_group(list(range(ranks))[::-1])
    backwards = dist.new_group([ranks - 1, 0])
    x, y = torch.ones(3, device="hpu"), torch.full((3,), float(rank), device="hpu")
    works = [dist.all_reduce(y, group=high, async_op=True)]
    if rank < 2:
        works.append(dist.all_reduce(x, group=low, async_op=True))
    for work in works:
        work.wait()
    assert x.tolist() == [2. if rank < 2 else 1.] * 3 and y.tolist() == [sum(range(ranks))] * 3
    if rank in (0, ranks - 1):
        z = torch.full((2,), float(rank), device="hpu")
        dist.broadcast(z, ranks - 1, group=backwards)
        assert z.tolist() == [ranks - 1] * 2
    dist.barrier(group=high)
    dist.destroy_process_group(high)


def types(rank, ranks):
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool):
        x = values(rank, (40,), dtype).to("hpu")
        dist.all_reduce(x)
        everybody = [values(r, (40,), dtype) for r in range(ranks)]
        expected = torch.stack(everybody).any(0) if dtype == torch.bool else torch.stack(everybody).double().sum(0).to(dtype)
        torch.testing.assert_close(x.cpu(), expected, rtol=1e-2 if dtype in (torch.float16, torch.bfloat16) else 1e-6, atol=1e-6)
    for dtype in (torch.int16, torch.complex64, torch.bool):
        x = torch.arange(6).add(rank).to(dtype).to("hpu")
        dist.broadcast(x, 1)
        assert torch.equal(x.cpu(), torch.arange(6).add(1).to(dtype))
    with pytest.raises(TypeError, match="int32"):
        dist.all_reduce(torch.ones(3, dtype=torch.int16, device="hpu"))
    with pytest.raises(TypeError, match="average"):
        dist.all_reduce(torch.ones(3, dtype=torch.bool, device="hpu"), op=dist.ReduceOp.AVG)
    with pytest.raises(ValueError, match="BAND"):
        dist.all_reduce(torch.ones(3, dtype=torch.int32, device="hpu"), op=dist.ReduceOp.BAND)
    nan = torch.tensor([float("nan"), float("inf"), 0.], device="hpu")
    dist.all_reduce(nan, op=dist.ReduceOp.MAX)
    assert str(nan.tolist()) == "[nan, inf, 0.0]"
    images = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).to("hpu")
    host = images.cpu()
    dist.broadcast(images, 0)
    assert rank or torch.equal(images.cpu(), host)


def works(rank, ranks):
    """A call does not wait for a rank that is late, wait() does not hold the thread, and what follows has the results."""
    dist.barrier()
    if rank == 1:
        time.sleep(.5)
    start = time.time()
    x = torch.full((1000,), float(rank), device="hpu")
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:
        assert not work.is_completed()
    work.wait()
    y = x + 1
    took = time.time() - start
    assert rank != 0 or took < .4, f"the host waited {took} s"
    assert y[5].item() == sum(range(ranks)) + 1 and work.is_completed()
    dist.barrier()
    if rank == 1:
        time.sleep(.3)
    x = torch.full((1000,), float(rank), device="hpu")
    torch.hpu.synchronize()
    work = dist.all_reduce(x, async_op=True)
    if rank == 0:  # Memory that nobody has any more is not written before the others have read it.
        del work, x
        [torch.full((1000,), 99., device="hpu") for _ in range(40)]
    else:
        work.wait()
        assert x[0].item() == sum(range(ranks))
    side = torch.hpu.Stream()
    side.wait_stream(torch.hpu.current_stream())
    with torch.hpu.stream(side):
        z = y * 2
        dist.all_reduce(z)
        z = z + 1
    torch.hpu.current_stream().wait_stream(side)
    assert z[0].item() == 2 * ranks * (sum(range(ranks)) + 1) + 1
    future = dist.all_reduce(torch.ones(2, device="hpu"), async_op=True).get_future()
    assert future.then(lambda f: f.value()[0] * 2).wait().tolist() == [2 * ranks] * 2
    from datetime import timedelta
    work = dist.all_reduce(torch.ones(2, device="hpu"), async_op=True)
    assert work.wait(timedelta(seconds=20)) and work.is_completed()
    works = [dist.all_reduce(torch.ones(50, device="hpu") * i, async_op=True) for i in range(200)]  # Memory is given on while they run.
    works[-1].wait()
    assert works[7].result()[0][3].item() == 7 * ranks


def refusals(rank, ranks):
    with pytest.raises(ValueError, match="contiguous"):
        dist.all_reduce(torch.ones(4, 6, device="hpu").t())
    with pytest.raises(ValueError, match="at place"):
        dist.all_gather([torch.empty(3, device="hpu") for _ in range(ranks)], torch.ones(2, device="hpu"))
    with pytest.raises(ValueError, match="must have"):
        dist.all_gather_into_tensor(torch.empty(5 * ranks, device="hpu"), torch.ones(2, device="hpu"))
    with pytest.raises(TypeError, match="different types"):
        dist.all_gather_into_tensor(torch.empty(2 * ranks, device="hpu"), torch.ones(2, dtype=torch.int64, device="hpu"))
    x = torch.ones(2)
    dist.all_reduce(x)
    assert x.tolist() == [ranks] * 2


@LAZY
def test_collectives_are_what_the_host_computes(lazy):
    processes.run(all_collectives, 3, PT_HPU_LAZY_MODE=lazy)


def test_collectives_over_two_nodes():
    processes.run(all_collectives, 4, nodes=2)


def failing(rank, ranks):
    from hpu_torch.distributed import CollectiveError, CollectiveTimeoutError
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    assert x.tolist() == [ranks] * 4
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    start = time.time()
    dist.all_reduce(x)  # Whether it knows already or not: the values cannot be had.
    with pytest.raises(CollectiveError) as caught:
        (x + 1).tolist()
    error = caught.value
    assert (error.collective, error.rank, error.ranks, error.number) == ("all_reduce", rank, ranks, 2), str(error)
    assert not isinstance(error, CollectiveTimeoutError) and "rank 1" in str(error) and time.time() - start < 20
    with pytest.raises(CollectiveError):
        dist.all_reduce(x)
    # Those who are left go on, with a group of their own.
    store = dist.distributed_c10d._get_default_store()
    dist.destroy_process_group()
    dist.init_process_group("hccl", store=dist.PrefixStore("again", store), rank=rank // 2, world_size=2)
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    assert x.tolist() == [2] * 4
    dist.barrier()
    return True


def test_a_killed_rank_is_a_typed_error_of_the_others():
    assert processes.run(failing, 3, dies=[1]) == [True, None, True]


def failing_message(rank, ranks):
    """The peer ends before the pair's communicator is there, or with a message on its way."""
    from hpu_torch.distributed import CollectiveError
    x = torch.ones(4, device="hpu")
    if rank == 0:
        dist.recv(x, 1)
    else:
        dist.send(x, 0)
        torch.hpu.synchronize()
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(CollectiveError, match="recv .*rank 0 of 2"):
        dist.recv(x, 1)
        torch.hpu.synchronize()
    work = dist.isend(x, 1)  # Nobody makes this communicator.
    assert not work.is_completed()
    start = time.time()
    with pytest.raises(CollectiveError, match="send"):
        work.wait()
    assert time.time() - start < 20


def test_a_killed_peer_of_messages_is_a_typed_error():
    processes.run(failing_message, 2, timeout_s=3, dies=[1])


def differing(rank, ranks):
    from hpu_torch.distributed import CollectiveError
    x = torch.ones(4 + rank, device="hpu")
    work = dist.all_reduce(x, async_op=True)
    with pytest.raises(CollectiveError, match="differ"):
        for _ in range(1000):
            work.wait()
            time.sleep(.01)
    assert work.is_completed() and not work.is_success()


def test_calls_that_differ_are_a_typed_error():
    processes.run(differing, 2)


def late(rank, ranks):
    from hpu_torch.distributed import CollectiveTimeoutError
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    torch.hpu.synchronize()
    if rank == 0:
        dist.all_reduce(x)
        with pytest.raises(CollectiveTimeoutError, match="all_reduce.*rank 1"):
            torch.hpu.synchronize()
    else:
        time.sleep(3)


def test_a_rank_that_does_not_come_is_an_error_within_the_timeout():
    processes.run(late, 2, timeout_s=2)


def leaving(rank, ranks):
    x = torch.ones(4, device="hpu")
    dist.all_reduce(x)
    torch.hpu.synchronize()
    if rank == 0:
        work = dist.all_reduce(x, async_op=True)
        start = time.time()
        del work
        dist.destroy_process_group()
        assert time.time() - start < 10
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
    else:
        time.sleep(3)


def test_a_group_with_work_that_nobody_joins_goes_away():
    processes.run(leaving, 2)


@pytest.mark.parametrize("arguments, variables, expected", [
    ({}, {}, (1, 0, 0)),
    ({}, {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1"}, (4, 3, 1)),
    ({}, {"OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, (4, 2, 0)),
    ({}, {"WORLD_SIZE": "4", "NODE_RANK": "1", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "1"}, (4, 3, 1)),
    ({}, {"WORLD_SIZE": "4", "RANK": "3", "LOCAL_WORLD_SIZE": "2"}, (4, 3, 1)),
    (dict(world_size=2, rank=1, local_rank=1), {"WORLD_SIZE": "9", "RANK": "0"}, (2, 1, 1)),
    ({}, {"WORLD_SIZE": "2", "RANK": "2"}, "RANK is from 0"),
    ({}, {"WORLD_SIZE": "two"}, "WORLD_SIZE=two"),
    ({}, {"WORLD_SIZE": "20", "RANK": "12", "LOCAL_RANK": "12"}, "no device"),
])
def test_which_process_this_is(monkeypatch, arguments, variables, expected):
    from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
    for name in list(os.environ):
        if name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT") or name.startswith(("OMPI_", "PMI_")):
            monkeypatch.delenv(name)
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):  # What it sets is gone afterwards.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if isinstance(expected, str):
        with pytest.raises(ValueError, match=expected):
            initialize_distributed_hpu(**arguments)
        return
    assert initialize_distributed_hpu(**arguments) == expected
    assert torch.hpu.current_device() == expected[2]
    assert os.environ["LOCAL_RANK"] == str(variables.get("LOCAL_RANK", expected[2]))


LAUNCHED = """
import os, torch, torch.distributed as dist
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu
world, rank, local = initialize_distributed_hpu()
dist.init_process_group("hccl")
x = torch.full((2,), float(rank), device="hpu")
assert x.device.index == local == rank, (x.device, local, rank)
dist.all_reduce(x)
open(f"{os.environ['OUT']}/{rank}", "w").write(f"{world} {x.tolist()} {torch.hpu.get_device_properties().module_id}")
"""


def test_a_process_that_just_ends_does_not_hang(run_python):
    start = time.time()
    run_python("""
        import os, torch, torch.distributed as dist, hpu_torch
        from multiprocessing import get_context
        def rank(number, port):
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(number), WORLD_SIZE="2", LOCAL_RANK=str(number))
            dist.init_process_group("hccl")
            x = torch.ones(3, device="hpu")
            dist.all_reduce(x)
            print(x.tolist())
            if number == 0:
                works = [dist.all_reduce(x, async_op=True), dist.irecv(x, 1)]  # The other one calls neither.
        children = [get_context("fork").Process(target=rank, args=(number, %d)) for number in range(2)]
        for child in children: child.start()
        for child in children: child.join(40)
        assert [child.exitcode for child in children] == [0, 0], [child.exitcode for child in children]
    """ % processes.free_port())
    assert time.time() - start < 30


def launched(tmp_path, *command, **environment):
    (tmp_path / "program.py").write_text(LAUNCHED)
    done = subprocess.run([*command, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "HPU_NODE": f"launched-{os.getpid()}", "OUT": str(tmp_path), "OMP_NUM_THREADS": "1", **environment})
    assert done.returncode == 0, done.stdout + done.stderr
    return [(tmp_path / str(rank)).read_text() for rank in range(2)]


def test_torchrun_gives_each_process_a_device(tmp_path):
    said = launched(tmp_path, sys.executable, "-m", "hpu_torch.run", "--nproc_per_node=2", f"--master_port={processes.free_port()}",
                    HABANA_VISIBLE_MODULES="3,1")
    assert said == ["2 [1.0, 1.0] 3", "2 [1.0, 1.0] 1"]


def test_mpirun_gives_each_process_a_device(tmp_path):
    from shutil import which
    if not which("mpirun"):
        pytest.skip("no mpirun")
    said = launched(tmp_path, "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", sys.executable, MASTER_ADDR="127.0.0.1",
                    MASTER_PORT=str(processes.free_port()))
    assert [text.rsplit(" ", 1)[0] for text in said] == ["2 [1.0, 1.0]"] * 2


def captured(rank, ranks):
    x, y = torch.zeros(3, 5).to("hpu"), torch.zeros(3, 5).to("hpu")
    parts = [torch.empty(3, 5, device="hpu") for _ in range(ranks)]
    x.copy_(values(rank))
    graph = torch.hpu.HPUGraph()
    dist.all_reduce(torch.ones(1, device="hpu"))  # The communicator is there.
    with torch.hpu.graph(graph):
        z = x * 2
        work = dist.all_reduce(z, async_op=True)
        y.add_(1)  # Beside it.
        work.wait()
        dist.all_gather(parts, z + y)
        result = torch.stack(parts).sum(0)
    assert y.sum().item() == 0
    for step in range(1, 4):
        x.copy_(values(rank) * step)
        graph.replay()
        total = sum(values(r) for r in range(ranks)) * 2 * step
        torch.testing.assert_close(z.cpu(), total)
        torch.testing.assert_close(result.cpu(), ranks * (total + step))
    with pytest.raises(RuntimeError, match="cannot be captured|captured cannot"):
        with torch.hpu.graph(torch.hpu.HPUGraph()):
            dist.barrier()
    dist.all_reduce(x)
    return x.cpu()


@LAZY
def test_collectives_in_a_graph(lazy):
    results = processes.run(captured, 2, PT_HPU_LAZY_MODE=lazy)
    assert torch.equal(*results)
