# SPDX-License-Identifier: Apache-2.0
"""Compiled mode and HPU graphs where a signature must tell calls apart, and where there is an error and not a wrong number."""
import threading

import hpu_torch
import pytest
import torch
from hpu_torch import fallback
from torch import nn


@pytest.fixture(autouse=True)
def forbidden():
    fallback.allow("none")


def test_the_same_tensor_twice_is_another_signature():
    x, y = torch.randn(4).to("hpu"), torch.randn(4).to("hpu")
    minus, wrapped = hpu_torch.compile(lambda a, b: a - b), torch.hpu.wrap_in_hpu_graph(lambda a, b: a.add_(1) * b)
    for a, b in [(x, x), (x, y), (y, y), (y, x)]:
        assert torch.equal(minus(a, b).cpu(), a.cpu() - b.cpu())
        own = [a.cpu().clone(), b.cpu().clone()]
        own[1] = own[0] if a is b else own[1]
        expected = own[0].add_(1) * own[1]
        torch.testing.assert_close(wrapped(a, b).cpu(), expected)
    reference = nn.Bilinear(3, 3, 2)
    net = nn.Bilinear(3, 3, 2).to("hpu")
    net.load_state_dict(reference.state_dict())
    hpu_torch.compile(net)
    a, b = torch.randn(5, 3), torch.randn(5, 3)
    there = a.to("hpu"), b.to("hpu")
    for i, j in [(0, 0), (0, 1), (1, 1)]:
        torch.testing.assert_close(net(there[i], there[j]).detach().cpu(), reference((a, b)[i], (a, b)[j]).detach(), rtol=1e-5, atol=1e-5)


def test_autocast_is_part_of_the_signature():
    x = torch.randn(2, 8).to("hpu")
    compiled, wrapped = hpu_torch.compile(nn.Linear(8, 2).to("hpu")), torch.hpu.wrap_in_hpu_graph(nn.Linear(8, 2).to("hpu"))
    with torch.no_grad():
        for net in (compiled, wrapped):
            for dtype in (None, torch.bfloat16, torch.float16, None):
                with torch.autocast("hpu", dtype=dtype or torch.bfloat16, enabled=dtype is not None):
                    assert net(x).dtype == (dtype or torch.float32)


def test_negative_zero_is_another_number():
    for made in (hpu_torch.compile, torch.hpu.wrap_in_hpu_graph):
        signed = made(lambda x, s: torch.copysign(x, torch.full_like(x, s)))
        x = torch.ones(1, device="hpu")
        assert [signed(x, s).item() for s in (0., -0., 0.)] == [1, -1, 1]


def test_replays_on_other_streams_have_their_numbers():
    x = torch.ones(4).to("hpu")
    for round in range(5):
        side, graph = torch.hpu.Stream(), torch.hpu.HPUGraph()
        with torch.hpu.graph(graph, stream=side):
            y = x * (8.25 + round)
        graph.replay()
        assert y.tolist() == [8.25 + round] * 4
        times = hpu_torch.compile(lambda x: x * (9.25 + round))
        times(x)
        with torch.hpu.stream(side):
            assert times(x).tolist() == [9.25 + round] * 4


def test_other_threads_are_not_captured():
    x, done = torch.zeros(1).to("hpu"), threading.Event()
    added = 0

    failures = []

    def add():
        nonlocal added
        try:
            while not done.is_set():
                x.add_(1)
                added += 1
                torch.hpu.synchronize()
                torch.hpu.Event().record()
        except RuntimeError as error:
            failures.append(error)

    thread = threading.Thread(target=add)
    thread.start()
    try:
        for width in range(3, 9):
            net = hpu_torch.compile(nn.Linear(4, width).to("hpu"))
            net(torch.ones(2, 4, device="hpu")).sum().backward()
    finally:
        done.set()
        thread.join()
    assert not failures and added > 0 and x.item() == added


