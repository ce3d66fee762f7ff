# SPDX-License-Identifier: Apache-2.0
"""Autocast: types of results by the lists of ops, in eager and lazy mode; training follows the CPU's autocast; the scaler of gradients."""
import copy
import threading

import hpu_torch
import pytest
import torch
from hpu_torch import amp, fallback
from torch import nn
from torch.nn import functional as F

BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


@pytest.fixture(params=["eager", "lazy"], autouse=True)
def mode(request):
    torch.hpu.set_lazy(request.param == "lazy")
    fallback.allow("none")
    lists = amp.op_lists()
    yield request.param
    amp.set_op_lists(*lists)
    torch.hpu.set_lazy(False)
    assert not amp.is_autocast_hpu_enabled() and torch.autocast_decrement_nesting() == -1
    torch.autocast_increment_nesting()


def ones(*shape, dtype=F32):
    return torch.ones(*shape, device="hpu", dtype=dtype)


def test_types_of_results():
    a, low = ones(4, 4), ones(4, 4, dtype=BF16)
    image, kernel = ones(1, 2, 5, 5), ones(3, 2, 3, 3)
    with torch.autocast("hpu"):
        for result in (a @ a, F.linear(a, a, ones(4)), F.conv2d(image, kernel), F.conv_transpose2d(ones(1, 3, 3, 3), kernel), torch.addmm(a, a, a),
                       torch.bmm(ones(2, 3, 3), ones(2, 3, 3)), torch.einsum("ij,jk", a, a), a.mv(ones(4))):
            assert result.dtype == BF16
        for result in (low.softmax(1), low.log_softmax(-1), F.layer_norm(low, (4,)), F.layer_norm(low, (4,), ones(4), ones(4)), low.exp(), low.sum(), low.sum(0),
                       low.pow(2), F.mse_loss(low, a), F.cross_entropy(low, torch.zeros(4, dtype=torch.int64, device="hpu")), F.group_norm(ones(1, 2, 3, dtype=BF16), 2)):
            assert result.dtype == F32
        for result in (torch.cat([a, low]), torch.stack([low, a]), torch.addcmul(low, a, low)):
            assert result.dtype == F32
        assert torch.cat([low, low]).dtype == BF16 and (low + low).dtype == BF16 and F.relu(low).dtype == BF16
        # Who asks for a type gets it; f64, integers and tensors of the CPU are left alone, and so are ops in place and with out=.
        assert low.softmax(1, dtype=BF16).dtype == BF16 and low.sum(dtype=BF16).dtype == BF16
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == F32
        out = torch.empty(4, 4, device="hpu")
        assert torch.mm(a, a, out=out).dtype == F32 and a.clone().addmm_(a, a).dtype == F32


def test_contexts_nest_decorate_and_end_with_errors():
    a = ones(2, 2)

    @torch.autocast("hpu", dtype=F16)
    def function(depth):
        return function(depth - 1) if depth else a @ a

    with torch.autocast("hpu", dtype=BF16):
        assert function(2).dtype == F16 and (a @ a).dtype == BF16 and amp.get_autocast_hpu_dtype() == BF16
        with torch.hpu.amp.autocast(enabled=False):
            assert (a @ a).dtype == F32 and not torch.hpu.is_autocast_hpu_enabled()
        with pytest.raises(ZeroDivisionError), torch.autocast("hpu", dtype=F16):
            1 / 0
        assert (a @ a).dtype == BF16
        seen = []
        thread = threading.Thread(target=lambda: seen.append((a @ a).dtype))
        thread.start(), thread.join()
        assert seen == [F32]
    assert (a @ a).dtype == F32
    with torch.autocast("cpu", dtype=BF16):  # Another device's.
        assert (a @ a).dtype == F32 and (a.cpu() @ a.cpu()).dtype == BF16
    with pytest.raises(ValueError, match="bfloat16 or torch.float16, not to torch.float64"):
        torch.autocast("hpu", dtype=torch.float64)
    with pytest.raises(RuntimeError):
        torch.autocast("nowhere")


def test_scripts_still_know_autocast_of_the_cpu():
    @torch.jit.script
    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x
    assert function(torch.ones(2, 2)).dtype == BF16


