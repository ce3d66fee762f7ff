# SPDX-License-Identifier: Apache-2.0
"""The recorder: the CPU's results in eager and lazy mode, no fallback; views, writes and aliases as on the CPU; graphs and compilations."""
import math
import random
import threading

import hpu_torch
import pytest
import torch
from hpu_torch import fallback, metrics
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.usefixtures("mode")


def numbers(*shape, dtype=torch.float32, seed=3):
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.bool:
        return torch.rand(*shape, generator=generator) > .5
    if not dtype.is_floating_point:
        return torch.randint(-7, 8, shape, generator=generator).to(dtype)
    return torch.randn(*shape, generator=generator).to(dtype)


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [t for part in value for t in flat(part)]


def check(function, *tensors, tolerance=None):
    """function on the CPU and on hpu: results (types, sizes, strides, values) and what became of the arguments agree."""
    cpu, hpu = [t.clone() for t in tensors], [t.to("hpu") for t in tensors]
    expected, result = flat(function(*cpu)), flat(function(*hpu))
    assert len(expected) == len(result)
    for e, r in list(zip(expected, result)) + list(zip(cpu, hpu)):
        assert r.device.type == "hpu" and (r.dtype, r.shape) == (e.dtype, e.shape)
        if e.numel() > 1:
            assert r.stride() == e.stride()
        rtol = tolerance or {torch.bfloat16: 1.6e-2, torch.float16: 2e-3}.get(e.dtype, 2e-5)
        torch.testing.assert_close(r.cpu(), e, rtol=rtol, atol=rtol, equal_nan=True)


ONE = [torch.exp, torch.sqrt, torch.rsqrt, torch.sigmoid, torch.tanh, torch.erf, torch.log1p, torch.neg, torch.abs, torch.floor, torch.round,
       torch.trunc, torch.sign, torch.reciprocal, torch.isnan, torch.relu, F.silu, F.gelu, lambda x: F.gelu(x, approximate="tanh"), F.hardswish,
       lambda x: x.softmax(-1), lambda x: x.log_softmax(0), lambda x: x.sum(), lambda x: x.sum(0), lambda x: x.mean((0, 1), True), lambda x: x.amax(1),
       lambda x: x.max(), lambda x: x.max(1), lambda x: x.min(0, True), lambda x: x.argmax(), lambda x: x.argmax(1), lambda x: x.argmin(0), lambda x: x.var(1),
       lambda x: x.std(), lambda x: x.clamp(-.5, .5), lambda x: x.clamp(min=0), lambda x: x ** 2, lambda x: x ** 3, lambda x: 2 / x, lambda x: 1 - x,
       lambda x: x.t(), lambda x: x.t() + x.t(), lambda x: x[:, 1:3] * 2, lambda x: x[::2].exp(), lambda x: x.flatten()[3:].sum(), lambda x: x.expand(3, 5, 4).sum(0),
       lambda x: x.to(torch.int32), lambda x: x.half().float(), lambda x: x.bool(), lambda x: x.tril(), lambda x: torch.cat([x, x[1:]], 0), lambda x: torch.stack([x, x], 1),
       lambda x: x.masked_fill(x > 0, 7), lambda x: torch.where(x > 0, x, -x), lambda x: (x > 0) & (x < 1), lambda x: x != x.round(), lambda x: (x > 9).any(),
       lambda x: (x < 9).all(1), lambda x: x.unfold(1, 2, 1).sum(-1), lambda x: x.as_strided((3, 3), (2, 1)) + 1, lambda x: F.pad(x, (1, 2)),
       lambda x: x.chunk(2, 1), lambda x: x.lerp(x.exp(), .25), lambda x: x.contiguous(memory_format=torch.contiguous_format) * 1.5,
       lambda x: torch.addcmul(x, x, x, value=.5), lambda x: x.logsumexp(1), lambda x: (x * x).sum().sqrt(),
       lambda x: torch.full_like(x, math.pi), lambda x: x.new_zeros(2, 3), lambda x: torch.arange(2, 9, 3, device=x.device), lambda x: torch.eye(3, device=x.device),
       lambda x: x.flip(0), lambda x: x.flip((0, -1)), lambda x: x.roll(2), lambda x: x.roll((1, -2), (0, 1)), lambda x: x.cumsum(1), lambda x: x.cumprod(0), lambda x: x.prod(1),
       lambda x: x.prod(), lambda x: x.norm(), lambda x: x.norm(1, 1), lambda x: torch.linalg.vector_norm(x, math.inf, 0), lambda x: torch.linalg.vector_norm(x, 3.)]


