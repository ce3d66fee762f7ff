# SPDX-License-Identifier: Apache-2.0
"""Compiled mode and HPU graphs where a signature must tell calls apart, and where there is an error and not a wrong number."""
import copy
import io
import pickle
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
            self.scales = [torch.ones(2).to("hpu").requires_grad_(True)]

        def forward(self, x):
            return x * self.scales[0]

    with pytest.raises(RuntimeError, match="neither an argument nor a parameter"):
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


class Counting(nn.Module):
    """Its forward replaces a buffer, and attributes: one that is there, one that is new."""

    def __init__(self, size=3):
        super().__init__()
        self.linear = nn.Linear(3, size)
        self.register_buffer("count", torch.zeros(1))
        self.history = None

    def forward(self, x):
        self.count = self.count + 1
        y = self.linear(x) * self.count
        self.history = y.mean(0) if self.history is None else self.history.detach() * .5 + y.mean(0)
        self.last = y
        return y


def same_everywhere(net, reference, x):
    result, expected = net(x.to("hpu")), reference(x)
    for one, other in [(result, expected), (net.count, reference.count), (net.history, reference.history), (net.last, reference.last)]:
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=1e-5, atol=1e-5)
        assert one.requires_grad == other.requires_grad
    assert net.last is result
    return result, expected


@pytest.mark.parametrize("how", ["compiled", "wrapped"])
def test_tensors_that_a_forward_replaces(how):
    reference = Counting()
    net = copy.deepcopy(reference).to("hpu")
    net = hpu_torch.compile(net) if how == "compiled" else torch.hpu.wrap_in_hpu_graph(net)
    kept = net.count
    with torch.set_grad_enabled(how == "compiled"):
        for step in range(6):
            result, expected = same_everywhere(net, reference, torch.randn(2 + step % 2, 3))
            if how == "compiled":
                for loss in (result.square().mean(), expected.square().mean()):
                    loss.backward()
    assert kept.item() == 0 and net.count.item() == 6, "the buffer that was there is another tensor"
    if how == "compiled":
        torch.testing.assert_close(net.linear.weight.grad.cpu(), reference.linear.weight.grad, rtol=1e-4, atol=1e-4)
    else:
        assert len(net.forward.hpu_graphs) == 2
    net.count = torch.full((1,), 10., device="hpu")
    reference.count = torch.full((1,), 10.)
    with torch.set_grad_enabled(how == "compiled"):
        same_everywhere(net, reference, torch.randn(2, 3))


def test_a_graphed_module_says_what_it_cannot_replay():
    x = torch.randn(2, 3).to("hpu")
    net = Counting().to("hpu")
    before = net.count
    with pytest.raises(RuntimeError, match="'count', which it reads: replays would read the old one"):
        torch.hpu.make_graphed_callables(net, (x,))
    assert net.count is before and net.count.item() == 0

    class InPlace(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            self.count.add_(1)
            self.last = x * self.count
            return self.last * 2

    net = torch.hpu.make_graphed_callables(InPlace().to("hpu"), (x,))
    assert [net(x).div(x).mean().round().item() for _ in range(3)] == [2, 4, 6] and net.count.item() == 3


def normalised():
    return nn.utils.weight_norm(nn.Linear(3, 4), dim=0)


@pytest.mark.parametrize("where", ["root", "part"])
@pytest.mark.parametrize("how", ["plain", "compiled", "wrapped"])
def test_weight_norm(how, where):
    reference, net = normalised(), normalised()
    net.load_state_dict(reference.state_dict())
    net.to("hpu")
    if where == "part":
        reference, net = nn.Sequential(reference, nn.ReLU()), nn.Sequential(net, nn.ReLU())
    net = {"plain": lambda n: n, "compiled": hpu_torch.compile, "wrapped": torch.hpu.wrap_in_hpu_graph}[how](net)
    optimisers = [torch.optim.SGD(m.parameters(), lr=.1) for m in (net, reference)]
    for _ in range(3):
        x = torch.randn(5, 3)
        with torch.set_grad_enabled(how != "wrapped"):
            result, expected = net(x.to("hpu")), reference(x)
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
        if how != "wrapped":
            for optimiser, y in zip(optimisers, (result, expected)):
                optimiser.zero_grad()
                y.square().sum().backward()
                optimiser.step()
        else:  # A step of training between inferences.
            with torch.no_grad():
                for m in (net, reference):
                    for p in m.parameters():
                        p.mul_(1.5)
    if how == "wrapped":
        assert len(net.forward.hpu_graphs) == 1, "wherever the weight of a call lies"
    for one, other in zip(net.parameters(), reference.parameters()):
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=1e-5, atol=1e-5)


