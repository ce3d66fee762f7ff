# SPDX-License-Identifier: Apache-2.0
"""HPU graphs: what is captured runs when it is replayed, on the memory of the capture; what cannot be captured says so."""
import copy

import pytest
import torch
from hpu_torch import fallback
from torch import nn
from torch.nn import functional as F


pytestmark = pytest.mark.usefixtures("mode")


def encoder():
    torch.manual_seed(5)
    return nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoderLayer(32, 4, 64, dropout=0., batch_first=True), nn.Linear(32, 50))


def test_nothing_runs_before_a_replay_and_state_goes_on():
    x = torch.arange(4.).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = (x + 1).relu()
        x.add_(y)
    assert x.tolist() == [0, 1, 2, 3] and graph.steps == 1
    for _ in range(3):
        graph.replay()
    expected = torch.arange(4.)
    for _ in range(3):
        z = (expected + 1).relu()
        expected.add_(z)
    assert torch.equal(x.cpu(), expected) and torch.equal(y.cpu(), z)
    memory = graph.memory()
    assert memory["kept"] == 0
    del y
    assert graph.memory()["kept"] == 16


def test_begin_and_end_on_a_side_stream():
    side = torch.hpu.Stream()
    with torch.hpu.stream(side):
        graph = torch.hpu.HPUGraph()
        graph.capture_begin()
        assert torch.hpu.is_current_stream_capturing()
        a = torch.full((1000,), 1, device="hpu")
        b = a + 1
        graph.capture_end()
        assert not torch.hpu.is_current_stream_capturing()
        graph.replay()
        side.synchronize()
    assert b.sum().item() == 2000
    graph.replay(asynchronous=False)  # On another stream.
    assert b.sum().item() == 2000


def test_work_of_another_stream_is_no_part_of_it():
    x = torch.ones(3).to("hpu")
    graph, side = torch.hpu.HPUGraph(), torch.hpu.Stream()
    torch.hpu.synchronize()
    with torch.hpu.graph(graph, stream=side):
        x.mul_(2)
        with torch.hpu.stream(torch.hpu.Stream()):
            other = torch.ones(2, device="hpu") * 3
        x.add_(1)
    torch.hpu.synchronize()
    assert other.tolist() == [3, 3] and x.tolist() == [1, 1, 1]
    graph.replay()
    assert x.tolist() == [3, 3, 3]


@pytest.mark.parametrize("what", ["item", "nonzero", "synchronize", "event", "print", "unknown op"])
def test_what_cannot_be_captured_says_so(what):
    x = torch.ones(4).to("hpu")
    graph = torch.hpu.HPUGraph()
    fallback.allow("all")
    with pytest.raises((RuntimeError, NotImplementedError), match="captured.*|cannot be captured") as error:
        with torch.hpu.graph(graph):
            y = x + 1
            {"item": lambda: y.sum().item(), "nonzero": lambda: y.nonzero(), "synchronize": torch.hpu.synchronize,
             "event": lambda: torch.hpu.Event().record(), "print": lambda: str(y), "unknown op": lambda: torch.linalg.svd(y.view(2, 2))}[what]()
    assert "test_graphs.py:" in str(error.value)
    # The graph is empty again, and the stream works.
    with pytest.raises(RuntimeError, match="nothing was captured"):
        graph.replay()
    assert (x + 1).tolist() == [2] * 4
    with torch.hpu.graph(graph):
        y = x * 5
    graph.replay()
    assert y.tolist() == [5] * 4


def test_misuse_says_so():
    one, two = torch.hpu.HPUGraph(), torch.hpu.HPUGraph()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        one.capture_end()
    one.capture_begin()
    with pytest.raises(RuntimeError, match="one graph is captured at a time"):
        two.capture_begin()
    with pytest.raises(RuntimeError, match="while it captures"):
        one.replay()
    one.capture_end()
    with pytest.raises(RuntimeError, match="has captured already"):
        one.capture_begin()
    one.replay()  # Empty.
    with pytest.raises(RuntimeError, match="on a stream that captures"):
        with torch.hpu.graph(two):
            one.replay()


def test_random_numbers_are_drawn_by_each_replay():
    x = torch.ones(1000).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = F.dropout(x, .5)
    torch.manual_seed(7)
    torch.hpu.manual_seed(7)
    drawn = []
    for _ in range(2):
        graph.replay()
        drawn.append(y.cpu())
    torch.manual_seed(7)
    expected = [F.dropout(torch.ones(1000), .5) for _ in range(2)]
    assert all(torch.equal(d, e) for d, e in zip(drawn, expected)) and not torch.equal(*drawn)