@pytest.mark.parametrize("index", range(len(ONE)))
def test_one_operand(index):
    check(ONE[index], numbers(5, 4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.uint8, torch.bool], ids=str)
def test_types(dtype):
    x, y = numbers(5, 4, dtype=dtype), numbers(5, 4, dtype=dtype, seed=4)
    check(lambda a, b: (a + b, a * b, a == b, a & b if not dtype.is_floating_point else a / b, a.sum(), a.sum(0), torch.cat([a, b]), a.t().contiguous()), x, y)
    if dtype != torch.bool:
        check(lambda a, b: (a - b, a < b, torch.maximum(a, b), a.amax(0), a.max(1), torch.where(a > b, a, b)), x, y)
    if dtype == torch.bfloat16:  # The CPU has no products of f16.
        check(lambda a, b: (a @ b.t(), a.softmax(1), a.exp(), a.mean(), F.layer_norm(a, (4,))), x, y, tolerance=2e-2)


def test_promotion():
    f, i, b, h = numbers(4), numbers(4, dtype=torch.int64), numbers(4, dtype=torch.bool), numbers(4, dtype=torch.bfloat16)
    check(lambda f, i, b, h: (f + i, i + 1, i + 1.5, i / 2, b + b, b + 1, b * 2.5, f + b, h + 1, h * 2.5, h + f, h + f[0], i * b, f > i, i == 1.0, i // 2, i % 3,
                              torch.exp(i), i.float().mean(), b.sum(), f.sum(dtype=torch.bfloat16), i.sum(dtype=torch.float32), torch.cat([f, i]),
                              torch.where(b, f, 0.), f + torch.tensor(2.), i + torch.tensor(2), f * torch.tensor(2)), f, i, b, h)


def test_large_integers_stay_exact():
    check(lambda x: (x + 1, x * 3, x.sum(), x.max(), x > 2 ** 40, x - 2 ** 53), torch.tensor([2 ** 40, -(2 ** 53) - 1, 2 ** 61 + 1]))


def test_special_numbers():
    x = torch.tensor([math.nan, math.inf, -math.inf, 0., -0., 1e-40, 3e38])
    check(lambda x: (x + 1, x * 2, x.exp(), x.isnan(), torch.maximum(x, x.flatten()[:1]), x == x, x.relu(), x.clamp(0, 1), x.sum(), x.max(), x.argmax(), x.bool()), x)


def test_numbers_and_nothing():
    check(lambda x: (x + 1, x.sum(), x.exp(), x.max(0), x.softmax(0), x.expand(3), x[None] * 2, x.mean()), torch.tensor(2.5))
    check(lambda x: (x + 1, x.sum(), x.sum(0), x.mean(), x.exp(), x.t() * 2, x.any(), x.all(), torch.cat([x, x]), x @ x.t(), x.t() @ x), torch.empty(0, 3))


def write(x):
    x[:, 1].add_(10)
    x[1:3, ::2] = 7
    x.t()[0].mul_(x[0, 1])
    if x.is_contiguous():
        x.view(-1)[3:9].exp_()
        x.view(2, 10)[:, 3:5].zero_()
    x[4] = x[0]
    y = x.clone()
    y += x
    x[0], x[1] = x[1].clone(), x[0].clone()
    x.diagonal().fill_(-1)
    x.as_strided((2, 2), (3, 2), 1).sub_(.5)
    return x, y, x[2], x.t()


def test_writes_through_views():
    check(write, numbers(5, 4))
    check(lambda x: write(x[:, 2:6]), numbers(5, 9))
    check(lambda x: write(x.t()), numbers(4, 5))