def several(a, b):
    y = a * 2
    return dict(y=y, detached=y.detach(), integer=(a > 0).long(), input=a, view=a.view(-1), cut=a.detach(), again=y, other=b, row=b[0],
                part=y[0], unasked=b + 1, none=None)


@pytest.mark.parametrize("how", ["compiled", "wrapped"])
@pytest.mark.parametrize("asks", ["leaf", "history", "nothing"])
def test_results_are_as_the_plain_functions(how, asks):
    a, b = torch.randn(2, 3).to("hpu"), torch.randn(2, 3).to("hpu")
    if asks != "nothing":
        a.requires_grad_(True)
    if asks == "history":
        a = a * 1
    made = (hpu_torch.compile if how == "compiled" else torch.hpu.wrap_in_hpu_graph)(several)
    expected = several(a, b)

    def seen(results):
        first = {}
        return {name: r if r is None else (r.requires_grad, r.grad_fn is not None, r.is_leaf, r.dtype, r.shape, r.stride(), first.setdefault(id(r), name),
                                           [r is t for t in (a, b)], [r.data_ptr() == t.data_ptr() for t in (a, b)]) for name, r in results.items()}

    for _ in range(2):
        results = made(a, b)
        assert seen(results) == seen(expected)
        for name, r in results.items():
            assert r is None or torch.equal(r.detach().cpu(), expected[name].detach().cpu())
    if asks != "nothing":
        wanted = [name for name, r in expected.items() if r is not None and r.requires_grad]
        gradients = [torch.autograd.grad(sum((r[name] * (i + 1)).sum() for i, name in enumerate(wanted)), a, retain_graph=True)[0] for r in (results, expected)]
        assert torch.equal(gradients[0].cpu(), gradients[1].cpu())
    results["row"].add_(1)  # A view of the caller's tensor still.
    assert torch.equal(results["row"].cpu(), b[0].cpu()) and b.grad is None


def prepared(how):
    torch.manual_seed(3)
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2)).to("hpu")
    x = torch.randn(5, 3).to("hpu")
    if how == "wrapped":
        return torch.hpu.wrap_in_hpu_graph(net.eval(), max_graphs=2), x
    if how == "graphed":
        return torch.hpu.make_graphed_callables(net, (x,)), x
    return (hpu_torch.compile if how == "compiled" else torch.hpu.ModuleCacher())(net), x


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("how", ["compiled", "wrapped", "graphed", "cached"])
def test_copies_and_files_of_prepared_modules(how, used):
    net, x = prepared(how)
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    assert list(net.state_dict()) == list(plain.state_dict())

    def run(module):
        with torch.set_grad_enabled(how != "wrapped"):
            return module(x)

    if used:
        run(net)
    file = io.BytesIO()
    torch.save(net, file)
    file.seek(0)
    others = {"copy": copy.deepcopy(net), "pickle": pickle.loads(pickle.dumps(net)), "file": torch.load(file)}
    others["copy of a copy"] = copy.deepcopy(others["copy"])
    expected = run(net)
    for name, other in others.items():
        assert type(other.forward) is type(net.forward) and list(other.state_dict()) == list(plain.state_dict()), name
        for _ in range(2):  # The state of the norm, too, is its own.
            result = run(other)
        assert torch.equal(result.cpu(), expected.cpu()), name
        with torch.no_grad():
            for p in other.parameters():
                p.zero_()
        assert run(other).abs().sum().item() == 0
        if how != "wrapped":
            other(x).sum().backward()
            assert other[0].weight.grad is not None and net[0].weight.grad is None
    assert torch.equal(run(net).cpu(), expected.cpu())