def test_a_whole_training_step():
    reference, net = encoder(), encoder().to("hpu")
    tokens, targets = torch.randint(0, 50, (4, 3, 8)), torch.randint(0, 50, (4, 24))
    optimisers = [torch.optim.SGD(m.parameters(), lr=.1, momentum=.9) for m in (reference, net)]
    static_in, static_target = tokens[0].to("hpu"), targets[0].to("hpu")

    def step(model, optimiser, x, target):
        optimiser.zero_grad(set_to_none=False)
        loss = F.cross_entropy(model(x).flatten(0, 1), target)
        loss.backward()
        optimiser.step()
        return loss.detach()

    for x, t in zip(tokens[:2], targets[:2]):  # Gradients and momenta are there from now on.
        expected = step(reference, optimisers[0], x, t)
        result = step(net, optimisers[1], x.to("hpu"), t.to("hpu"))
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        loss = step(net, optimisers[1], static_in, static_target)
    assert graph.steps == 1
    for x, t in zip(tokens[2:], targets[2:]):
        expected = step(reference, optimisers[0], x, t)
        static_in.copy_(x)
        static_target.copy_(t)
        graph.replay()
        torch.testing.assert_close(loss.cpu(), expected, rtol=1e-5, atol=1e-6)
    for p, q in zip(reference.parameters(), net.parameters()):
        torch.testing.assert_close(q.cpu(), p, rtol=1e-4, atol=1e-5)


def test_wrapped_modules():
    reference = encoder().eval()
    net = torch.hpu.wrap_in_hpu_graph(copy.deepcopy(reference).to("hpu"), max_graphs=2)
    kept = []
    with torch.no_grad():
        for batch, length in [(2, 5), (3, 7), (2, 5), (4, 4), (3, 7), (2, 5)]:
            x = torch.randint(0, 50, (batch, length))
            y = net(x.to("hpu"))
            kept.append((y, reference(x)))
    assert len(net.forward.hpu_graphs) == 2
    for result, expected in kept:  # Each call has results of its own.
        torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
    # With gradients it runs as it is.
    net.train()
    F.cross_entropy(net(torch.zeros(1, 2, dtype=torch.int64, device="hpu")).flatten(0, 1), torch.zeros(2, dtype=torch.int64, device="hpu")).backward()
    assert net[0].weight.grad.abs().sum().item() > 0


def test_wrapped_functions_write_their_inputs():
    def append(cache, value, scale=1.):
        cache[1:].copy_(cache[:-1].clone())
        cache[0] = value * scale
        return {"sum": cache.sum(0), "cache": cache}

    wrapped = torch.hpu.wrap_in_hpu_graph(append)
    cache, expected = torch.zeros(4, 3).to("hpu"), torch.zeros(4, 3)
    for _ in range(4):
        value = torch.randn(3)
        result = wrapped(cache, value.to("hpu"), scale=2.)
        append(expected, value, 2.)
        assert result["cache"] is cache
        torch.testing.assert_close(cache.cpu(), expected)
        torch.testing.assert_close(result["sum"].cpu(), expected.sum(0))
    assert len(wrapped.hpu_graphs) == 1


@pytest.mark.parametrize("how", ["graphed", "cacher"])
def test_graphed_modules_train(how):
    reference = encoder()
    net = copy.deepcopy(reference).to("hpu")
    body, first = net[1:], net[0]
    sample = torch.randn(3, 8, 32).to("hpu").requires_grad_(True)
    if how == "graphed":
        body = torch.hpu.make_graphed_callables(body, (sample,))
    else:
        body = torch.hpu.ModuleCacher(max_graphs=2)(body)
    optimisers = [torch.optim.AdamW(m.parameters(), lr=.01) for m in (reference, net)]
    for step in range(4):
        x, t = torch.randint(0, 50, (3, 8)), torch.randint(0, 50, (24,))
        expected = F.cross_entropy(reference(x).flatten(0, 1), t)
        result = F.cross_entropy(body(first(x.to("hpu"))).flatten(0, 1), t.to("hpu"))
        for loss, optimiser in ((expected, optimisers[0]), (result, optimisers[1])):
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    if how == "graphed":
        with pytest.raises(ValueError, match="as its sample arguments were"):
            body(torch.zeros(1, 2, 32, device="hpu"))


def test_memory_goes_with_the_graph():
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    x = torch.ones(1 << 18).to("hpu")
    graph = torch.hpu.HPUGraph()
    with torch.hpu.graph(graph):
        y = x * 2
    del x, y
    assert torch.hpu.memory_allocated() - before >= 1 << 21
    graph.replay()
    graph.reset()
    assert torch.hpu.memory_allocated() - before < 1 << 20
