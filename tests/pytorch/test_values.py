# SPDX-License-Identifier: Apache-2.0
"""Values that are easily wrong: conversions, signs of remainders, ties, NaN, infinities, views. The CPU is the golden."""
import pytest
import torch

from hpu_torch import fallback

INF, NAN = float("inf"), float("nan")
INTEGERS = (torch.int64, torch.int32, torch.int8)


def check(function, *arguments, exact=True):
    with fallback.only("none"):
        there = function(*(a.to("hpu") if isinstance(a, torch.Tensor) else a for a in arguments))
    here = function(*arguments)
    for one, other in zip(*(part if isinstance(part, tuple) else (part,) for part in (there, here))):
        torch.testing.assert_close(one.cpu(), other, equal_nan=True, rtol=0 if exact else 2e-6, atol=0 if exact else 1e-6)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool], ids=str)
def test_floats_become_integers_as_on_the_cpu(dtype):
    inside = torch.tensor([0., 1.5, 3.99, 126.9, 64., 100.25])
    check(lambda x: x.to(dtype), inside)
    if dtype not in (torch.uint8, torch.bool):
        check(lambda x: x.to(dtype), -inside)
    if dtype in (torch.int8, torch.uint8, torch.int16):  # The low bits, for what fits in 32.
        check(lambda x: x.to(dtype), torch.tensor([300., -1., -300., 1e5, -1e5, 70000.]))


@pytest.mark.parametrize("dtype", INTEGERS + (torch.float32,), ids=str)
def test_quotients_and_remainders_have_the_cpus_signs(dtype):
    a, b = torch.tensor([-7, 7, -8, 8, 0, 3]).to(dtype), torch.tensor([2, -2, 3, -3, 5, -1]).to(dtype)
    for function in (torch.floor_divide, torch.remainder, torch.fmod, torch.true_divide):
        check(function, a, b)
    for mode in ("trunc", "floor"):
        check(lambda x, y: torch.div(x, y, rounding_mode=mode), a, b)


def test_integers():
    check(torch.pow, torch.tensor([-7, 7, 2, 0, 1, -1, 2, 0, -3, 3]), torch.tensor([2, 3, 40, 0, -1, -3, -2, 0, 21, 63]))
    for dtype in (torch.bool, torch.int8, torch.uint8, torch.int32):
        check(torch.sum, torch.ones(300).to(dtype))
    check(torch.gcd, torch.tensor([12, -18, 0, 7, 1836311903]), torch.tensor([18, 12, 5, 0, 1134903170]))
    check(torch.lcm, torch.tensor([12, -18, 0, 7]), torch.tensor([18, 12, 5, 0]))
    check(torch.bitwise_left_shift, torch.tensor([-7, 7, 1]), torch.tensor([1, 2, 40]))
    check(torch.bitwise_right_shift, torch.tensor([-7, 7, 1]), torch.tensor([1, 2, 40]))
    check(torch.mm, torch.tensor([[1 << 40, 3], [-5, 7]]), torch.tensor([[2, 3], [1, -1]]))


def test_nan_and_infinities():
    x = torch.tensor([1., NAN, 3., -INF, NAN])
    for function in (torch.max, torch.min, torch.argmax, torch.median, torch.nanmedian, lambda t: torch.sort(t, stable=True),
                     lambda t: torch.sort(t, stable=True, descending=True), lambda t: torch.cummax(t, 0),
                     lambda t: torch.cummin(t, 0), torch.nan_to_num, torch.signbit):
        check(function, x)
    y = torch.tensor([0., -0., 0., -0., 1, -1, INF, -INF, 2])
    check(torch.atan2, y, torch.tensor([0., 0., -0., -0., -2, -2, INF, -INF, 0]), exact=False)
    check(torch.hypot, torch.tensor([3e30, 0, INF]), torch.tensor([4e30, 0, NAN]))
    check(torch.nextafter, torch.tensor([0., 1, -1, 1, INF]), torch.tensor([1., 2, 0, 1, 0]))
    for function in (torch.logaddexp, torch.logaddexp2, torch.fmax, torch.fmin, torch.xlogy):
        check(function, torch.tensor([INF, -INF, 0., NAN, 0.]), torch.tensor([INF, -INF, 0., 1., NAN]), exact=False)
    check(torch.digamma, torch.tensor([0., -0., -1., -0.5, 1e-3, 1, 20, INF]), exact=False)
    check(lambda t: torch.logcumsumexp(t, 0), torch.tensor([-INF, -INF, 90., 100., -50.]), exact=False)