def test_a_graph_is_not_copied():
    for do in (copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            do(torch.hpu.HPUGraph())


@pytest.mark.parametrize("how", ["compiled", "wrapped"])
def test_parts_of_a_network(how):
    make = hpu_torch.compile if how == "compiled" else torch.hpu.wrap_in_hpu_graph
    body = nn.Sequential(nn.LSTM(3, 4, 2, batch_first=True))
    reference = nn.ModuleDict({"first": nn.Linear(3, 3), "body": body, "last": nn.Linear(4, 2)})
    net = copy.deepcopy(reference).to("hpu")
    make(net["body"])
    make(net["last"])
    x = torch.randn(2, 5, 3)

    def run(n, x):
        return n["last"](n["body"](n["first"](x))[0])

    with torch.set_grad_enabled(how == "compiled"):
        expected = run(reference, x)
        run(net, x.to("hpu"))
        other = copy.deepcopy(net)
        for part in (net, other, pickle.loads(pickle.dumps(net))):
            for _ in range(2):
                torch.testing.assert_close(run(part, x.to("hpu")).detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
        with torch.no_grad():
            other["body"][0].weight_hh_l1.zero_()
            reference["body"][0].weight_hh_l1.zero_()
        torch.testing.assert_close(run(other, x.to("hpu")).detach().cpu(), run(reference, x).detach(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(run(net, x.to("hpu")).detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)


def test_tensors_hidden_in_results_are_an_error():
    class Result(dict):
        pass

    x = torch.ones(3, device="hpu")
    for make in (hpu_torch.compile, torch.hpu.wrap_in_hpu_graph):
        with pytest.raises(RuntimeError, match="returns a Result, and tensors in it would stay"):
            make(lambda x: Result(y=x * 2))(x)
        assert make(lambda x: {"y": (x * 2, [3, "a"])})(x)["y"][1] == [3, "a"]


@pytest.mark.parametrize("how", ["compiled", "wrapped"])
def test_attributes_that_are_written(how):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache, self.scale = torch.zeros(4, 3, device="hpu"), torch.ones(3, device="hpu")

        def forward(self, x, at):
            self.cache[at] = x * self.scale
            return self.cache.sum(0)

    net = Cache()
    cache = net.cache
    (hpu_torch.compile if how == "compiled" else torch.hpu.wrap_in_hpu_graph)(net)
    expected = torch.zeros(4, 3)
    with torch.no_grad():
        for step, at in enumerate([0, 1, 1, 3, 0, 3]):
            x = torch.randn(3)
            if step % 2:  # Another tensor of the same kind.
                net.scale = torch.full((3,), 2. + step, device="hpu")
            expected[at] = x * net.scale.cpu()
            torch.testing.assert_close(net(x.to("hpu"), at).cpu(), expected.sum(0))
        assert net.cache is cache and torch.equal(cache.cpu(), expected)
        net.cache = cache = torch.full((4, 3), 5., device="hpu")
        torch.testing.assert_close(net(torch.zeros(3, device="hpu"), 2).cpu(), torch.full((3,), 15.))
        assert net.cache is cache and cache[2].tolist() == [0, 0, 0]


def test_a_padded_encoder_in_inference():
    torch.manual_seed(2)
    reference = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2).eval()
    net = torch.hpu.wrap_in_hpu_graph(copy.deepcopy(reference).to("hpu"))
    x, padding = torch.randn(2, 5, 8), torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    with torch.no_grad():
        expected = reference(x, src_key_padding_mask=padding)
        for _ in range(2):
            result = net(x.to("hpu"), src_key_padding_mask=padding.to("hpu"))
            torch.testing.assert_close(result.cpu()[~padding], expected[~padding], rtol=1e-4, atol=1e-5)
    assert len(net.forward.hpu_graphs) == 1


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_compiled_inference(mode):
    reference = Counting()
    net = hpu_torch.compile(copy.deepcopy(reference).to("hpu"))
    writes = hpu_torch.compile(lambda x: x.add_(1).sum())
    with mode():
        for step in range(4):
            result, _ = same_everywhere(net, reference, torch.randn(2 + step % 2, 3))
            assert not result.requires_grad and result.is_inference() == (mode is torch.inference_mode)
        x = torch.zeros(3, device="hpu")
        assert [writes(x).item() for _ in range(3)] == [3, 6, 9] and x.tolist() == [3] * 3


@pytest.mark.parametrize("how", ["compiled", "wrapped"])
def test_a_parametrised_weight_and_views_that_are_written(how):
    make = hpu_torch.compile if how == "compiled" else torch.hpu.wrap_in_hpu_graph
    torch.manual_seed(4)
    reference = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3))
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3))
    net.load_state_dict(reference.state_dict())
    make(net.to("hpu"))
    for _ in range(3):
        x = torch.randn(4, 6)
        with torch.set_grad_enabled(how == "compiled"):
            result, expected = net(x.to("hpu")), reference(x)
        torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
        if how == "compiled":
            result.sum().backward()
            expected.sum().backward()
    for one, other in zip([*net.parameters(), *net.buffers()], [*reference.parameters(), *reference.buffers()]):
        torch.testing.assert_close(one.detach().cpu(), other.detach(), rtol=1e-4, atol=1e-5)
        assert one.requires_grad == other.requires_grad and one.is_leaf
        if other.grad is not None:
            torch.testing.assert_close(one.grad.cpu(), other.grad, rtol=1e-3, atol=1e-4)
    add = make(lambda row, x: (row.add_(x), row[1:])[1])
    whole, expected = torch.zeros(3, 4, device="hpu"), torch.zeros(3, 4)
    for _ in range(2):
        part = add(whole[1], torch.ones(4, device="hpu"))
        expected[1].add_(1)
        assert torch.equal(whole.cpu(), expected) and part.data_ptr() == whole[1, 1:].data_ptr() and not whole.requires_grad


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_arguments_with_strides_of_their_own(mode):
    def function(x, y):
        return x.reshape(-1).sum() * y + x.unsqueeze(-1).transpose(0, 1)[..., 0].t() * y

    compiled = hpu_torch.compile(function)
    base = torch.randn(6, 8)
    asks = mode is torch.enable_grad
    with mode():
        for take in (lambda b: b[::2, ::3], lambda b: b.t()[:4], lambda b: b[0].expand(3, 8), lambda b: b[:, 2:5] * 1):
            here, there = base.clone().requires_grad_(asks), base.to("hpu").requires_grad_(asks)
            for _ in range(2):
                result, expected = compiled(take(there), there[0, 0]), function(take(here), here[0, 0])
                torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-4, atol=1e-5)
                if asks:
                    result.sum().backward()
                    expected.sum().backward()
            if asks:
                torch.testing.assert_close(there.grad.cpu(), here.grad, rtol=1e-4, atol=1e-4)


