# SPDX-License-Identifier: Apache-2.0
"""Training over several devices equals training of the whole batch on the CPU."""
import copy
import warnings

import pytest
import ranks as processes
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS, BATCH = 3, 16


class Net(torch.nn.Module):
    """With a part that some ranks do not use, if `branches`."""

    def __init__(self, branches=False):
        super().__init__()
        self.first, self.second, self.last = torch.nn.Linear(8, 24), torch.nn.Linear(24, 24), torch.nn.Linear(24, 4)
        self.extra = torch.nn.Linear(24, 24) if branches else None

    def forward(self, x, use_extra=False):
        x = torch.relu(self.first(x))
        x = torch.tanh(self.second(x))
        if use_extra:
            x = x + self.extra(x)
        return self.last(x)


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 8, generator=generator), torch.randint(0, 4, (BATCH,), generator=generator)


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


def step(net, x, target, optimiser, *arguments):
    optimiser.zero_grad()
    torch.nn.functional.cross_entropy(net(x, *arguments), target).backward()
    optimiser.step()
    import habana_frameworks.torch.core as htcore
    htcore.mark_step()


def train(rank, ranks, kinds):
    import hpu_torch
    hpu_torch.fallback.allow("none")
    x, target = data()
    x, target = x[rank::ranks].to("hpu"), target[rank::ranks].to("hpu")
    torch.manual_seed(0)
    start = Net()
    expected = reference(copy.deepcopy(start), sgd)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for options in kinds:
            net = copy.deepcopy(start).to("hpu")
            parallel = DistributedDataParallel(net, **options)
            optimiser = sgd(parallel.parameters())
            for _ in range(STEPS):
                step(parallel, x, target, optimiser)
            close(net, expected)
    return hpu_torch.fallback.counts() if hasattr(hpu_torch.fallback, "counts") else None


KINDS = [dict(), dict(bucket_cap_mb=.001, gradient_as_bucket_view=True), dict(static_graph=True)]


@pytest.mark.parametrize("lazy", ["0", "1"], ids=["eager", "lazy"])
@pytest.mark.parametrize("ranks, nodes", [(2, 1), (4, 1), (8, 1), (4, 2)])
def test_ddp_equals_the_whole_batch(ranks, nodes, lazy):
    processes.run(train, ranks, KINDS if ranks == 2 else KINDS[1:2], nodes=nodes, PT_HPU_LAZY_MODE=lazy)


def more_ddp(rank, ranks):
    import hpu_torch
    from torch.distributed.optim import ZeroRedundancyOptimizer
    hpu_torch.fallback.allow("none")
    x, target = data()
    mine, wanted = x[rank::ranks].to("hpu"), target[rank::ranks].to("hpu")
    torch.manual_seed(0)
    start = Net()

    # Gradients are summed over two backwards, the first of which exchanges nothing.
    net = copy.deepcopy(start).to("hpu")
    parallel = DistributedDataParallel(net, device_ids=[rank])
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
    parallel = DistributedDataParallel(net, find_unused_parameters=True)
    optimiser = sgd(parallel.parameters())
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser, rank % 2 == 1)
    close(net, expected)

    # Each rank has a part of the optimiser's state.
    expected = reference(copy.deepcopy(start), adam)
    net = copy.deepcopy(start).to("hpu")
    parallel = DistributedDataParallel(net)
    optimiser = ZeroRedundancyOptimizer(parallel.parameters(), torch.optim.Adam, lr=.01)
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser)
    close(net, expected)
    assert len(optimiser.optim.state) < len(list(net.parameters()))

    # A hook of the program's own.
    net = copy.deepcopy(start).to("hpu")
    parallel = DistributedDataParallel(net)

    def halved(state, bucket):
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return future.then(lambda done: done.value()[0] / ranks)
    parallel.register_comm_hook(None, halved)
    optimiser = sgd(parallel.parameters())
    for _ in range(STEPS):
        step(parallel, mine, wanted, optimiser)
    close(net, reference(copy.deepcopy(start), sgd))
    numbers = parallel._get_ddp_logging_data()
    assert "hccl" in str(numbers.get("backend_name", "hccl"))


@pytest.mark.parametrize("lazy", ["0", "1"], ids=["eager", "lazy"])
def test_more_of_ddp(lazy):
    processes.run(more_ddp, 2, PT_HPU_LAZY_MODE=lazy)
