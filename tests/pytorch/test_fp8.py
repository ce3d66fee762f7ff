# SPDX-License-Identifier: Apache-2.0
"""fp8: codes and products against the formats' definitions in float64, delayed scaling against its rule, training, memory, inference."""
import copy
import math

import numpy
import pytest
import torch
from hpu_torch import fallback, fp8
from torch import nn
from torch.nn import functional as F

LARGEST = {fp8.E4M3: 240., fp8.E5M2: 57344.}  # Of Gaudi 2.


pytestmark = pytest.mark.usefixtures("mode")


def values(dtype):
    """What each code stands for: IEEE 754's rule for so many bits, largest exponents being infinities and NaNs."""
    mantissa, bias = (3, 7) if dtype == fp8.E4M3 else (2, 15)
    result = []
    for code in range(256):
        exponent, fraction = (code & 0x7f) >> mantissa, code & ((1 << mantissa) - 1)
        number = math.ldexp(fraction, 1 - bias - mantissa) if exponent == 0 else math.ldexp(1 + fraction / (1 << mantissa), exponent - bias)
        if exponent == (1 << (7 - mantissa)) - 1:
            number = math.nan if fraction else math.inf
        result.append(-number if code & 0x80 else number)
    return torch.tensor(result, dtype=torch.float64)


def decoded(codes):
    return values(codes.dtype)[codes.cpu().view(torch.uint8).long()]


def rounded(x, dtype):
    """The nearest number of the format, of two the one with the even code; the largest for what is beyond."""
    positive = values(dtype)[:128]
    positive = positive[positive.isfinite()].numpy()
    a = x.double().abs().numpy().clip(max=positive[-1])
    above = numpy.searchsorted(positive, a).clip(max=len(positive) - 1)
    below = (above - 1).clip(min=0)
    to_above, to_below = positive[above] - a, a - positive[below]
    pick = numpy.where((to_above < to_below) | ((to_above == to_below) & (above % 2 == 0)), above, below)
    return torch.from_numpy(positive[pick]) * x.double().sign()


def codes_of(*shape, dtype, seed=0):
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return fp8.cast_to_fp8(x.to("hpu"), None, dtype)


@pytest.mark.parametrize("dtype", [fp8.E4M3, fp8.E5M2], ids=["e4m3", "e5m2"])
def test_casts(dtype):
    every = torch.arange(256).to(torch.uint8).view(dtype)
    numbers = fp8.cast_from_fp8(every.to("hpu"), None, torch.float32).cpu().double()
    assert torch.equal(numbers.nan_to_num(7e9), values(dtype).nan_to_num(7e9, posinf=math.inf, neginf=-math.inf).nan_to_num(7e9)) or \
        torch.equal(numbers.isnan(), values(dtype).isnan()) and torch.equal(numbers[~numbers.isnan()], values(dtype)[~numbers.isnan()])
    finite = values(dtype).isfinite()
    assert torch.equal(fp8.cast_to_fp8(numbers.float().to("hpu"), None, dtype).cpu()[finite], every[finite])

    generator = torch.Generator().manual_seed(1)
    x = torch.cat([torch.randn(3000, generator=generator) * torch.exp2(torch.randint(-20, 18, (3000,), generator=generator)),
                   values(dtype)[finite].float(), (values(dtype)[:100] + values(dtype)[1:101]).float() / 2, torch.tensor([1e30, -1e30, math.inf, -math.inf])])
    for source in (torch.float32, torch.bfloat16):
        y = x.to(source)
        codes, amax = fp8.cast_to_fp8(y.to("hpu"), None, dtype, amax=True)
        assert codes.dtype == dtype and torch.equal(decoded(codes), rounded(y.float(), dtype)) and amax.item() == math.inf
    assert decoded(fp8.cast_to_fp8(torch.tensor([math.nan], device="hpu"), None, dtype)).isnan().all()

    for scale in (4., torch.tensor(4., device="hpu"), torch.tensor([4.], device="hpu")):
        codes = fp8.cast_to_fp8(x[:100].to("hpu"), scale, dtype)
        assert torch.equal(decoded(codes), rounded(x[:100] * 4, dtype))
        back = fp8.cast_from_fp8(codes, .25 if isinstance(scale, float) else scale.reciprocal(), torch.float32)
        assert torch.equal(back.cpu().double(), decoded(codes) / 4)
    rows = torch.tensor([[2.], [8.]], device="hpu")
    assert torch.equal(decoded(fp8.cast_to_fp8(x[:12].view(2, 6).to("hpu"), rows, dtype)), rounded(x[:12].view(2, 6) * rows.cpu(), dtype))
    strided = x[:12].view(3, 4).to("hpu").t()
    codes, amax = fp8.cast_to_fp8(strided, None, dtype, amax=True)
    assert torch.equal(decoded(codes), rounded(x[:12].view(3, 4).t(), dtype)) and amax.item() == x[:12].abs().max().item()
    for shape in ((0,), (3, 0), ()):
        codes, amax = fp8.cast_to_fp8(torch.ones(shape, device="hpu"), None, dtype, amax=True)
        assert codes.shape == shape and amax.shape == () and amax.item() == (1 if shape == () else 0)


