# SPDX-License-Identifier: Apache-2.0
"""Ops that run on the CPU: results, writes, aliases, counts, refusals."""
import pytest
import torch
from hpu_torch import fallback
from torch import nn


def both(function, *tensors):
    """function on the CPU and on hpu, with copies of the tensors each; results and tensors must agree."""
    cpu = [t.clone() if isinstance(t, torch.Tensor) else t for t in tensors]
    hpu = [t.to("hpu") if isinstance(t, torch.Tensor) else t for t in tensors]
    expected, result = function(*cpu), function(*hpu)
    expected, result = ((r,) if isinstance(r, torch.Tensor) else tuple(r) for r in (expected, result))
    assert len(expected) == len(result)
    for e, r in list(zip(expected, result)) + [(c, h) for c, h in zip(cpu, hpu) if isinstance(c, torch.Tensor)]:
        assert r.device.type == "hpu" and r.dtype == e.dtype and r.shape == e.shape
        if e.is_floating_point():  # The device adds in another order.
            torch.testing.assert_close(r.cpu(), e, rtol=1e-5, atol=1e-5, equal_nan=True)
        else:
            assert torch.equal(r.cpu(), e)


X = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
I = torch.tensor([4, 0, 2])


@pytest.mark.parametrize("function", [
    lambda x: x + 1, lambda x: x @ x.t(), lambda x: x.sum(1, keepdim=True), lambda x: x.softmax(-1), lambda x: x.max(1),
    lambda x: x.sort(0), lambda x: x.topk(2), lambda x: x.nonzero(), lambda x: x[x > 0], lambda x: x.unique(return_counts=True),
    lambda x: torch.cat([x, x]), lambda x: torch.stack([x, x], 1), lambda x: x.cumsum(0), lambda x: torch.where(x > 0, x, -x),
    lambda x: x.flip(0), lambda x: x.roll(2, 1), lambda x: x.chunk(3), lambda x: x.clamp_(-.5, .5), lambda x: x.t().exp_(),
    lambda x: x.masked_fill_(x < 0, 3), lambda x: x[:, 1:3].sqrt_(), lambda x: x.mul_(x), lambda x: torch.add(x, x, out=x),
    lambda x: torch.mul(x[:2], 2, out=x[2:4]), lambda x: x.std(), lambda x: x.var(0), lambda x: x.norm(), lambda x: x.prod(),
    lambda x: torch.linalg.svd(x, full_matrices=False)[1], lambda x: x.floor_divide(2), lambda x: x.logsumexp(1),
    lambda x: torch.einsum("ij,kj->ik", x, x), lambda x: x.new_zeros(3), lambda x: x.tril_(), lambda x: torch.eye(4, device=x.device),
    lambda x: torch.arange(2, 9, 3, device=x.device), lambda x: torch.linspace(0, 1, 7, device=x.device), lambda x: x.repeat(2, 3),
    lambda x: torch.tril_indices(3, 4, device=x.device), lambda x: x.float().to(torch.int32).bitwise_and(3), lambda x: x.fmod(.3),
    lambda x: torch.empty_like(x).copy_(x), lambda x: x.zero_(), lambda x: x.sum().reshape(1), lambda x: x[0:0].sum(0),
    lambda x: nn.functional.pad(x, (1, 2)), lambda x: nn.functional.interpolate(x[None, None], scale_factor=2),
    lambda x: torch._foreach_add([x, x[:2]], 3), lambda x: torch.fft.rfft(x).abs(), lambda x: x.histc(4), lambda x: x.kthvalue(2),
    lambda x: torch.meshgrid(x[0], x[1], indexing="ij"), lambda x: x.quantile(.3), lambda x: torch.block_diag(x, x),
], ids=lambda f: str(f.__code__.co_firstlineno) + ":" + ".".join(f.__code__.co_names[:4]))
def test_results_and_writes_are_the_cpus(function):
    both(function, X)


@pytest.mark.parametrize("function", [
    lambda x, i: x[i], lambda x, i: x.index_select(0, i), lambda x, i: x.index_add_(0, i, torch.ones(3, 5, device=x.device)),
    lambda x, i: x.gather(0, i[:, None]), lambda x, i: x.scatter_(0, i[:, None], 7), lambda x, i: x[i, i[:1]],
    lambda x, i: x.index_put_((i,), x[:3] * 2, accumulate=True), lambda x, i: x.index_fill_(0, i, -1), lambda x, i: x.index_copy_(0, i, x[1:4].clone()),
    lambda x, i: nn.functional.embedding(i, x), lambda x, i: x.take(i), lambda x, i: i.bincount(), lambda x, i: nn.functional.one_hot(i),
    lambda x, i: torch.bucketize(x, i.float().sort()[0]), lambda x, i: nn.functional.embedding_bag(i, x, torch.tensor([0, 2], device=x.device)),
    lambda x, i: nn.functional.cross_entropy(x[:3], i), lambda x, i: torch.repeat_interleave(x[:3], i, 0),
], ids=lambda f: str(f.__code__.co_firstlineno) + ":" + ".".join(f.__code__.co_names[:3]))
def test_indices(function):
    both(function, X, I)


def test_arguments_that_schemas_do_not_call_written_are_written():
    norm, other = nn.BatchNorm1d(5), nn.BatchNorm1d(5).to("hpu")
    for _ in range(3):
        norm(X), other(X.to("hpu"))
    assert torch.allclose(norm.running_mean, other.running_mean.cpu()) and torch.allclose(norm.running_var, other.running_var.cpu())
    assert not torch.equal(norm.running_mean, torch.zeros(5)) and other.num_batches_tracked.item() == 3
    x, y = X.clone().requires_grad_(), X.to("hpu").requires_grad_()
    torch.manual_seed(0)
    nn.functional.rrelu(x, training=True).sum().backward()
    torch.manual_seed(0)
    nn.functional.rrelu(y, training=True).sum().backward()
    assert torch.equal(x.grad, y.grad.cpu())