def test_results_that_are_no_tensors():
    both = hpu_torch.compile(lambda x: {"x": x + 1, "none": None, "number": 3})
    for _ in range(2):
        result = both(torch.ones(2, device="hpu"))
        assert result["x"].tolist() == [2, 2] and result["none"] is None and result["number"] == 3
    attention = hpu_torch.compile(nn.MultiheadAttention(8, 2, batch_first=True).to("hpu"))
    x = torch.randn(2, 3, 8).to("hpu")
    for _ in range(2):
        assert attention(x, x, x, need_weights=False)[1] is None


def test_what_cannot_be_right_is_an_error():
    with pytest.raises(RuntimeError, match="writes in place to an argument that asks gradients"):
        hpu_torch.compile(lambda x: x.mul_(2).exp())(torch.zeros(2, device="hpu", requires_grad=True) * 1)
    penalty = hpu_torch.compile(nn.Sequential(nn.Linear(3, 4), nn.Tanh()).to("hpu"))
    x = torch.randn(2, 3).to("hpu").requires_grad_(True)
    with pytest.raises(RuntimeError, match="create_graph"):
        torch.autograd.grad(penalty(x).sum(), x, create_graph=True)
    net = nn.Linear(3, 2).to("hpu")
    with pytest.raises(RuntimeError, match="neither an argument nor a parameter"):
        hpu_torch.compile(lambda z: net(z).square().mean())(x)

    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.ones(2).to("hpu")

        def forward(self, x):
            return x * self.scale

    with pytest.raises(RuntimeError, match="attribute 'scale' of Holder"):
        hpu_torch.compile(Holder())(torch.ones(2, 2, device="hpu"))


def test_conversions_over_the_host_part_a_graph():
    fallback.allow("all")
    double = hpu_torch.compile(lambda x: (x.double() * 2).sum().float())
    for _ in range(2):
        assert double(torch.ones(3, device="hpu")).item() == 6


def test_schedulers_and_failed_steps_of_a_compiled_optimiser():
    p = nn.Parameter(torch.ones(2).to("hpu"))
    optimiser = torch.optim.SGD([p], lr=1.)
    hpu_torch.compile(optimiser)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, gamma=.5)
    for expected in (0., -.5, -.75):
        p.grad = torch.ones(2).to("hpu")
        optimiser.step()
        schedule.step()
        assert p.tolist() == [expected] * 2
    before = hpu_torch.metrics.counts()["graphs"]
    with pytest.raises(ZeroDivisionError) as kept:
        optimiser.step(lambda: 1 / 0)
    torch.ones(3, device="hpu") * 2
    assert hpu_torch.metrics.counts()["graphs"] > before and kept


def test_wrapped_modules_in_inference_mode():
    net = torch.hpu.wrap_in_hpu_graph(nn.Linear(3, 2).to("hpu").eval())
    x = torch.randn(4, 3)
    with torch.inference_mode():
        for _ in range(2):
            result = net(x.to("hpu"))
    torch.testing.assert_close(result.cpu(), (x @ net.weight.detach().cpu().t() + net.bias.detach().cpu()), rtol=1e-5, atol=1e-5)


def test_graphs_know_their_activations_and_parameters():
    x, net = torch.randn(2, 3).to("hpu"), nn.Linear(3, 2).to("hpu")
    graphed = torch.hpu.make_graphed_callables(net, (x,))
    with pytest.raises(RuntimeError, match="run each backward before the next forward"):
        (graphed(x).sum() + graphed(x * 2).sum()).backward()
    wrapped = torch.hpu.wrap_in_hpu_graph(nn.Linear(3, 2).to("hpu").eval())
    with torch.no_grad():
        before = wrapped(x).cpu()
        wrapped.weight = nn.Parameter(wrapped.weight * 2)
        torch.testing.assert_close(wrapped(x).cpu(), 2 * before - wrapped.bias.cpu(), rtol=1e-4, atol=1e-5)


def test_checkpoints_are_not_captured():
    from torch.utils.checkpoint import checkpoint
    part = nn.Sequential(nn.Linear(3, 3), nn.Dropout(.5)).to("hpu")
    x = torch.randn(2, 3).to("hpu").requires_grad_(True)
    with pytest.raises(RuntimeError, match="preserve_rng_state=False"):
        hpu_torch.compile(lambda x: checkpoint(part, x, use_reentrant=False))(x)
    checkpoint(part, x, use_reentrant=False).sum().backward()
