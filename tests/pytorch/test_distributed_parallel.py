# SPDX-License-Identifier: Apache-2.0
"""Attention and linear layers over several devices equal those of one."""
import copy

import pytest
import ranks as processes
import torch
import torch.distributed as dist
from hpu_torch.distributed.context_parallel import attention, ring_attention, ulysses_attention
from hpu_torch.distributed.tensor_parallel import ColumnParallelLinear, RowParallelLinear


def attend(rank, ranks):
    import hpu_torch
    hpu_torch.fallback.allow("none")
    generator = torch.Generator().manual_seed(3)
    whole = [torch.randn(2, 4, 8 * ranks, 6, generator=generator) for _ in range(4)]
    memory = {}
    for lazy in (False, True):
        torch.hpu.set_lazy(lazy)
        for is_causal in (False, True):
            q, k, v = (t.clone().requires_grad_() for t in whole[:3])
            out = attention(q, k, v, is_causal)
            out.backward(whole[3])
            expected = [t.chunk(ranks, 2)[rank] for t in (out.detach(), q.grad, k.grad, v.grad)]
            for kind in (ring_attention, ulysses_attention):
                q, k, v = (t.chunk(ranks, 2)[rank].to("hpu").requires_grad_() for t in whole[:3])
                torch.hpu.synchronize()
                torch.hpu.reset_peak_memory_stats()
                out = kind(q, k, v, is_causal)
                out.backward(whole[3].chunk(ranks, 2)[rank].to("hpu"))
                for mine, other in zip((out.detach(), q.grad, k.grad, v.grad), expected):
                    torch.testing.assert_close(mine.cpu(), other, rtol=1e-5, atol=2e-6)
                memory[kind.__name__] = torch.hpu.max_memory_allocated()
    low = [t.chunk(ranks, 2)[rank].to("hpu", torch.bfloat16) for t in whole[:3]]
    expected = attention(*(t.bfloat16().float() for t in whole[:3]), True).chunk(ranks, 2)[rank]
    torch.testing.assert_close(ring_attention(*low, is_causal=True).float().cpu(), expected, rtol=2e-2, atol=2e-2)
    # Ranks of a group have numbers of their own.
    some = dist.new_group([3, 1])
    if rank in (1, 3):
        part = dist.get_rank(some)
        mine = [t.chunk(2, 2)[part].to("hpu") for t in whole[:3]]
        expected = attention(*whole[:3], True).chunk(2, 2)[part]
        for kind in (ring_attention, ulysses_attention):
            torch.testing.assert_close(kind(*mine, is_causal=True, group=some).cpu(), expected, rtol=1e-5, atol=2e-6)
    dist.barrier()  # Rank 0 has the store.
    with pytest.raises(ValueError, match="heads"):
        ulysses_attention(*(torch.ones(1, ranks + 1, 2, 4, device="hpu") for _ in range(3)))
    with pytest.raises(ValueError, match="sequence"):
        ring_attention(*(torch.ones(2, 4, device="hpu") for _ in range(3)))
    return memory


def test_attention_over_four_ranks_equals_that_of_one_device():
    processes.run(attend, 4)


def linear(rank, ranks):
    import hpu_torch
    hpu_torch.fallback.allow("none")
    torch.manual_seed(0)
    up, down = torch.nn.Linear(6, 8), torch.nn.Linear(8, 5)
    x, weight = torch.randn(3, 6), torch.randn(3, 5)

    def run(up, down, x, weight):
        x = x.clone().requires_grad_()
        y = down(torch.relu(up(x)))
        (y * weight).sum().backward()
        return y, x.grad
    expected = run(up, down, x, weight)
    for options, other in (({}, {}), ({"gather_output": True}, {"input_is_parallel": False})):
        my_up = ColumnParallelLinear.of(copy.deepcopy(up).to("hpu"), **options)
        my_down = RowParallelLinear.of(copy.deepcopy(down).to("hpu"), **other)
        for mine, whole in zip(run(my_up, my_down, x.to("hpu"), weight.to("hpu")), expected):
            torch.testing.assert_close(mine.detach().cpu(), whole.detach(), rtol=1e-5, atol=1e-6)
        share = lambda t, dim: t.chunk(ranks, dim)[rank]  # noqa: E731
        for mine, whole in ((my_up.weight, share(up.weight.grad, 0)), (my_up.bias, share(up.bias.grad, 0)),
                            (my_down.weight, share(down.weight.grad, 1)), (my_down.bias, down.bias.grad)):
            torch.testing.assert_close(mine.grad.cpu(), whole, rtol=1e-5, atol=1e-6)
    torch.manual_seed(5)
    made = ColumnParallelLinear(6, 8, gather_output=True)
    torch.manual_seed(5)
    torch.testing.assert_close(made(x.to("hpu")).detach().cpu(), torch.nn.Linear(6, 8)(x).detach())
    with pytest.raises(ValueError, match="divide"):
        ColumnParallelLinear(6, 7)
    dist.barrier()


@pytest.mark.parametrize("lazy", ["0", "1"], ids=["eager", "lazy"])
def test_linear_layers_over_ranks_equal_those_of_one_device(lazy):
    processes.run(linear, 2, PT_HPU_LAZY_MODE=lazy)