def test_an_output_that_is_too_small_becomes_larger():
    with pytest.warns(UserWarning, match="resized"):
        out = torch.ones(2, device="hpu")
        torch.add(X.to("hpu"), 1, out=out)
    assert torch.equal(out.cpu(), X + 1)
    out = torch.empty(0, device="hpu")
    assert torch.mm(X.to("hpu"), X.t().to("hpu"), out=out) is out and torch.allclose(out.cpu(), X @ X.t())


def test_results_of_inplace_ops_are_the_tensor():
    x = X.to("hpu")
    assert x.add_(1) is x and x.relu_() is x and torch.sub(x, 1, out=x) is x


def test_overlaps_are_refused_as_on_the_cpu():
    for x in (X.clone(), X.to("hpu")):
        with pytest.raises(RuntimeError, match="memory location"):
            x.view(-1)[1:].add_(x.view(-1)[:-1])
        with pytest.raises(RuntimeError, match="memory location"):
            x[:1].expand(3, 5).add_(1)
        with pytest.raises(RuntimeError, match="memory location"):
            torch.cumsum(x.view(-1)[:-1], 0, out=x.view(-1)[1:])


def test_devices_do_not_mix():
    x = X.to("hpu")
    for call in (lambda: x + X, lambda: torch.mm(x, X.t()), lambda: torch.cat([x, X]), lambda: x.index_add_(0, I, X[:3]),
                 lambda: nn.functional.linear(x, X), lambda: torch.mm(x, x.to("hpu:1").t()), lambda: nn.functional.embedding(I, x)):
        with pytest.raises(RuntimeError, match="same device"):
            call()
    with pytest.raises(RuntimeError, match="same device"):
        torch.mv(x, torch.ones(5, device="hpu:1"))
    assert torch.equal((x * torch.tensor(2.)).cpu(), X * 2), "a number of the CPU goes with any device"
    assert torch.equal(x[I].cpu(), X[I]), "indices may be the CPU's"


def test_calls_are_counted_by_their_lines():
    x = X.to("hpu")
    fallback.reset()
    for _ in range(3):
        torch.special.ndtri(x)
    torch.special.ndtri(x)
    counted = fallback.counts()["aten::special_ndtri.out"]
    assert counted["calls"] == 4 and sorted(counted["sites"].values()) == [1, 3]
    assert all(site.startswith(__file__) for site in counted["sites"])
    nn.functional.rrelu(x, training=True)  # Lines of torch are not the program's.
    assert all(site.startswith(__file__) for site in fallback.counts()["aten::rrelu_with_noise"]["sites"])
    y = x.clone().requires_grad_()
    y.polygamma(2).sum().backward()
    assert "autograd's backward" in fallback.counts()["aten::polygamma"]["sites"]
    assert "aten::special_ndtri.out" in fallback.report() and "test_fallback.py" in fallback.report()
    fallback.reset()
    x.clone().t()[1:].contiguous().view(-1)[3:].cpu()
    assert fallback.counts() == {}, "copies and views are no fallbacks"


def test_a_fallback_that_is_not_allowed_names_op_and_shapes():
    x = X.to("hpu")
    with fallback.only("none"):
        with pytest.raises(NotImplementedError, match=r"aten::special_ndtri.out\(self=Float\[6, 5\] on hpu:0.*test_fallback.py:\d+.*PT_HPU_PLACE_ON_CPU=none"):
            torch.special.ndtri(x)
        y = torch.zeros(3, device="hpu")
        y[1] = 2
        assert y.cpu().tolist() == [0, 2, 0] and "[0., 2., 0.]" in repr(y)
    with fallback.only("special_ndtri,aten::sum.IntList_out"):
        torch.special.ndtri(x).sum()
        with pytest.raises(NotImplementedError, match="aten::special_erfcx"):
            torch.special.erfcx(x)
    torch.special.erfcx(x)


def test_the_setting_is_read(run_python):
    output = run_python("""
        import torch, hpu_torch
        x = torch.ones(2, 3).to("hpu")
        try:
            torch.special.ndtri(x)
        except NotImplementedError as error:
            print(error)
    """, PT_HPU_PLACE_ON_CPU="none")
    assert "aten::special_ndtri.out(self=Float[2, 3] on hpu:0" in output and "program.py:5" in output


def test_scripted_and_traced_functions():
    @torch.jit.script
    def scripted(x, n: int):
        for i in range(n):
            x = torch.relu(x) + i
        return x

    assert torch.equal(scripted(X.to("hpu"), 4).cpu(), scripted(X, 4))
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh())
    expected = net(X)
    net.to("hpu")
    traced = torch.jit.trace(net, X.to("hpu"))
    assert torch.allclose(traced(X.to("hpu")).cpu(), expected)


def test_higher_derivatives_and_hooks():
    def gradients(x):
        x = x.clone().requires_grad_()
        y = (x ** 3).sum()
        first, = torch.autograd.grad(y, x, create_graph=True)
        second, = torch.autograd.grad((first ** 2).sum(), x)
        return first.detach(), second

    both(gradients, X)
    assert torch.autograd.gradcheck(lambda x: (x * x.sigmoid()).sum(), X[:2].double().to("hpu").requires_grad_())