def test_products():
    for number, (a_type, b_type) in enumerate(((fp8.E4M3, fp8.E4M3), (fp8.E5M2, fp8.E5M2), (fp8.E5M2, fp8.E4M3), (fp8.E4M3, fp8.E5M2))):
        for shape, (rows, inner, columns) in enumerate(((5, 7, 3), (64, 40, 33), (1, 128, 16), (3, 1, 2))):
            a, b = codes_of(rows, inner, dtype=a_type), codes_of(inner, columns, dtype=b_type, seed=1)
            exact = decoded(a) @ decoded(b)
            allowed = decoded(a).abs() @ decoded(b).abs() * 2 ** -8
            for way, (trans_a, trans_b) in enumerate(((False, False), (False, True), (True, False), (True, True))):
                if shape and way != (number + shape) % 4:
                    continue  # Each way with each pair of types once, and with each shape.
                y = fp8.fp8_gemm(a.t().contiguous() if trans_a else a, b.t().contiguous() if trans_b else b, dtype=torch.float32, trans_a=trans_a, trans_b=trans_b)
                assert y.shape == (rows, columns) and ((y.cpu().double() - exact).abs() <= allowed).all()
    a, b, bias, old = codes_of(2, 6, 8, dtype=fp8.E4M3), codes_of(8, 5, dtype=fp8.E4M3, seed=2), torch.randn(5), torch.randn(2, 6, 5)
    exact = decoded(a) @ decoded(b)
    one, row, column = torch.tensor(.5), torch.rand(6) + 1, torch.rand(5) + 1
    for x_inv, y_inv, expected in ((one, one, exact / 4), (row, one, exact * row[:, None] / 2), (one, column, exact * column / 2), (row[:, None], column[None], exact * row[:, None] * column)):
        y = fp8.fp8_gemm(a, b, x_inv.to("hpu"), y_inv.to("hpu"), bias.to("hpu"), torch.float32)
        torch.testing.assert_close(y.cpu().double(), expected + bias, rtol=8e-3, atol=2e-2)
    y = torch.ops.hpu.fp8_gemm_v2(a, False, b, False, old.to("hpu"), torch.bfloat16, 2., .5, None, True)
    torch.testing.assert_close(y.cpu().double(), exact + old, rtol=8e-3, atol=4e-2)
    assert y.dtype == torch.bfloat16
    assert torch.equal(fp8.fp8_gemm(a[:, :, :0], b[:0], bias=bias.to("hpu"), dtype=torch.float32).cpu(), bias.expand(2, 6, 5))
    assert fp8.fp8_gemm(a[:, :0], b).shape == (2, 0, 5)


def test_what_is_refused():
    x = torch.ones(4, 4, device="hpu")
    with pytest.raises(ValueError, match="torch.int8 .E5M2. or torch.uint8 .E4M3., not Float"):
        torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, torch.float32)
    with pytest.raises(NotImplementedError, match="cast_to_fp8_v2"):  # Stochastic rounding: metrics.counts()["refused"] says so.
        torch.ops.hpu.cast_to_fp8_v2(x, None, True, False, fp8.E5M2)
    with pytest.raises(RuntimeError, match="inner sizes differ: A is .4, 4., B is .4, 3. transposed"):
        fp8.fp8_gemm(codes_of(4, 4, dtype=fp8.E4M3), codes_of(4, 3, dtype=fp8.E4M3), trans_b=True)
    for settings, message in (({"fp8_format": fp8.Format.E5M2_HYBRID}, "stochastically"), ({"fp8_format": "HYBRID"}, "Format.HYBRID, not 'HYBRID'"),
                              ({"interval": 0}, "at least 1"), ({"amax_compute_algo": "mean"}, "a function, not 'mean'")):
        with pytest.raises(ValueError, match=message):
            fp8.DelayedScaling(**settings)