def test_numbers_that_are_drawn_on_the_host_are_new_at_each_call():
    import random

    import numpy
    draws = [lambda: torch.rand(2).to("hpu"), lambda: torch.tensor([random.random(), 0]).to("hpu"), lambda: float(numpy.random.rand()) * torch.ones(2, device="hpu")]
    for draw in draws:
        for make in (hpu_torch.compile, torch.hpu.wrap_in_hpu_graph):
            function = make(lambda x: x + draw())
            x = torch.zeros(2, device="hpu")
            assert len({tuple(function(x).tolist()) for _ in range(4)}) == 4
            torch.manual_seed(3), random.seed(3), numpy.random.seed(3)
            first = function(x).tolist()
            torch.manual_seed(3), random.seed(3), numpy.random.seed(3)
            assert function(x).tolist() == first == (x + draw_again(draw)).tolist()
    with pytest.raises(RuntimeError, match="draws random numbers on the host"):
        torch.hpu.make_graphed_callables(lambda x: x + torch.rand(2).to("hpu"), (torch.zeros(2, device="hpu"),))


def draw_again(draw):
    import random

    import numpy
    torch.manual_seed(3), random.seed(3), numpy.random.seed(3)
    return draw()


def test_threads_may_meet_a_kind_of_call_first():
    for make in (hpu_torch.compile, torch.hpu.wrap_in_hpu_graph):
        net = make(nn.Sequential(nn.Linear(4, 4), nn.Tanh()).to("hpu").eval())
        plain = copy.deepcopy(net).cpu()
        plain.forward = type(plain).forward.__get__(plain)
        failures = []

        def work(k):
            try:
                for rows in (2, 3, 5):
                    x = torch.full((rows, 4), float(k))
                    with torch.no_grad():
                        torch.testing.assert_close(net(x.to("hpu")).cpu(), plain(x))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures


def test_inputs_that_share_memory_see_each_other_written():
    class Writes(nn.Module):
        def forward(self, x, y):
            x.add_(1)
            return y * 2

    for make in (hpu_torch.compile, torch.hpu.wrap_in_hpu_graph):
        module = make(Writes())
        for _ in range(2):
            memory = torch.arange(6.0).to("hpu")
            with torch.no_grad():
                assert module(memory[:4], memory[2:]).tolist() == [6, 8, 8, 10]
            assert memory.tolist() == [1, 2, 3, 4, 4, 5]