def test_weights_are_cast_once_and_never_stale():
    net = nn.Linear(4, 4, bias=False).to("hpu")
    x = ones(2, 4)
    hpu_torch.metrics.reset()
    with torch.autocast("hpu"):
        with torch.no_grad():  # Makes nothing that a forward with gradients would take.
            net(x)
        loss = net(x).float().sum() + net(x).float().sum()
        loss.backward()
        assert torch.allclose(net.weight.grad.cpu(), torch.full((4, 4), 4.))
        before = net(x)
        with torch.no_grad():
            net.weight.add_(1)
        assert torch.allclose(net(x).float().cpu(), before.float().cpu() + 4, atol=.1)
    weight = net.weight
    for cached in (True, False):
        with torch.autocast("hpu", cache_enabled=cached):
            products = [F.linear(x, weight).grad_fn for _ in range(3)]
        casts = [product.next_functions[1][0].next_functions[0][0] for product in products]
        assert [cast.name() for cast in casts] == ["ToCopyBackward0"] * 3 and len({id(cast) for cast in casts}) == (1 if cached else 3)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
                                  nn.Linear(32, 5))

    def forward(self, x):
        return self.body(x)


@pytest.mark.parametrize("dtype", [BF16, F16], ids=str)
def test_training_follows_the_cpus(dtype):
    net, x, target = ConvNet(), torch.randn(8, 3, 8, 8), torch.randint(0, 5, (8,))
    losses = {}
    for device, enabled in (("cpu", True), ("cpu", False), ("hpu", True)):
        if device == "cpu" and enabled and dtype == F16:
            continue
        here = copy.deepcopy(net).to(device)
        optimiser = torch.optim.Adam(here.parameters(), lr=5e-3)
        scaler = amp.GradScaler(init_scale=256., enabled=dtype == F16 and device == "hpu")
        losses[device, enabled] = []
        for _ in range(6):
            optimiser.zero_grad()
            with torch.autocast(device, dtype=dtype if device == "hpu" else BF16, enabled=enabled):
                loss = F.cross_entropy(here(x.to(device)), target.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
            losses[device, enabled].append(loss.item())
        assert all(p.grad.dtype == F32 for p in here.parameters())
    result = losses["hpu", True]
    assert result == pytest.approx(losses["cpu", False], rel=2e-2 if dtype == BF16 else 5e-3, abs=4e-3)
    assert result != losses["cpu", False] and result[-1] < .6 * result[0]
    if dtype == BF16:
        assert result == pytest.approx(losses["cpu", True], rel=2e-2, abs=4e-3)


def test_lists_of_ops_can_be_replaced():
    a = ones(2, 2)
    amp.set_op_lists(lower=["linear", "softmax.int"], fp32=["matmul"])
    with torch.autocast("hpu"):
        assert a.softmax(1).dtype == BF16 and F.linear(a, a).dtype == BF16 and (a.bfloat16() @ a.bfloat16()).dtype == F32
        assert torch.mm(a, a).dtype == F32 and torch.mm(a.bfloat16(), a.bfloat16()).dtype == BF16
    amp.set_op_lists(lower=["exp"], fp32=["exp"])  # The first of the lists.
    with torch.autocast("hpu"):
        assert a.exp().dtype == BF16
    before = amp.op_lists()
    with pytest.raises(ValueError, match="no aten op of this PyTorch: nosuch, linear.nosuch"):
        amp.set_op_lists(lower=["linear", "nosuch", "linear.nosuch"])
    assert amp.op_lists() == before


def test_lists_of_the_environment(run_python, tmp_path, mode):
    if mode == "lazy":
        return
    lower = tmp_path / "ops_bf16.txt"
    lower.write_text("softmax  # a remark\ntruediv\n\niadd\n")
    settings = [{"PT_HPU_AUTOCAST_LOWER_PRECISION_OPS_LIST": str(lower)}, {"LOWER_LIST": "softmax,div", "FP32_LIST": "exp"},
                {"PT_HPU_AUTOCAST_FP32_OPS_LIST": "sofmax,exp"}, {"PT_HPU_AUTOCAST_FP32_OPS_LIST": "/nowhere/ops.txt"}]
    said = run_python(f"""
        import os, torch
        for setting in {settings}:  # A process each, as they are read once.
            if os.fork() == 0:
                os.environ.update(setting)
                import hpu_torch
                a = torch.ones(2, 2, device="hpu")
                try:
                    with torch.autocast("hpu"):
                        print([x.dtype for x in (a.softmax(1), a @ a, a.bfloat16().exp())], flush=True)
                except ValueError as error:
                    print("refused:", error, flush=True)
                os._exit(0)
            os.wait()""").splitlines()
    assert said[:2] == ["[torch.bfloat16, torch.float32, torch.float32]"] * 2
    assert "no aten op of this PyTorch: sofmax" in said[2] and "ops.txt is no file that can be read" in said[3]


def test_functions_of_autograd():
    class Double(torch.autograd.Function):
        @staticmethod
        @amp.custom_fwd(cast_inputs=F16)
        def forward(ctx, x):
            assert not amp.is_autocast_hpu_enabled()
            return x @ x

        @staticmethod
        @amp.custom_bwd
        def backward(ctx, gradient):
            assert not amp.is_autocast_hpu_enabled()
            return gradient

    class Same(torch.autograd.Function):
        @staticmethod
        @amp.custom_fwd
        def forward(ctx, x):
            return x * 1

        @staticmethod
        @amp.custom_bwd
        def backward(ctx, gradient):
            assert amp.is_autocast_hpu_enabled() and amp.get_autocast_hpu_dtype() == F16
            return gradient

    x = ones(2, 2).requires_grad_()
    with torch.autocast("hpu", dtype=F16):
        y = Double.apply(x)
        z = Same.apply(x)
    assert y.dtype == F16
    y.float().sum().backward()
    z.sum().backward()


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_compute_again_under_autocast(reentrant):
    from torch.utils.checkpoint import checkpoint
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).to("hpu")
    x, seen, gradients = torch.randn(3, 4, device="hpu"), [], []

    def body(x):
        y = net(x)
        seen.append(y.dtype)
        return y

    for run in (body, lambda x: checkpoint(body, x, use_reentrant=reentrant)):
        net.zero_grad()
        with torch.autocast("hpu", dtype=F16):
            y = run(x.clone().requires_grad_())
        y.float().square().sum().backward()
        gradients.append([p.grad.cpu() for p in net.parameters()])
    assert seen == [F16] * 3 and not amp.is_autocast_hpu_enabled()
    for a, b in zip(*gradients):
        torch.testing.assert_close(a, b)