def power(largest, amax, margin=0):
    return 2. ** (math.floor(math.log2(largest / amax)) - margin)


def test_scales_are_powers_of_two():
    old = torch.tensor(8., device="hpu")
    for exponent in range(-90, 90, 17):
        for mantissa in (1., 1.25, 1.875, 1.9999):
            amax = mantissa * 2. ** exponent
            for margin in (0, 3, -1):
                scale, inverse = torch.ops.hpu.fp8_scale(torch.tensor(amax, device="hpu"), old, 240., margin)
                assert scale.item() == power(240, float(numpy.float32(amax)), margin) == 1 / inverse.item()
    for amax in (0., math.inf, math.nan, -1.):
        scale, inverse = torch.ops.hpu.fp8_scale(torch.tensor(amax, device="hpu"), old, 240., 0)
        assert (scale.item(), inverse.item()) == (8., .125)


def test_delayed_scaling():
    """A scale is that of the magnitudes before; the first one's its own."""
    layer = fp8.Linear(4, 4).to("hpu")
    recipe = fp8.DelayedScaling(margin=1, interval=2, amax_history_len=3, amax_compute_algo="max")
    magnitudes, scale = [], None
    with fp8.fp8_autocast(fp8_recipe=recipe):
        for step, amax in enumerate([3., 100., 5., .25, .5, 1., 2., 0.]):
            layer(torch.full((2, 4), amax, device="hpu")).sum().backward()
            if step == 0:
                scale = power(240, amax, 1)
            elif step % 2 == 0:
                scale = power(240, max(magnitudes[-3:]), 1)
            magnitudes.append(amax)
            assert layer.of_input.scale.item() == scale and layer.of_input.history.tolist() == magnitudes[:-4:-1]
            assert layer.of_gradient.scale.item() == power(57344, 1, 1) and layer.of_gradient.dtype == fp8.E5M2
        kept = layer.of_input.steps
        layer.eval()
        layer(torch.full((2, 4), 999., device="hpu"))
        with fp8.fp8_autocast(fp8_recipe=recipe, force_measurement=False):
            layer.train()(torch.full((2, 4), 999., device="hpu"))
        assert layer.of_input.steps == kept and layer.of_input.scale.item() == scale
    layer = fp8.Linear(4, 4).to("hpu")
    algorithm = dict(amax_compute_algo=lambda history: history.min(), scaling_factor_compute_algo=lambda amax, old, largest, recipe: amax * 0 + 4.)
    with fp8.fp8_autocast(fp8_recipe=fp8.DelayedScaling(**algorithm)), torch.no_grad():
        layer(torch.ones(2, 4, device="hpu"))
    assert layer.of_input.scale.item() == 4. and layer.of_input.steps == 0


def test_magnitudes_are_taken_over_a_group(monkeypatch):
    asked = []

    def all_reduce(tensor, op, group):
        asked.append((op, group))
        tensor.fill_(60.)

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    layer = fp8.Linear(4, 4).to("hpu")
    with fp8.fp8_autocast(fp8_recipe=fp8.DelayedScaling(), fp8_group="group"):
        layer(torch.ones(2, 4, device="hpu"))
    assert layer.of_input.scale.item() == power(240, 60) and set(asked) == {(torch.distributed.ReduceOp.MAX, "group")}


@pytest.mark.parametrize("format", [fp8.Format.HYBRID, fp8.Format.E4M3, fp8.Format.E5M2], ids=str)
def test_a_layer_is_its_emulation(format):
    torch.manual_seed(3)
    for minimize, bias in ((False, True), (True, False)):
        layer = fp8.Linear(24, 10, bias=bias, minimize_memory=minimize)
        layer.to("hpu")
        x, gradient = torch.randn(3, 5, 24), torch.randn(3, 5, 10) * 1e-3
        here = x.to("hpu").requires_grad_()
        with fp8.fp8_autocast(fp8_recipe=fp8.DelayedScaling(fp8_format=format)):
            y = layer(here)
        y.backward(gradient.to("hpu"))

        def quantised(t, dtype):
            scale = power(LARGEST[dtype], t.abs().max().item())
            return rounded(t * scale, dtype) / scale

        qx, qw = quantised(x, format.forward), quantised(layer.weight.detach().cpu(), format.forward)
        qg = quantised(gradient, format.backward)
        expected = qx @ qw.t() + (layer.bias.detach().cpu() if bias else 0)
        close = dict(rtol=1e-2, atol=5e-3)
        torch.testing.assert_close(y.detach().cpu().double(), expected, **close)
        torch.testing.assert_close(here.grad.cpu().double(), qg @ qw, rtol=1e-2, atol=1e-5)
        torch.testing.assert_close(layer.weight.grad.cpu().double(), qg.flatten(0, 1).t() @ qx.flatten(0, 1), rtol=1e-2, atol=1e-4)
        if bias:
            torch.testing.assert_close(layer.bias.grad.cpu(), gradient.sum((0, 1)))
    # Beside fp8 it is nn.Linear, and its state is nn.Linear's.
    torch.testing.assert_close(layer(here).cpu(), F.linear(x, layer.weight.cpu()))
    assert set(layer.state_dict()) == {"weight"}
    with torch.autocast("hpu"), fp8.fp8_autocast():
        assert layer(here).dtype == torch.bfloat16
    with fp8.fp8_autocast():
        product, left = fp8.Linear(4, 4, return_bias=True).to("hpu")(torch.ones(2, 4, device="hpu"))
        assert product.shape == (2, 4) and left.shape == (4,)