def test_out_arguments_and_aliases(mode):
    check(lambda x: torch.add(x, x, out=x), numbers(5, 4))
    check(lambda x: torch.mul(x[:2], 2, out=x[2:4]), numbers(5, 4))
    x = numbers(5, 4).to("hpu")
    assert x.add_(1) is x
    with pytest.raises(RuntimeError, match="memory location"):
        x.view(-1)[1:].add_(x.view(-1)[:-1])
    base = torch.zeros(6, device="hpu")
    view = base[1:4]
    base += 1
    view *= 3
    del base
    assert view.cpu().tolist() == [3, 3, 3]


def test_types_share_memory():
    x = numbers(4).to("hpu")
    y = (x + 1).view(torch.int32)
    y += 1
    assert torch.equal(y.view(torch.float32).cpu(), (x.cpu() + 1).view(torch.int32).add(1).view(torch.float32))


def test_memory_that_is_gone_is_not_read_too_late():
    x = torch.full((1000,), 3., device="hpu")
    y = x * 2
    del x
    others = [torch.full((1000,), float(i)).to("hpu") for i in range(5)]
    assert y.sum().item() == 6000 and [int(o.mean().item()) for o in others] == [0, 1, 2, 3, 4]
    a = torch.ones(8, device="hpu")
    b = a + 1
    a.copy_(torch.full((8,), 5.))  # From the host, after what read it.
    assert b.cpu().tolist() == [2.] * 8 and a.cpu().tolist() == [5.] * 8


def test_indices():
    x, i = numbers(6, 5), torch.tensor([4, 0, 2])
    check(lambda x, i: (x[i], x.index_select(1, i), x.gather(0, i[:, None].expand(3, 5)), x.scatter_add(0, i[:, None].expand(3, 5), x[:3]), x[i, i], x[:, i],
                        x.scatter(0, i[:, None].expand(3, 5), 2.), x.index_add(0, i, x[:3]), F.embedding(i, x), F.cross_entropy(x[:3], i)), x, i)
    check(lambda x, i: (x[i - 3], F.nll_loss(x[:3], i, reduction="none"), F.nll_loss(x[:3], i, ignore_index=2), F.nll_loss(x[:3], i, x[3], reduction="sum")), x, i)


