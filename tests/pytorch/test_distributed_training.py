# SPDX-License-Identifier: Apache-2.0
"""Training over several devices equals training of the whole batch on the CPU."""
import copy
import json
import os
import signal
import subprocess
import time
import warnings

import habana_frameworks.torch.core as htcore
import pytest
import ranks as processes
import torch
import torch.distributed as dist
from hpu_torch.distributed import CollectiveError
from hpu_torch.distributed.fast_ddp import all_reduce_gradients, broadcast_parameters
from nets import MODES, in_mode, set_mode
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 3, 16


class Net(torch.nn.Module):
    """With a part that some ranks do not use, if `branches`. Few shapes: each is compiled by each rank."""

    def __init__(self, branches=False):
        super().__init__()
        self.first, self.second, self.last = (torch.nn.Linear(8, 8) for _ in range(3))
        self.extra = torch.nn.Linear(8, 8) if branches else None

    def forward(self, x, use_extra=False):
        x = torch.relu(self.first(x))
        x = torch.tanh(self.second(x))
        if use_extra:
            x = x + self.extra(x)
        return self.last(x)


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 8, generator=generator), torch.randint(0, 8, (BATCH,), generator=generator)


def reference(net, optimiser, ranks=1, extra=False):
    """The whole batch on the CPU; with `extra` the odd ranks' shares go through the branch."""
    x, target = data()
    optimiser = optimiser(net.parameters())
    for _ in range(STEPS):
        optimiser.zero_grad()
        if extra:
            sum(torch.nn.functional.cross_entropy(net(x[r::ranks], r % 2 == 1), target[r::ranks]) / ranks for r in range(ranks)).backward()
        else:
            torch.nn.functional.cross_entropy(net(x), target).backward()
        optimiser.step()
    return [p.detach() for p in net.parameters()]


def close(net, expected):
    for mine, other in zip(net.parameters(), expected):
        torch.testing.assert_close(mine.detach().cpu(), other, rtol=1e-5, atol=1e-6)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=.1, momentum=.9)


def adam(parameters):
    return torch.optim.Adam(parameters, lr=.01)


def step(net, x, target, optimiser, *arguments, reduce=None):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(x, *arguments), target).backward()
    if reduce:
        reduce(net)
    optimiser.step()
    htcore.mark_step()


def train(rank, ranks, kinds, part=0, modes=MODES, group=None):
    """All ranks, and then the first `part` of them in a group of their own."""
    import hpu_torch
    hpu_torch.fallback.allow("none")
    dist._DEFAULT_FIRST_BUCKET_BYTES = 200  # Of what the network is, the usual one has room.
    x, target = data()
    x, target = x[rank::ranks].to("hpu"), target[rank::ranks].to("hpu")
    torch.manual_seed(0)
    start = Net()
    expected = reference(copy.deepcopy(start), sgd)
    for mode in modes:
        set_mode(mode)
        for number, options in enumerate(kinds):
            net = copy.deepcopy(start).to("hpu")
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # A program compiles before it wraps, or behind.
                parallel = in_mode(mode, DistributedDataParallel(net if number % 2 else in_mode(mode, net), process_group=group, **options))
                optimiser = in_mode(mode, sgd(parallel.parameters()))
                for _ in range(STEPS):
                    step(parallel, x, target, optimiser)
            close(net, expected)
        net = in_mode(mode, copy.deepcopy(start).to("hpu"))
        if rank:
            torch.nn.init.zeros_(net.last.weight)
        broadcast_parameters(net, group=group)
        optimiser = in_mode(mode, sgd(net.parameters()))
        for _ in range(STEPS):
            step(net, x, target, optimiser, reduce=lambda net: all_reduce_gradients(net, group=group))
        close(net, expected)
    if part:
        group = dist.new_group(range(part))
        if rank < part:
            train(rank, part, kinds, modes=("lazy", "compiled"), group=group)
        dist.barrier()  # Rank 0 has the store.


KINDS = [dict(), dict(bucket_cap_mb=.0002, gradient_as_bucket_view=True), dict(static_graph=True)]


@pytest.mark.parametrize("ranks, part, nodes", [(2, 0, 1), (8, 4, 1), (4, 0, 2)])
def test_ddp_and_fast_ddp_equal_the_whole_batch_in_all_modes(ranks, part, nodes):
    processes.run(train, ranks, KINDS if ranks == 2 else KINDS[1:2], part, nodes=nodes)