def test_weights_are_cast_once_for_several_batches():
    layer = fp8.Linear(4, 4, bias=False).to("hpu")
    x = torch.ones(2, 4, device="hpu")
    with fp8.fp8_autocast():
        first = layer(x, is_first_microbatch=True)
        with torch.no_grad():
            layer.weight.add_(1.)
        assert torch.equal(layer(x, is_first_microbatch=False).cpu(), first.cpu())
        assert not torch.equal(layer(x, is_first_microbatch=True).cpu(), first.cpu())
    assert layer.of_weight.steps == 2


def kept_bytes(make, context):
    torch.manual_seed(0)
    net = nn.Sequential(*[make(256, 256, bias=False) for _ in range(4)]).to("hpu")
    x = torch.randn(64, 256, device="hpu", requires_grad=True)
    with context():
        net(x).sum().backward()  # Scales are there from now on.
    net.zero_grad()
    torch.hpu.synchronize()
    before = torch.hpu.memory_stats()["InUse"]
    with context():
        loss = net(x).float().sum()
    torch.hpu.synchronize()
    kept = torch.hpu.memory_stats()["InUse"] - before
    loss.backward()
    return kept


def test_memory_between_forward_and_backward():
    f32 = kept_bytes(nn.Linear, lambda: fp8.fp8_autocast(enabled=False))
    bf16 = kept_bytes(nn.Linear, lambda: torch.autocast("hpu"))
    codes = kept_bytes(fp8.Linear, fp8.fp8_autocast)
    least = kept_bytes(lambda *a, **k: fp8.Linear(*a, minimize_memory=True, **k), fp8.fp8_autocast)
    activation, weight = 64 * 256, 256 * 256
    slack = 4 * 4 * 512 + 4096  # Scales, and the loss.
    assert f32 >= 3 * activation * 4                                         # The inputs of three layers.
    assert bf16 >= 4 * (activation + weight) * 2                             # Copies of the inputs and of the weights.
    assert 4 * (activation + weight) <= codes <= 4 * (activation + weight) + slack
    assert 4 * activation <= least <= 4 * activation + slack
    assert codes < bf16 * .6 and least < f32 * .5


@pytest.mark.long_in("eager")
def test_training_converges_and_compiles_little(mode):
    torch.manual_seed(0)
    x = torch.randn(64, 16)
    target = (x[:, :4].sum(1) > 0).long() + 2 * (x[:, 4:8].sum(1) > 0).long()
    losses = {}
    for name, make, context in (("f32", nn.Linear, lambda: fp8.fp8_autocast(enabled=False)), ("fp8", fp8.Linear, fp8.fp8_autocast)):
        torch.manual_seed(1)
        net = nn.Sequential(make(16, 32), nn.GELU(), make(32, 4)).to("hpu")
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-2)
        here, there = x.to("hpu"), target.to("hpu")
        losses[name] = []
        from hpu_torch import core, metrics
        for step in range(40):
            if step == 3:
                metrics.reset()
            optimiser.zero_grad()
            with context():
                loss = F.cross_entropy(net(here), there)
            loss.backward()
            optimiser.step()
            core.mark_step()
            losses[name].append(loss.detach())
        assert metrics.counts()["compiles"] == 0
        losses[name] = [one.item() for one in losses[name]]
    assert losses["fp8"][-1] == pytest.approx(losses["f32"][-1], rel=.25) and losses["fp8"][-1] < .4 * losses["fp8"][0]
    assert losses["fp8"] != losses["f32"]


