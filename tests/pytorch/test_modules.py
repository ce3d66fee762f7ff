# SPDX-License-Identifier: Apache-2.0
"""Modules that move, files, copies and pickles."""
import copy
import io
import pickle

import numpy
import pytest
import torch
from torch import nn


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6)
        self.body = nn.Linear(6, 6)
        self.head = nn.Linear(6, 11, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("scale", torch.tensor(2.))

    def forward(self, x):
        return self.head(torch.tanh(self.body(self.embedding(x)))) * self.scale


def loss_of(net, device):
    x = torch.arange(11, device=device)
    return nn.functional.cross_entropy(net(x), x)


def test_tied_weights_stay_tied_and_an_optimiser_made_before_trains_them():
    losses = {}
    for device in ("cpu", "hpu"):
        torch.manual_seed(3)
        net = Tied()
        weight = net.embedding.weight
        optimiser = torch.optim.Adam(net.parameters(), lr=.05)
        loss_of(net, "cpu").backward()  # Its nodes and gradients are the CPU's.
        assert net.to(device) is net
        assert net.embedding.weight is weight is net.head.weight and weight.device.type == device
        assert weight.grad.device.type == device and net.scale.device.type == device
        assert isinstance(weight, nn.Parameter) and weight.is_leaf and weight.requires_grad
        losses[device] = []
        for _ in range(5):
            losses[device].append(loss_of(net, device).item())
            loss_of(net, device).backward()
            optimiser.step()
            optimiser.zero_grad()
    assert losses["hpu"] == pytest.approx(losses["cpu"], rel=1e-6) and losses["hpu"][-1] < losses["hpu"][0]
    net.cpu()
    assert net.head.weight is weight and weight.device.type == "cpu"
    loss_of(net, "cpu").backward()


@pytest.mark.parametrize("move", [
    lambda n: n.hpu(), lambda n: n.to("hpu:0"), lambda n: n.to(torch.device("hpu", 0)), lambda n: n.hpu("hpu:0"), lambda n: n.hpu(0),
    lambda n: n.to(torch.ones(1, device="hpu")), lambda n: n.to("hpu", torch.float32), lambda n: n.to("hpu", non_blocking=True)])
def test_ways_to_move(move):
    net = Tied()
    weight = net.embedding.weight
    expected = weight.detach().clone()
    assert move(net).head.weight is weight and torch.equal(weight.detach().cpu(), expected)
    net.to("hpu:1")
    assert net.head.weight is weight and weight.device.index == 1 and torch.equal(weight.detach().cpu(), expected)
    net.half().cpu().float()
    assert net.head.weight is weight and weight.dtype == torch.float32 and weight.device.type == "cpu"


def test_moving_changes_types_and_keeps_flags():
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3))
    net[0].weight.requires_grad_(False)
    net.to("hpu", torch.float64)
    assert net[0].weight.dtype == torch.float64 and not net[0].weight.requires_grad and net[1].weight.requires_grad
    assert net[1].num_batches_tracked.dtype == torch.int64 and net[1].running_mean.device.type == "hpu"
    net.to(memory_format=torch.channels_last)
    net(torch.randn(2, 2, 3, 3, device="hpu", dtype=torch.float64))
    empty = nn.Linear(0, 3)
    assert empty.to("hpu").weight.shape == (3, 0)


def test_hooks_and_gradients_of_moved_parameters():
    net = nn.Linear(2, 2)
    seen = []
    net.weight.register_hook(lambda grad: seen.append(grad.device.type))
    net(torch.ones(1, 2)).sum().backward()
    net.to("hpu")
    net(torch.ones(1, 2, device="hpu")).sum().backward()
    assert seen == ["cpu", "hpu"] and torch.equal(net.weight.grad.cpu(), torch.full((2, 2), 2.))


def test_only_leaves_move_in_place():
    from hpu_torch import _C
    result = torch.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="leaves"):
        _C.replace_(result, torch.ones(2, device="hpu"))


def test_lazy_modules_and_loaded_states():
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU())
    net(torch.ones(1, 3))
    net.to("hpu")
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    other.load_state_dict(net.state_dict())
    assert torch.equal(other[0].weight, net[0].weight.cpu()) and other[0].weight.device.type == "cpu"
    net.load_state_dict(other.state_dict())
    optimiser = torch.optim.AdamW(net.parameters())
    net(torch.ones(1, 3, device="hpu")).sum().backward()
    optimiser.step()
    again = torch.optim.AdamW(net.parameters())
    again.load_state_dict(optimiser.state_dict())
    state = again.state[net[0].weight]
    assert state["exp_avg"].device.type == "hpu"
    assert torch.equal(state["exp_avg"].cpu(), optimiser.state[net[0].weight]["exp_avg"].cpu())