GRADIENTS = {
    "linear": (lambda: nn.Linear(6, 5), (4, 6)), "bilinear layers": (lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 4), nn.Sigmoid()), (3, 2, 6)),
    "activations": (lambda: nn.Sequential(nn.ReLU(), nn.SiLU(), nn.GELU(), nn.LeakyReLU(), nn.GELU("tanh"), nn.Softmax(-1), nn.LogSoftmax(0)), (4, 6)),
    "exponential units": (lambda: nn.Sequential(nn.ELU(), nn.SELU(), nn.Softplus(), nn.LogSigmoid(), nn.Hardtanh(-.9, .1), nn.CELU(.5)), (4, 6)),
    "layer norm": (lambda: nn.LayerNorm((3, 6)), (4, 3, 6)), "layer norm without": (lambda: nn.LayerNorm(6, elementwise_affine=False), (4, 6)),
    "group norm": (lambda: nn.GroupNorm(2, 6), (3, 6, 5)), "batch norm": (lambda: nn.BatchNorm2d(6), (3, 6, 4, 4)), "batch norm 1d": (lambda: nn.BatchNorm1d(6), (5, 6)),
    "batch norm eval": (lambda: nn.BatchNorm2d(6).eval(), (3, 6, 4, 4)),
    "conv": (lambda: nn.Conv2d(4, 6, 3, padding=1), (2, 4, 7, 8)), "conv strided": (lambda: nn.Conv2d(4, 6, 3, 2, dilation=2, groups=2, bias=False), (2, 4, 11, 12)),
    "depthwise": (lambda: nn.Conv2d(4, 4, 3, groups=4), (2, 4, 7, 7)), "conv 1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), (2, 4, 7)),
    "conv 3d": (lambda: nn.Conv3d(2, 3, 2), (2, 2, 4, 5, 4)), "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), (2, 4, 5, 6)), "transposed and dilated": (lambda: nn.ConvTranspose2d(4, 6, (3, 2), 2, 1, output_padding=(1, 2), groups=2, dilation=3), (2, 4, 5, 6)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, 1), (2, 4, 9, 8)), "max pool ceil": (lambda: nn.MaxPool2d(2, 2, ceil_mode=True), (4, 9, 7)),
    "avg pool": (lambda: nn.AvgPool2d(3, 2, 1), (2, 4, 9, 8)), "avg pool not padded": (lambda: nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), (2, 4, 9, 8)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 4, 7, 5)), "flatten": (lambda: nn.Sequential(nn.Unflatten(1, (2, 3)), nn.Flatten(0, 1)), (4, 6)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    make, shape = GRADIENTS[name]
    torch.manual_seed(0)
    here = make()
    there = make()
    there.load_state_dict(here.state_dict())
    there.to("hpu")
    a, b = numbers(*shape).requires_grad_(), numbers(*shape).to("hpu").requires_grad_()
    y, z = here(a), there(b)
    weights = numbers(*y.shape, seed=9)
    (y * weights).sum().backward()
    (z * weights.to("hpu")).sum().backward()
    assert z.stride() == y.stride()
    pairs = [(y, z), (a.grad, b.grad)] + [(p.grad, q.grad) for p, q in zip(here.parameters(), there.parameters())] + list(zip(here.buffers(), there.buffers()))
    for e, r in pairs:
        torch.testing.assert_close(r.detach().cpu(), e.detach(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses(loss, reduction):
    def run(x, t):
        x = x.clone().requires_grad_()
        loss(x, t, reduction=reduction).sum().backward()
        return x.grad
    check(run, numbers(4, 5), numbers(4, 5, seed=8))


@pytest.mark.filterwarnings("error")
def test_losses_warn_of_nothing():
    x, t = numbers(4, 7).to("hpu"), numbers(4, 7).to("hpu")
    assert F.mse_loss(x, t).dim() == 0 and F.smooth_l1_loss(x, t, reduction="sum").dim() == 0


OPTIMISERS = {"sgd": lambda p: torch.optim.SGD(p, lr=.1), "momentum": lambda p: torch.optim.SGD(p, lr=.1, momentum=.9, weight_decay=.01, nesterov=True),
              "adam": lambda p: torch.optim.Adam(p, lr=.01), "adamw foreach": lambda p: torch.optim.AdamW(p, lr=.01, foreach=True)}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_training_is_one_graph_a_step_and_two_compilations(mode, name):
    losses = {}
    for device in ("cpu", "hpu"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(.2), nn.LayerNorm(16), nn.Linear(16, 3)).to(device)
        optimiser = OPTIMISERS[name](net.parameters())
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, .9)
        x, target = numbers(6, 8).to(device), torch.tensor([0, 1, 2, 0, 1, 2]).to(device)
        torch.hpu.synchronize()
        metrics.reset()
        torch.manual_seed(1)
        losses[device] = []
        for _ in range(6):
            optimiser.zero_grad()
            loss = F.cross_entropy(net(x), target)
            loss.backward()
            optimiser.step()
            hpu_torch.core.mark_step()
            losses[device].append(loss.detach())
            schedule.step()
    assert torch.allclose(torch.stack(losses["hpu"]).cpu(), torch.stack(losses["cpu"]), rtol=2e-5)
    if mode == "lazy":
        counts = metrics.counts()
        assert counts["compiles"] <= 3 and counts["flushes"]["mark_step"] == 6, counts  # Two, and the stack of losses.


def test_reasons_to_run_are_counted(mode):
    x = torch.ones(4, device="hpu")
    y = x + 1
    y.tolist()
    event = torch.hpu.Event()
    y = y + 1
    event.record()
    y = y + 1
    side = torch.hpu.Stream()
    with torch.hpu.stream(side):
        side.wait_stream(torch.hpu.default_stream())
        z = y * 2
    torch.hpu.synchronize()
    assert z.cpu().tolist() == [8.] * 4
    if mode == "lazy":
        assert set(metrics.counts()["flushes"]) >= {"copy to the host", "event"}
    else:
        assert metrics.counts()["flushes"] == {}


def test_what_cannot_be_computed_says_so():
    x = torch.ones(3, dtype=torch.float64).to("hpu")
    with pytest.raises(NotImplementedError, match=r"add.Tensor\(self=Double\[3\].*test_record.py:\d+"):
        x + x
    with pytest.raises(RuntimeError, match="size of tensor a"):
        torch.ones(3, device="hpu") + torch.ones(4, device="hpu")
    assert "add.out" in metrics.table() and len(metrics.table()) > 100


def random_program(device, seed):
    """A few tensors, views of them of all kinds, and writes through them; what they are in the end."""
    choose = random.Random(seed)
    base = [numbers(6, 4, seed=seed).to(device), numbers(24, seed=seed + 1).to(device)]
    views = list(base)
    for _ in range(30):
        x = choose.choice(views)
        kind = choose.randrange(9)
        if kind == 0 and x.dim() > 0 and x.size(0) > 1:
            start = choose.randrange(x.size(0))
            views.append(x[start:start + choose.randint(1, 4):choose.randint(1, 2)])
        elif kind == 1 and x.dim() == 2:
            views.append(x.t())
        elif kind == 2 and x.dim() > 0 and x.size(-1) > 0:
            views.append(x.select(-1, choose.randrange(x.size(-1))))
        elif kind == 3 and x.is_contiguous() and x.numel() % 2 == 0 and x.numel() > 0:
            views.append(x.view(2, -1))
        elif kind == 4:
            x.mul_(choose.choice([.5, -1.25, 1.5]))
        elif kind == 5:
            x.fill_(choose.randint(-2, 2))
        elif kind == 6:
            x.copy_(torch.tanh(x.flip(0) if x.dim() else x))
        elif kind == 7:
            views.append(x * 2 + 1)
            base.append(views[-1])
        elif x.numel() > 0:
            x.add_(choose.choice(views).sum().clamp(-3, 3))
        if choose.randrange(6) == 0 and len(views) > 4:
            views.pop(choose.randrange(len(views)))
    return base + views


@pytest.mark.parametrize("seed", range(12))
def test_random_views_and_writes(seed):
    for expected, result in zip(random_program("cpu", 100 * seed), random_program("hpu", 100 * seed)):
        assert expected.stride() == result.stride() and expected.shape == result.shape
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_one_memory_as_two_types():
    fallback.allow("all")
    x = numbers(5)
    expected = x * x.view(torch.int32)
    there = x.to("hpu")
    assert torch.equal((there * there.view(torch.int32)).cpu(), expected)
    view = there.view(torch.int32)
    there += 1
    assert torch.equal(view.cpu(), (x + 1).view(torch.int32))


@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_weight_norm(dim, dtype):
    def normed(v, g, dv):
        w, norms = torch._weight_norm_interface(v, g, dim)
        return w, norms, torch.ops.aten._weight_norm_interface_backward(dv, v, g, norms, dim)

    v = numbers(4, 5, 3, dtype=dtype)
    if dim != 1:  # Of a dim in the middle PyTorch composes it.
        g = numbers(*[size if d == dim else 1 for d, size in enumerate(v.shape)], seed=4, dtype=dtype)
        check(normed, v, g, numbers(4, 5, 3, seed=5, dtype=dtype), tolerance=None if dtype == torch.float32 else 1.6e-2)
    if dtype == torch.float32:
        check(lambda v, g: torch._weight_norm(v, g, dim), v, numbers(*[size if d == dim else 1 for d, size in enumerate(v.shape)], seed=4))
        check(lambda v, g: torch._weight_norm(v, g, -1), v, torch.tensor(2.))
        check(lambda v, g: torch._weight_norm(v, g, 0), numbers(4), numbers(4, seed=4))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_margins_of_several_labels(reduction):
    def losses(x, target):
        x = x.detach().requires_grad_(True)
        loss = F.multilabel_margin_loss(x, target, reduction=reduction)
        (loss * torch.arange(1., 1 + loss.numel(), device=x.device).view(loss.shape)).sum().backward()
        return loss.detach(), x.grad

    target = torch.tensor([[3, 0, -1, 1, 2], [4, 4, 2, -1, -1], [-1, 1, 2, 3, 4], [0, 1, 2, 3, 4]])
    check(losses, numbers(4, 5), target)
    check(losses, numbers(5), target[1])
    check(lambda x, t: torch.ops.aten.multilabel_margin_loss_forward(x, t, 1), numbers(4, 5), target)


@pytest.mark.parametrize("sizes, kernel, out", [((2, 3, 9, 7), (2, 3), (4, 3)), ((3, 8, 8), 3, (1, 5)), ((2, 2, 6, 9, 7), (2, 3, 2), (3, 4, 2)),
                                                ((3, 5, 6, 4), 2, (2, 1, 2))])
def test_fractional_pooling(sizes, kernel, out):
    dims = len(out)
    pool = F.fractional_max_pool2d if dims == 2 else F.fractional_max_pool3d
    batch = sizes[0] if len(sizes) == dims + 2 else 1

    def pooled(x, samples):
        x = x.detach().requires_grad_(True)
        y, index = pool(x, kernel, output_size=out, return_indices=True, _random_samples=samples)
        (y * torch.arange(1., 1 + y.numel(), device=x.device).view(y.shape)).sum().backward()
        return y.detach(), index, x.grad

    samples = torch.rand(batch, sizes[-dims - 1], dims, generator=torch.Generator().manual_seed(1))
    x = numbers(*sizes)
    x.view(-1)[5] = math.nan
    check(pooled, x, samples)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0., .1, 1.])