def test_scaler_skips_steps_that_overflow_and_grows():
    parameter = nn.Parameter(ones(3))
    other = nn.Parameter(ones(2))
    optimiser = torch.optim.SGD([parameter, other], lr=1.)
    scaler = amp.GradScaler(init_scale=8., growth_interval=2)
    for step, (factor, scale) in enumerate([(1., 8.), (1., 16.), (float("inf"), 8.), (1., 8.), (float("nan"), 4.), (1., 4.), (1., 8.)]):
        optimiser.zero_grad()
        scaler.scale((parameter * torch.tensor([1., 2., factor], device="hpu")).sum() + other.sum()).backward()
        before = parameter.detach().cpu()
        scaler.unscale_(optimiser)
        if factor == 1:
            assert parameter.grad.cpu().tolist() == [1, 2, 1]
        scaler.step(optimiser)
        scaler.update()
        assert scaler.get_scale() == scale
        assert torch.equal(parameter.detach().cpu(), before - torch.tensor([1., 2., 1.]) if factor == 1 else before)
    state = scaler.state_dict()
    again = amp.GradScaler()
    again.load_state_dict(state)
    assert again.get_scale() == 8. and again.is_enabled()
    again.scale(parameter.sum())
    again.update(torch.tensor([32.]))
    assert again.get_scale() == 32.
    off = amp.GradScaler(enabled=False)
    loss = parameter.sum()
    assert off.scale(loss) is loss and off.get_scale() == 1. and torch.cuda.amp.GradScaler(enabled=False).scale(loss) is loss
    with pytest.raises(ValueError, match="on hpu, but it is on cpu"):
        scaler.scale(torch.ones(1))


def test_hmp_switches_the_program(tmp_path):
    from habana_frameworks.torch.hpex import hmp
    a, lists = ones(2, 2), tmp_path / "bf16.txt"
    lists.write_text("softmax\n")
    try:
        hmp.convert("O1", "", "", False)
        assert (a @ a).dtype == BF16
        with hmp.disable_casts():
            assert (a @ a).dtype == F32
        hmp.convert(opt_level="O1", bf16_file_path=str(lists))
        assert (a @ a).dtype == F32 and a.softmax(0).dtype == BF16
        with pytest.raises(ValueError, match="cannot be read: No such file"):
            hmp.convert(bf16_file_path="/nowhere")
    finally:
        amp.set_autocast_hpu_enabled(False)
        torch.set_autocast_cache_enabled(True)
