# SPDX-License-Identifier: Apache-2.0
"""Compiled mode: the CPU's results, one launch a pass, and a program that is shared by sizes that change."""
import copy

import hpu_torch
import pytest
import torch
from hpu_torch import fallback, metrics
from torch import nn
from torch.nn import functional as F


@pytest.fixture(autouse=True)
def forbidden():
    fallback.allow("none")
    metrics.reset()


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.relu(self.norm(self.conv(x))).mean((2, 3)))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = nn.Embedding(20, 16), nn.Linear(16, 20, bias=False)
        self.head.weight = self.embedding.weight
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=.1, batch_first=True)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens))).flatten(0, 1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.GRU(8, 16, num_layers=2, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.rnn(x)[0][:, -1])


def batch(kind, generator, size=6):
    if kind is Conv:
        return torch.randn(size, 3, 12, 12, generator=generator), torch.randint(0, 4, (size,), generator=generator)
    if kind is Tied:
        return torch.randint(0, 20, (size, 7), generator=generator), torch.randint(0, 20, (7 * size,), generator=generator)
    return torch.randn(size, 5, 8, generator=generator), torch.randint(0, 4, (size,), generator=generator)


@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
@pytest.mark.parametrize("kind", [Conv, Tied, Recurrent])
def test_training(kind, lazy):
    torch.hpu.set_lazy(lazy)
    torch.manual_seed(3)
    reference = kind()
    net = copy.deepcopy(reference).to("hpu")
    assert hpu_torch.compile(net) is net
    optimisers = [torch.optim.SGD(m.parameters(), lr=.1, momentum=.9) for m in (reference, net)]
    hpu_torch.compile(optimisers[1])
    generator = torch.Generator().manual_seed(1)
    for step in range(5):
        x, target = batch(kind, generator)
        losses = []
        for model, optimiser, device in ((reference, optimisers[0], "cpu"), (net, optimisers[1], "hpu")):
            torch.manual_seed(step)
            optimiser.zero_grad()
            loss = F.cross_entropy(model(x.to(device)), target.to(device))
            loss.backward()
            optimiser.step()
            losses.append(loss.detach().cpu())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-5, atol=1e-5)
        if step == 2:
            compiles = metrics.counts()["compiles"]
    assert metrics.counts()["compiles"] == compiles
    for (name, value), expected in zip(net.state_dict().items(), reference.state_dict().values()):
        torch.testing.assert_close(value.cpu(), expected, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
    torch.hpu.set_lazy(False)


def test_inference_is_one_launch_and_other_modes_are_traced_anew():
    reference = Conv().eval()
    net = hpu_torch.compile(copy.deepcopy(reference).to("hpu"))
    x = torch.randn(4, 3, 12, 12)
    there = x.to("hpu")
    with torch.no_grad():
        for _ in range(3):
            before = metrics.counts()["graphs"]
            y = net(there)
            assert metrics.counts()["graphs"] - before == 1
            torch.testing.assert_close(y.cpu(), reference(x), rtol=1e-5, atol=1e-5)
    net.train()
    reference.train()
    torch.testing.assert_close(net(there).detach().cpu(), reference(x).detach(), rtol=1e-5, atol=1e-5)
    assert net.norm.num_batches_tracked.item() == 1


def test_sizes_that_change_compile_no_more():
    net, generator = hpu_torch.compile(Recurrent().to("hpu")), torch.Generator().manual_seed(0)
    reference = Recurrent()
    reference.load_state_dict({k: v.cpu() for k, v in net.state_dict().items()})
    for step, size in enumerate([5, 9, 7, 12, 6]):
        x, target = batch(Recurrent, generator, size)
        loss = F.cross_entropy(net(x.to("hpu")), target.to("hpu"))
        loss.backward()
        expected = F.cross_entropy(reference(x), target)
        expected.backward()
        torch.testing.assert_close(loss.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
        if step == 1:
            compiles = metrics.counts()["compiles"]
    # What is not in the graphs is compiled for its sizes, too: nothing here.
    assert metrics.counts()["compiles"] == compiles


def test_functions_with_structures_numbers_and_writes():
    @hpu_torch.compile
    def append(cache, value, *, scale=1., options=("sum",)):
        cache[1:].copy_(cache[:-1].clone())
        cache[0] = value["new"] * scale
        return {"sum": cache.sum(0) if "sum" in options else None, "first": cache[0]}

    cache, expected = torch.zeros(4, 3).to("hpu"), torch.zeros(4, 3)
    for step in range(6):
        value, scale = torch.randn(3), 2. if step % 2 else .5
        result = append(cache, {"new": value.to("hpu")}, scale=scale)
        expected[1:].copy_(expected[:-1].clone())
        expected[0] = value * scale
        torch.testing.assert_close(cache.cpu(), expected)
        torch.testing.assert_close(result["sum"].cpu(), expected.sum(0))
        torch.testing.assert_close(result["first"].cpu(), expected[0])


def test_gradients_of_inputs_and_tensors_that_share_memory():
    @hpu_torch.compile
    def product(a, b):
        return (a * b).sin(), a + 1

    x = torch.randn(3, 4)
    for other in (lambda t: t, lambda t: t.detach() * 2, lambda t: t):
        results = []
        for device in ("cpu", "hpu"):
            a = x.clone().to(device).requires_grad_(True)
            y, z = (product if device == "hpu" else lambda a, b: ((a * b).sin(), a + 1))(a, other(a))
            (y.sum() + z.sum()).backward()
            results.append((y.detach().cpu(), z.detach().cpu(), a.grad.cpu()))
        for result, expected in zip(*reversed(results)):
            torch.testing.assert_close(result, expected)


def test_what_the_device_has_no_kernel_for_runs_between_graphs():
    fallback.allow("all")
    fallback.reset()

    @hpu_torch.compile
    def spectrum(x):
        return torch.linalg.svdvals(x + 1) * 2

    x = torch.randn(4, 4)
    for _ in range(2):
        torch.testing.assert_close(spectrum(x.to("hpu")).cpu(), torch.linalg.svdvals(x + 1) * 2, rtol=1e-4, atol=1e-4)
    assert fallback.report()


def test_what_depends_on_values_says_so():
    @hpu_torch.compile
    def branch(x):
        return x * 2 if x.sum().item() > 0 else x

    with pytest.raises(RuntimeError, match="value out of a tracing tensor"):
        branch(torch.ones(3, device="hpu"))
    assert (torch.ones(3, device="hpu") + 1).tolist() == [2, 2, 2]


def test_an_optimisers_step_is_one_graph():
    parameters = [nn.Parameter(torch.randn(3, 4).to("hpu")) for _ in range(5)]
    optimiser = torch.optim.AdamW(parameters, lr=.1)
    step = hpu_torch.compile(optimiser.step)
    for round in range(4):
        for p in parameters:
            p.grad = torch.ones(3, 4).to("hpu") * (round + 1)
        before = metrics.counts()
        step()
        after = metrics.counts()
        assert after["graphs"] - before["graphs"] == 1
        assert round < 2 or after["compiles"] == before["compiles"]


def test_arguments_without_a_hash_and_negated_views():
    class Options:
        __hash__ = None
        factor = 3

    scaled = hpu_torch.compile(lambda x, options: x * options.factor)
    assert scaled(torch.ones(2, device="hpu"), Options()).tolist() == [3, 3]
    plus = hpu_torch.compile(lambda x: x + 1)
    x = torch.ones(2, device="hpu")
    assert plus(x).tolist() == [2, 2] and plus(torch._neg_view(x)).tolist() == [0, 0] and plus(x).tolist() == [2, 2]


def test_arguments():
    net = nn.Linear(2, 2)
    assert hpu_torch.compile(net, disable=True) is net
    with pytest.raises(ValueError, match="'hpu_backend' is"):
        hpu_torch.compile(net, backend="inductor")
    compiled = hpu_torch.compile(backend="hpu_backend", dynamic=True)(lambda x: x * 2)
    assert compiled(torch.ones(2)).tolist() == [2, 2]  # Tensors of the CPU: as it is.
    assert compiled(torch.ones(2, device="hpu")).tolist() == [2, 2]


def test_a_compiled_part_of_a_compiled_module():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to("hpu")
    x = torch.randn(5, 3).to("hpu")
    expected = net(x).detach().cpu()
    hpu_torch.compile(net[0])
    hpu_torch.compile(net)
    assert hpu_torch.compile(net) is net  # Twice is once.
    for _ in range(2):
        torch.testing.assert_close(net(x).detach().cpu(), expected)
    graph = torch.hpu.HPUGraph()
    with torch.no_grad(), torch.hpu.graph(graph):
        y = net(x)
    graph.replay()
    torch.testing.assert_close(y.cpu(), expected)