def test_smoothed_labels(reduction, smoothing):
    def loss(x, target, weight=None):
        x = x.detach().requires_grad_(True)
        value = F.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=smoothing, ignore_index=-100 if target.is_floating_point() else 2)
        value.sum().backward()
        return value.detach(), x.grad

    target = torch.tensor([0, 2, 4, 1])
    for arguments in ((numbers(4, 5), target), (numbers(4, 5), target, numbers(5, seed=4).abs()), (numbers(5), target[2]),
                      (numbers(2, 5, 2, 3), torch.arange(12).view(2, 2, 3) % 5, numbers(5, seed=4).abs()), (numbers(4, 5), numbers(4, 5).softmax(1))):
        check(loss, *arguments)
    with pytest.raises(RuntimeError, match="label_smoothing must be between"):
        F.cross_entropy(numbers(4, 5).to("hpu"), target.to("hpu"), label_smoothing=1.5)
    with torch.inference_mode():
        check(lambda x, t: F.cross_entropy(x, t, label_smoothing=smoothing, reduction=reduction), numbers(4, 5), target)


def test_numbers_times_a_loss_as_cpp_has_them():
    def scaled(x):
        x = x.detach().requires_grad_(True)
        value = torch.ops.aten.mul.Scalar(x.sum(), .5) + torch.ops.aten.div.Scalar(x.mean(), 3) + torch.ops.aten.mul.Scalar(x, 2).sum()
        value.backward()
        return value.detach(), x.grad, torch.ops.aten.mul.Scalar(x.detach().bfloat16(), .3), torch.ops.aten.div.Scalar(x.detach().long(), 2)

    check(scaled, numbers(4))