def saved(thing, **options):
    file = io.BytesIO()
    torch.save(thing, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("zipped", [True, False])
def test_files(zipped):
    base = torch.arange(12.).view(3, 4)
    hpu = base.to("hpu")
    things = {"whole": hpu, "view": hpu[1:, ::2], "transposed": hpu.t(), "bf16": hpu.bfloat16(), "scalar": torch.tensor(3, device="hpu"),
              "empty": torch.ones(0, 3, device="hpu"), "far": torch.full((5,), 7, dtype=torch.int64, device="hpu:7"), "cpu": base,
              "grad": torch.ones(2, device="hpu", requires_grad=True), "conj": (base + 1j * base).to("hpu").conj(),
              "bool": hpu > 4}
    file = saved(things, _use_new_zipfile_serialization=zipped)
    for where, far in [(None, "hpu:7"), ("cpu", "cpu"), ("hpu", "hpu:0"), ("hpu:2", "hpu:2"), (torch.device("hpu", 2), "hpu:2"),
                       ({"hpu:7": "hpu:1"}, "hpu:1"), (lambda storage, location: storage, "cpu")]:
        file.seek(0)
        loaded = torch.load(file, map_location=where)
        for name, thing in things.items():
            assert loaded[name].dtype == thing.dtype and torch.equal(loaded[name].cpu().resolve_conj(), thing.cpu().resolve_conj()), name
            assert loaded[name].requires_grad == thing.requires_grad and loaded[name].stride() == thing.stride()
        assert str(loaded["far"].device) == far
        loaded["whole"][1, 2] = 100  # What was one piece of memory is one.
        assert loaded["view"][0, 1] == 100 and loaded["transposed"][2, 1] == 100
        assert (loaded["bf16"] == 100).sum() == 0


def test_a_file_of_the_cpu_is_loaded_to_hpu():
    net = Tied()
    file = saved(net.state_dict())
    loaded = torch.load(file, map_location="hpu:1")
    assert loaded["body.weight"].device == torch.device("hpu", 1)
    assert torch.equal(loaded["body.weight"].cpu(), net.body.weight)


def test_a_file_of_gaudis_bridge_follows_map_location():
    class Array:
        def __reduce__(self):
            return torch._utils._rebuild_device_tensor_from_numpy, (numpy.ones((2, 2), "f4"), torch.bfloat16, "hpu:0", True)

    file = saved([Array()])
    assert torch.load(file)[0].device.type == "hpu"
    file.seek(0)
    loaded, = torch.load(file, map_location="cpu")
    assert loaded.device.type == "cpu" and loaded.dtype == torch.bfloat16 and loaded.requires_grad


def test_files_are_read_without_this_package(run_python, tmp_path):
    net = nn.Linear(3, 2).to("hpu")
    torch.save({"net": net.state_dict(), "x": torch.arange(3, device="hpu")}, tmp_path / "file.pt")
    output = run_python(f"""
        import torch
        loaded = torch.load({str(tmp_path / "file.pt")!r}, map_location="cpu")
        print(loaded["x"], loaded["net"]["weight"].shape)
    """)
    assert "tensor([0, 1, 2]) torch.Size([2, 3])" in output


def test_a_device_that_is_not_there_is_named(run_python, tmp_path):
    torch.save(torch.ones(2, device="hpu:7"), tmp_path / "file.pt")
    output = run_python(f"""
        import torch, hpu_torch
        torch.load({str(tmp_path / "file.pt")!r})
    """, expect_error=True, HABANA_VISIBLE_MODULES="0,1")
    assert "hpu:7, and this process has 2 hpu device(s)" in output and "map_location" in output


def test_whole_modules_copies_and_pickles():
    net = Tied().to("hpu")
    expected = net(torch.arange(5, device="hpu")).detach().cpu()
    for other in (copy.deepcopy(net), torch.load(saved(net)), pickle.loads(pickle.dumps(net))):
        assert other.head.weight is other.embedding.weight and other.head.weight is not net.head.weight
        assert other.head.weight.device.type == "hpu" and isinstance(other.head.weight, nn.Parameter)
        assert torch.equal(other(torch.arange(5, device="hpu")).detach().cpu(), expected)
        with torch.no_grad():
            other.head.weight.zero_()
        assert torch.equal(net(torch.arange(5, device="hpu")).detach().cpu(), expected)
    tensor = torch.ones(2, device="hpu")
    both = copy.deepcopy([tensor, tensor])
    assert both[0] is both[1] and both[0] is not tensor
    assert torch.equal(copy.copy(tensor).cpu(), tensor.cpu())