def more_ddp(rank, ranks, mode):
    import hpu_torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    hpu_torch.fallback.allow("none")
    set_mode(mode)
    x, target = data()
    mine, wanted = x[rank::ranks].to("hpu"), target[rank::ranks].to("hpu")
    torch.manual_seed(0)
    start = Net()

    # Gradients are summed over two backwards, the first of which exchanges nothing.
    net = copy.deepcopy(start).to("hpu")
    parallel = in_mode(mode, DistributedDataParallel(net, device_ids=[rank]))
    half = len(mine) // 2
    with parallel.no_sync():
        (torch.nn.functional.cross_entropy(parallel(mine[:half]), wanted[:half]) / 2).backward()
    alone = net.last.bias.grad.cpu()
    (torch.nn.functional.cross_entropy(parallel(mine[half:]), wanted[half:]) / 2).backward()
    whole = copy.deepcopy(start)
    torch.nn.functional.cross_entropy(whole(x), target).backward()
    for a, b in zip(net.parameters(), whole.parameters()):
        torch.testing.assert_close(a.grad.cpu(), b.grad, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(alone, whole.last.bias.grad / 2)

    # A part that only the odd ranks use.
    branched = Net(branches=True)
    expected = reference(copy.deepcopy(branched), sgd, ranks, extra=True)
    net = copy.deepcopy(branched).to("hpu")
    parallel = in_mode(mode, DistributedDataParallel(net, find_unused_parameters=True))
    optimiser = sgd(parallel.parameters())
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser, rank % 2 == 1)
    close(net, expected)

    # Each rank has a part of the optimiser's state.
    expected = reference(copy.deepcopy(start), adam)
    net = copy.deepcopy(start).to("hpu")
    parallel = in_mode(mode, DistributedDataParallel(net))
    optimiser = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=.01)
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser)
    close(net, expected)
    assert len(optimiser.optim.state) < len(list(net.parameters()))

    # A hook of the program's own, for each of several buckets.
    dist._DEFAULT_FIRST_BUCKET_BYTES = 200
    net = copy.deepcopy(start).to("hpu")
    parallel = in_mode(mode, DistributedDataParallel(net, **KINDS[1]))
    buckets = []

    def halved(state, bucket):
        buckets.append(bucket.index())
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / ranks)

    parallel.register_comm_hook(None, halved)
    optimiser = sgd(parallel.parameters())
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser)
    close(net, reference(copy.deepcopy(start), sgd))
    assert max(buckets) >= 2, buckets
    numbers = parallel._get_ddp_logging_data()
    assert "hccl" in str(numbers.get("backend_name", "hccl"))


@pytest.mark.long_in("eager")
@pytest.mark.parametrize("mode", MODES)
def test_more_of_ddp(mode):
    processes.run(more_ddp, 2, mode)


def inside(rank, ranks):
    import hpu_torch
    parallel = DistributedDataParallel(Net().to("hpu"))
    x = data()[0].to("hpu")
    for part in (hpu_torch.compile(lambda x: parallel(x)), hpu_torch.compile(torch.nn.Sequential(parallel))):
        with pytest.raises(RuntimeError, match="compile it by itself"):
            part(x)
    parallel(x).sum().backward()  # Nothing of it has been begun.


def test_a_wrapped_module_inside_of_what_is_compiled_is_an_error():
    processes.run(inside, 1)


def interrupted(rank, ranks):
    x, target = data()
    x, target = x[rank::ranks].to("hpu"), target[rank::ranks].to("hpu")
    parallel = DistributedDataParallel(Net().to("hpu"))
    optimiser = sgd(parallel.parameters())
    start = time.time()
    with pytest.raises(CollectiveError, match="rank 1 "):
        for number in range(1000):
            if rank == 1 and number == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            step(parallel, x, target, optimiser)
            torch.hpu.synchronize()
    assert time.time() - start < 20
    return True


def test_training_ends_with_a_typed_error_when_a_rank_is_killed():
    assert processes.run(interrupted, 2, dies=[1]) == [True, None]


def traced(rank, ranks):
    torch.manual_seed(0)
    net = torch.nn.Sequential(*(layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.ReLU()))).to("hpu")
    parallel = DistributedDataParallel(net, bucket_cap_mb=1)
    x = torch.randn(64, 512).to("hpu")
    for lazy in (False, True):
        torch.hpu.set_lazy(lazy)
        for _ in range(2):
            parallel(x).pow(2).mean().backward()
            htcore.mark_step()
    torch.hpu.synchronize()


def test_all_reduces_run_while_the_backward_computes(tmp_path):
    import hpu_torch
    program = os.path.join(os.path.dirname(hpu_torch.__file__), "..", "..", "bin", "hpu-trace")
    if not os.path.exists(program):
        pytest.skip("no hpu-trace beside this build of hpu_torch")
    processes.run(traced, 2, HPU_TRACE=f"{tmp_path}/%p.hputrace")
    traces = list(tmp_path.glob("*.hputrace"))
    assert len(traces) == 2
    for trace in traces:
        said = json.loads(subprocess.run([program, "overlap", "--json", str(trace)], check=True, capture_output=True, text=True).stdout)
        hidden = sum(us for engines, us in said["running_us"].items() if "nic" in engines and ("mme" in engines or "tpc" in engines))
        computing = said["engines"]["mme"]["busy_us"] + said["engines"]["tpc"]["busy_us"]
        assert hidden > .1 * computing, said["running_us"]