def test_inference_with_calibrated_ranges():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Sequential(nn.Linear(64, 64), nn.ReLU()), nn.Linear(64, 8)).eval()
    with torch.no_grad():
        net[3].weight[::2] *= 1e-6  # Channels of very different magnitudes.
    x = torch.randn(40, 32)
    expected = net(x).detach()
    net.to("hpu")
    with fp8.calibration(net) as ranges, torch.no_grad():
        net(x[:20].to("hpu"))
        net(x[20:].to("hpu"))
    assert set(ranges) == {"0", "2.0", "3"} and ranges["0"].item() == x.abs().max().item()
    errors = {}
    for per_channel in (False, True):
        here = fp8.quantize(copy.deepcopy(net), ranges, per_channel=per_channel)
        with torch.no_grad():
            error = here(x.to("hpu")).cpu() - expected
        errors[per_channel] = (error / expected.std(0)).std(0)
    assert errors[True].max() < .15 and errors[True][::2].mean() < .5 * errors[False][::2].mean()
    assert here[3].weight.dtype == fp8.E4M3 and here[3].weight_scale_inv.shape == (8,) and "a scale for each channel" in repr(here[3])
    with torch.no_grad():
        assert here[3](torch.randn(2, 3, 64, device="hpu")).shape == (2, 3, 8)
    state = here.state_dict()
    again = fp8.quantize(copy.deepcopy(net), ranges)
    again.load_state_dict({name: tensor.cpu() for name, tensor in state.items()})
    with torch.no_grad():
        assert torch.equal(again(x.to("hpu")).cpu(), here(x.to("hpu")).cpu())
    partly = fp8.quantize(copy.deepcopy(net), ranges, dtype=fp8.E5M2, skip=["3"])
    assert isinstance(partly[3], nn.Linear) and partly[0].weight.dtype == fp8.E5M2
    with pytest.raises(ValueError, match="as linear ones: 1, nowhere"):
        fp8.quantize(net, {"1": ranges["0"], "nowhere": ranges["0"]})
    with pytest.raises(ValueError, match="0 is on cpu; move the model to hpu first"):
        fp8.quantize(copy.deepcopy(net).cpu(), ranges)


def test_names_of_gaudis_bridge():
    from habana_frameworks.torch.hpex.experimental import transformer_engine as te
    from habana_frameworks.torch.hpex.experimental.transformer_engine import recipe
    from habana_frameworks.torch.hpex.experimental.transformer_engine.fp8 import fp8_autocast, is_fp8_available, is_fp8_enabled
    layer = te.Linear(16, 16, bias=True, params_dtype=torch.float32, minimize_memory=True)
    assert layer.weight.device.type == "hpu" and is_fp8_available() == (True, "")
    scaling = recipe.DelayedScaling(fp8_format=recipe.Format.HYBRID, margin=0, interval=1, amax_history_len=16, amax_compute_algo="max", reduce_amax=False)
    with te.fp8_autocast(enabled=True, fp8_recipe=scaling):
        assert is_fp8_enabled()
        layer(torch.ones(16, 16, device="hpu"), is_first_microbatch=None).sum().backward()
    assert layer.weight.grad is not None and not is_fp8_enabled() and te.fp8_autocast is fp8_autocast
    with pytest.raises(NotImplementedError, match="parallel_mode"):
        te.Linear(16, 16, parallel_mode="row")


def test_other_targets(run_python, mode):
    if mode == "lazy":
        return
    program = """
        import os, torch, hpu_torch
        from hpu_torch import fp8
        x = torch.tensor([240., 248., 300., 448., 1e9, -1e9], device="hpu")
        print(fp8.is_fp8_available(), fp8.largest(fp8.E4M3))
        try:
            codes = fp8.cast_to_fp8(x)
            print(fp8.cast_from_fp8(codes, None, torch.float32).tolist())
            layer = fp8.Linear(4, 4).to("hpu")
            with fp8.fp8_autocast():
                layer(torch.ones(2, 4, device="hpu")).sum().backward()
            print(layer.of_input.scale.item(), layer.weight.grad.cpu().sum().item())
        except RuntimeError as error:
            print("refused:", error)"""
    output = run_python(program, HPU_NODE_TARGET="gaudi3")
    assert "(True, '') 448.0" in output and "[240.0, 256.0, 288.0, 448.0, 448.0, -448.0]" in output and "256.0 32.0" in output
    assert "refused: fp8_autocast: gaudi1 has no fp8; Gaudi 2 and 3 have" in run_python(program, HPU_NODE_TARGET="gaudi1")
