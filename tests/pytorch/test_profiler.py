# SPDX-License-Identifier: Apache-2.0
"""The profiler: PyTorch's ops, the runtime and the device in one trace, with names of modules on the device's slices."""
import json

import hpu_torch
import pytest
import torch
from hpu_torch import profiler
from torch import nn
from torch.nn import functional as F


@pytest.fixture(params=["eager", "lazy"], autouse=True)
def mode(request):
    torch.hpu.set_lazy(request.param == "lazy")
    yield request.param
    torch.hpu.set_lazy(False)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.act = nn.Conv2d(4, 4, 3, padding=1), nn.Tanh()

    def forward(self, x):
        return self.act(self.conv1(x)) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.fc = nn.Sequential(Block(), Block()), nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(self.layer1(x).mean((2, 3)))


def training(with_net=False):
    torch.manual_seed(0)
    net = Net().to("hpu")
    optimiser = torch.optim.SGD(net.parameters(), lr=.1, momentum=.9)
    x, target = torch.randn(2, 4, 8, 8, device="hpu"), torch.tensor([0, 2], device="hpu")

    def step():
        optimiser.zero_grad()
        loss = F.cross_entropy(net(x), target)
        loss.backward()
        optimiser.step()
        hpu_torch.core.mark_step()
        return loss
    return (step, net) if with_net else step


def on_device(recorded):
    return [event for event in recorded.events() if event["device"] >= 0 and event["track"] in ("tpc", "mme", "dma")]


def test_one_trace_has_it_all(tmp_path, mode):
    step = training()
    step(), step()
    with profiler.profile(record_shapes=True) as recorded:
        for _ in range(2):
            with torch.autograd.profiler.record_function("my block"):
                step()
    events = recorded.events()
    host = [event for event in events if event["device"] < 0]
    names = {event["name"] for event in host}
    assert {"my block", "aten::conv2d", "ConvolutionBackward0", "Optimizer.step#SGD.step", "Executable.launch"} <= names
    assert sum(event["name"] == "aten::conv2d" for event in host) == 4
    assert any(event["arguments"].get("inputs", "").startswith("Float[2, 4, 8, 8], Float[4, 4, 3, 3]") for event in host if event["name"] == "aten::conv2d")
    block = next(event for event in host if event["name"] == "my block")
    first = next(event for event in host if event["name"] == "aten::conv2d")
    assert block["start_us"] <= first["start_us"] and first["start_us"] + first["duration_us"] <= block["start_us"] + block["duration_us"] and block["track"] == first["track"]

    parts = {part for event in on_device(recorded) for part in event["name"].split("+")}
    for module in ("layer1.0.conv1/aten::convolution", "layer1.1.conv1/aten::convolution", "fc/aten::addmm"):
        assert module in parts
    assert any(part.startswith("gradient/layer1.0.conv1/aten::convolution_backward") for part in parts)
    assert not any("gradient" in part and "nll_loss" in part for part in parts)  # A backward's names end with it.
    by_module = recorded.device_time_by_module()
    assert {"layer1.0.conv1", "layer1.1.conv1", "fc", "gradient/layer1.1.conv1"} <= set(by_module) and all(time > 0 for time in by_module.values())
    assert any(name.startswith(("my block", "Optimizer.step#SGD.step")) for name in by_module)
    assert by_module["layer1.0.conv1"] == pytest.approx(by_module["layer1.1.conv1"], rel=.5)
    averages = {(entry["name"], entry["where"]): entry for entry in recorded.key_averages()}
    assert averages["aten::conv2d", "host"]["count"] == 4 and "aten::" in recorded.table()

    recorded.export_chrome_trace(tmp_path / "step.json")
    trace = json.loads((tmp_path / "step.json").read_text())
    found = {event.get("name") for event in (trace["traceEvents"] if isinstance(trace, dict) else trace)}
    assert "aten::conv2d" in found and any("layer1.0.conv1/aten::convolution" in str(name) for name in found)
    recorded.export_chrome_trace(tmp_path / "step.hputrace")
    recorded.export_chrome_trace(tmp_path / "plain")
    assert (tmp_path / "step.hputrace").stat().st_size > 0 and json.loads((tmp_path / "plain.json").read_text())


@pytest.mark.parametrize("part", ["", "layer1"], ids=["whole", "part"])
def test_what_is_compiled_has_the_names_of_its_parts(mode, part):
    if mode == "lazy":
        return
    step, net = training(with_net=True)
    hpu_torch.compile(net.get_submodule(part))
    step(), step()
    with profiler.profile() as recorded:
        step()
    parts = {name for event in on_device(recorded) for name in event["name"].split("+")}
    assert {"layer1.0.conv1/aten::convolution", "layer1.1.conv1/aten::convolution", "fc/aten::addmm", "layer1.0.act/aten::tanh", "layer1.1/aten::add.Tensor"} <= parts, parts
    assert not any(name.startswith(("layer1.0.conv1/", "layer1.1.conv1/")) and "aten::add" in name for name in parts)
    by_module = recorded.device_time_by_module()
    assert {f"gradient/{name}" for name in ("layer1.0.conv1", "layer1.0.act", "layer1.1.conv1", "layer1.1.act", "fc")} <= set(by_module), by_module
    hpu_torch.metrics.reset()
    step()
    assert hpu_torch.metrics.counts()["compiles"] == 0


def test_names_cost_nothing_behind_it():
    step = training()
    step(), step()
    with profiler.profile():
        step()
    hpu_torch.metrics.reset()
    step()
    assert hpu_torch.metrics.counts()["compiles"] == 0  # The graphs without names are still there.
    assert torch.nn.Module.__call__.__qualname__ == "Module._call_impl"
    with profiler.profile(with_modules=False, level="node") as recorded:
        step()
    assert hpu_torch.metrics.counts()["compiles"] == 0 and not any("/" in event["name"] for event in on_device(recorded))


def test_a_schedule_records_some_steps(tmp_path):
    step, saved = training(), []
    handler = profiler.tensorboard_trace_handler(str(tmp_path / "log"), "worker")
    with profiler.profile(activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.HPU], schedule=profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
                          on_trace_ready=lambda p: (saved.append(len([e for e in p.events() if e["name"] == "Optimizer.step#SGD.step" and e["device"] < 0])), handler(p))) as p:
        for _ in range(6):
            step()
            p.step()
    assert saved == [2] and len(list((tmp_path / "log").glob("worker.*.pt.trace.json"))) == 1
    for bad in (dict(wait=-1, warmup=0, active=1), dict(wait=0, warmup=0, active=0)):
        with pytest.raises(ValueError, match="active is at least 1"):
            profiler.schedule(**bad)


def test_what_goes_wrong():
    with pytest.raises(RuntimeError, match="nothing has been recorded yet"):
        profiler.profile().events()
    with pytest.raises(ValueError, match="one of api, node, slice, not 'all'"):
        profiler.profile(level="all")
    with pytest.raises(ZeroDivisionError):
        with profiler.profile() as outer:
            with pytest.raises(RuntimeError, match="is being recorded already"):
                profiler.profile().start()
            net = nn.Linear(2, 2).to("hpu")
            with pytest.raises(RuntimeError):
                net(torch.ones(3, 5, device="hpu"))
            net(torch.ones(3, 2, device="hpu"))
            hpu_torch.core.mark_step()
            1 / 0
    assert any("addmm" in event["name"] for event in outer.events()) and torch.nn.Module.__call__.__qualname__ == "Module._call_impl"
    import habana_frameworks.torch.hpu as hthpu
    assert hthpu.profiler is profiler is torch.hpu.profiler