def test_ties_are_in_their_order():
    generator = torch.Generator().manual_seed(0)
    for count in (1, 2, 40, 3000):
        x = torch.randint(0, 5, (count,), generator=generator)
        for descending in (False, True):
            check(lambda t: torch.sort(t, stable=True, descending=descending), x)
    check(torch.argmax, torch.tensor([1, 3, 3, 2]))
    check(torch.argmin, torch.tensor([1., 0, 0, 2]))


def test_views_and_few_elements():
    x = torch.arange(24.).reshape(2, 3, 4)
    check(lambda t: torch.sort(t.transpose(0, 2), stable=True), x)
    check(lambda t: torch.cumsum(t[:, :1].expand(2, 5, 4), 1), x)
    check(lambda t: torch.sort(t.unsqueeze(-1).transpose(0, -1), stable=True)[0].isnan(), torch.randn(3, 2, 1, 2))
    check(lambda t: torch.quantile(t, 0.5, dim=0, keepdim=True, interpolation="midpoint"), torch.randn(3, 2, 1, 2), exact=False)
    for sizes in ((), (0,), (2, 0, 3), (1,)):
        t = torch.ones(sizes)
        for function in (torch.sum, torch.trunc, torch.isinf, lambda v: torch.nn.functional.pad(v, (1, 1)) if v.dim() else v):
            check(function, t)


def test_writing_at_indices_and_masks():
    x, at = torch.arange(12.).reshape(3, 4), torch.tensor([2, 0, 2])

    def put(t, *indices, values=1., accumulate=False):
        t = t.clone()
        return t.index_put_(indices, torch.as_tensor(values).to(t.device), accumulate=accumulate)
    check(lambda t, i: put(t, i, values=[9., 8, 7, 6]), x, at[:2])
    check(lambda t, i: put(t, i, i, accumulate=True, values=[1., 2, 3]), x, at)
    check(lambda t: put(t, t > 5), x)
    check(lambda t: put(t, t > 5, values=torch.arange(6.)), x)
    check(lambda t, i: t.unsqueeze(1).expand(3, 2, 4)[i, :, i], x, at)
    check(lambda t, i: t.put(i, t[0, :3], accumulate=True), x, at)
    check(lambda t: t.masked_scatter(t > 5, t.flip(0)), x)
    for how in ("prod", "mean", "amax", "amin"):
        for includes in (False, True):
            check(lambda t, i: t.index_reduce(0, i, t, how, include_self=includes), x, at, exact=False)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_floors_of_quotients_at_the_ends_of_a_type(dtype):
    limits = torch.iinfo(dtype)
    ends = torch.tensor([limits.min, limits.min + 1, limits.min // 2, 0, 1, limits.max // 2, limits.max - 1, limits.max], dtype=dtype)
    some = torch.randint(limits.min, limits.max, (200,), dtype=dtype, generator=torch.Generator().manual_seed(1))
    a, b = torch.cat([ends, some])[:, None], torch.cat([ends, some, torch.tensor([2, 3, 34], dtype=dtype)])
    b = torch.where((b == 0) | (b == -1 if dtype != torch.uint8 else b == 0), torch.ones_like(b), b)  # The CPU's process ends there.
    for function in (torch.floor_divide, lambda x, y: torch.div(x, y, rounding_mode="trunc"), torch.remainder, torch.fmod):
        assert torch.equal(function(a.to("hpu"), b.to("hpu")).cpu(), function(a, b))


def test_floors_of_quotients_of_floats():
    values = torch.tensor([-INF, -7.5, -2., -1e-30, -0., 0., 1e-30, .1, 1., 3., 7.5, 1e30, INF, float("nan")])
    a, b = values[:, None], values
    torch.testing.assert_close((a.to("hpu") // b.to("hpu")).cpu(), a // b, rtol=0, atol=0, equal_nan=True)