def test_repeated_elements():
    def repeated(x):
        x = x.detach().requires_grad_(True)
        results = [x.repeat_interleave(2, 1), x.repeat_interleave(3), torch.repeat_interleave(x, 1, -1), x.repeat_interleave(0, 0), x[0, 0].repeat_interleave(2)]
        sum((r * torch.arange(1., 1 + r.numel(), device=r.device).view(r.shape)).sum() for r in results).backward()
        return [r.detach() for r in results] + [x.grad]

    check(repeated, numbers(3, 4))
    check(lambda x: (x.repeat_interleave(2, 1), x.t().repeat_interleave(2, 0, output_size=8)), numbers(3, 4, dtype=torch.int64))
    x = numbers(3, 4).to("hpu")
    assert x.repeat_interleave(1, 0).data_ptr() != x.data_ptr()
    with pytest.raises(RuntimeError, match="allocated size does not match"):
        x.repeat_interleave(2, 0, output_size=5)
    with pytest.raises(RuntimeError):
        x.repeat_interleave(-1, 0)


@pytest.mark.parametrize("norm", [1., 2., math.inf])
def test_embeddings_of_a_largest_length(norm):
    def embedded(weight, index):
        leaf = weight.detach().clone().requires_grad_(True)
        y = F.embedding(index, leaf, max_norm=.8, norm_type=norm)
        y.square().sum().backward()
        return y.detach(), leaf.detach(), leaf.grad

    check(embedded, numbers(6, 4), torch.tensor([[0, 3, 3], [5, 0, 1]]))
    check(embedded, numbers(6, 4), torch.zeros(0, 2, dtype=torch.int64))


def test_distances_as_they_are_called():
    check(lambda x, y: (torch.cdist(x, y), torch.cdist(x, y, p=1.), torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")), numbers(4, 3), numbers(5, 3, seed=4))


def test_work_of_another_thread_is_waited_for():
    """Its graph may still be compiled, and not be pending any more."""
    inputs, compiling = torch.randn(3, 5).to("hpu"), threading.Event()
    nets = [nn.Sequential(*(layer for k in range(6) for layer in (nn.Linear(5, 5), nn.GELU(), nn.LayerNorm(5)))).to("hpu") for _ in range(4)]
    for net in nets:
        torch.hpu.synchronize()
        x = torch.zeros(4, device="hpu")
        y = x + 1
        wrong, done = [], threading.Event()

        def other():
            compiling.set()
            net(inputs).sum().item()
            done.set()

        thread = threading.Thread(target=other)
        thread.start()
        compiling.wait()
        while not done.is_set():
            if y.tolist() != [1, 1, 1, 1]:
                wrong.append(y.tolist())
        thread.join()
        assert not wrong


def test_threads_compute_as_one_after_the_other():
    def work(seed):
        generator, results = torch.Generator().manual_seed(seed), []
        for k in range(12):
            x = torch.randn(2 + k % 3, 4, generator=generator).to("hpu").requires_grad_()
            (x.tanh() * (seed + 1)).sum().backward()
            results.append(x.grad.cpu())
        return results

    expected = [work(seed) for seed in range(3)]
    found = [None] * 3

    def run(seed):
        found[seed] = work(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, other in zip(expected, found):
        assert all(torch.equal(a, b) for a, b in zip(one, other))


def test_writing_in_place_does_not_make_a_tensor_larger():
    memory = torch.zeros(2, 4, device="hpu")
    for name in ("logical_or_", "logical_and_", "logical_xor_", "add_", "eq_"):
        with pytest.raises(RuntimeError, match=r"output with shape \[1\] doesn't match the broadcast shape \[4\]"):
            getattr(memory[0, :1], name)(torch.ones(4, device="hpu"))
    assert memory.sum().item() == 0


def test_what_few_try():
    for dtype in (torch.int64, torch.float32):
        x = torch.tensor([[3, 0], [0, 0]], dtype=dtype)
        for f in (lambda t: t.sum(dtype=torch.bool), lambda t: t.sum(1, dtype=torch.bool), lambda t: t.prod(dtype=torch.bool),
                  lambda t: t.prod(0, dtype=torch.bool), lambda t: t[:0].sum(dtype=torch.bool), lambda t: t[:0].prod(dtype=torch.bool)):
            assert torch.equal(f(x), f(x.to("hpu")).cpu())
    x = torch.tensor([math.nan, -0.0, 0.0, -3, math.inf, -math.inf])
    assert x.to("hpu").sign().tolist() == x.sign().tolist() and not x.to("hpu").sign().cpu().signbit()[1]
    with pytest.raises((RuntimeError, IndexError, NotImplementedError)):
        torch.zeros(2, 0).to("hpu").max().item()
    a = torch.ones(2, 3, names=("n", "c")).to("hpu")
    assert (a + a).names == a.add_(1).names == ("n", "c"), "names of dims are carried over"
