# SPDX-License-Identifier: Apache-2.0
"""The names that trainers and models for Gaudi import: optimisers and kernels against PyTorch's, metrics, and a trainer of ours that walks them as others' do."""
import copy
import importlib
import json
import math

import hpu_torch
import pytest
import torch
from hpu_torch import fallback
from torch import nn
from torch.nn import functional as F


pytestmark = pytest.mark.usefixtures("mode")


NAMES = {  # What Lightning, lightning-habana, optimum-habana, DeepSpeed, Accelerate and vLLM import.
    "habana_frameworks.torch": "core hpu utils hpex",
    "habana_frameworks.torch.core": "mark_step iter_mark_step add_step_closure hpu_initialize hpu_set_env hpu_set_inference_env hpu_inference_set_env hpu_inference_initialize "
                                    "hpu_teardown_inference_env hpu_reset_env step_closure quantization hpu",
    "habana_frameworks.torch.core.step_closure": "_mark_step_if_lazy add_step_closure",
    "habana_frameworks.torch.core.quantization": "_mark_params_as_const _check_params_as_const",
    "habana_frameworks.torch.hpu": "is_available is_initialized init device_count current_device set_device device device_of synchronize get_device_name get_device_properties "
                                   "get_device_capability get_device_type get_arch_list get_gencode_flags can_device_access_peer is_bf16_available is_bf16_supported Stream Event "
                                   "stream current_stream default_stream set_stream memory_allocated max_memory_allocated reset_max_memory_allocated memory_reserved max_memory_reserved "
                                   "memory_cached max_memory_cached reset_max_memory_cached memory_stats reset_peak_memory_stats memory_summary memory_snapshot mem_get_info empty_cache "
                                   "memory_usage manual_seed manual_seed_all seed seed_all initial_seed get_rng_state set_rng_state get_rng_state_all set_rng_state_all "
                                   "default_generators setDeterministic getDeterministic enable_inference_mode disable_inference_mode is_inference_mode sdp_kernel set_sync_debug_mode "
                                   "enable_dynamic_shape disable_dynamic_shape is_autocast_hpu_enabled set_autocast_hpu_enabled get_autocast_hpu_dtype set_autocast_hpu_dtype amp metrics "
                                   "random memory OutOfMemoryError",
    "habana_frameworks.torch.hpu.random": "get_rng_state set_rng_state get_rng_state_all set_rng_state_all manual_seed manual_seed_all seed seed_all initial_seed default_generators "
                                          "fork_rng",
    "habana_frameworks.torch.hpu.memory": "memory_stats memory_allocated max_memory_allocated reset_peak_memory_stats memory_summary",
    "habana_frameworks.torch.hpu.metrics": "metric_global metric_localcontext metrics_dump MetricNotFound",
    "habana_frameworks.torch.hpex.optimizers": "FusedAdamW FusedSGD FusedLamb FusedLars FusedAdagrad FusedResourceApplyMomentum Adam AdamW",
    "habana_frameworks.torch.hpex.normalization": "FusedClipNorm FusedRMSNorm",
    "habana_frameworks.torch.hpex.movingavrg": "FusedEMA",
    "habana_frameworks.torch.hpex.kernels": "FusedSDPA CustomSoftmax RotaryPosEmbeddingHelperV1 RotaryPosEmbeddingHelperV2 RotaryPosEmbeddingHelperV3 RotaryPosEmbeddingMode "
                                            "apply_rotary_pos_emb",
    "habana_frameworks.torch.hpex.hmp": "convert disable_casts",
    "habana_frameworks.torch.hpex.experimental.transformer_engine": "Linear fp8_autocast recipe",
    "habana_frameworks.torch.utils.library_loader": "is_habana_available is_habana_avaialble load_habana_module",
    "habana_frameworks.torch.utils.experimental": "_get_device_type synDeviceType _is_fp16_supported _compute_stream _data_ptr _set_scale_attributes",
    "habana_frameworks.torch.utils.internal": "is_lazy lazy_only",
    "habana_frameworks.torch.utils.debug": "_get_fallback_op_count",
    "habana_frameworks.torch.internal.bridge_config": "get_pt_hpu_lazy_mode get_pt_hpu_gpu_migration",
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_there(module):
    found = importlib.import_module(module)
    missing = [name for name in NAMES[module].split() if not hasattr(found, name)]
    assert not missing


def test_answers(mode):
    import habana_frameworks.torch as htorch
    import habana_frameworks.torch.utils.experimental as htexp
    from habana_frameworks.torch.internal import bridge_config
    from habana_frameworks.torch.utils.internal import is_lazy, lazy_only
    assert torch.hpu.get_device_name() == "GAUDI2" and torch.hpu.get_device_properties().name.startswith("HL-") and torch.hpu.get_arch_list() == ["gaudi2"]
    assert htexp._get_device_type() == htexp.synDeviceType.synDeviceGaudi2 == 4 and htexp._is_fp16_supported()
    assert is_lazy() == (mode == "lazy") == bridge_config.get_pt_hpu_lazy_mode() == htorch.core.is_lazy() and not bridge_config.get_pt_hpu_gpu_migration()
    assert lazy_only(lambda: 5)() == (5 if mode == "lazy" else None)
    assert htorch.hpu.memory_stats()["Limit"] == torch.hpu.get_device_properties().total_memory and torch.hpu.memory_cached() == torch.hpu.memory_reserved()
    assert htorch.hpu.random.default_generators[1] is not None and len(torch.hpu.default_generators) == torch.hpu.device_count()
    net = nn.Linear(2, 2)
    with pytest.raises(ValueError, match="weight, bias"):
        htorch.core.quantization._check_params_as_const(net)
    htorch.core.quantization._mark_params_as_const(net)
    htorch.core.quantization._check_params_as_const(net)
    import os
    htorch.core.hpu_inference_set_env()
    assert os.environ["PT_HPU_INFERENCE_MODE"] == "1" and torch.hpu.is_inference_mode()
    assert not htorch.core.hpu_inference_initialize(net).training and htorch.core.hpu_initialize(net) is net
    htorch.core.hpu_teardown_inference_env()
    assert "PT_HPU_INFERENCE_MODE" not in os.environ and not torch.hpu.is_inference_mode()
    torch.manual_seed(5)
    with htorch.hpu.random.fork_rng():
        first = torch.rand(3, device="hpu").cpu(), torch.rand(3)
    assert torch.equal(torch.rand(3, device="hpu").cpu(), first[0]) and torch.equal(torch.rand(3), first[1])


def test_closures_run_behind_a_step():
    import habana_frameworks.torch.core as htcore
    seen, x = [], torch.ones(2, device="hpu")
    y = x * 3
    htcore.add_step_closure(lambda value, name: seen.append((name, value.sum().item())), args=(y, "loss"))
    assert not seen
    htcore.mark_step()
    assert seen == [("loss", 6.)]
    htcore.iter_mark_step()
    assert len(seen) == 1
    with pytest.raises(TypeError, match="takes a function, not int"):
        htcore.add_step_closure(3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head, self.unused = nn.Linear(6, 8), nn.Linear(8, 3), nn.Linear(2, 2)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def trained(make, device, steps=8):
    """Parameters after some steps."""
    torch.manual_seed(0)
    net = Net()
    x, target = torch.randn(12, 6), torch.randint(0, 3, (12,))
    net.to(device)
    optimiser = make([{"params": net.body.parameters()}, {"params": list(net.head.parameters()) + list(net.unused.parameters()), "lr": .02}])
    for _ in range(steps):
        optimiser.zero_grad()
        F.cross_entropy(net(x.to(device)), target.to(device)).backward()
        optimiser.step()
        hpu_torch.core.mark_step()
    return [p.detach().cpu() for p in net.parameters()]


class ReferenceLamb(torch.optim.Optimizer):
    """Straight from the paper, with the gradients' norm bounded first; in float64."""

    def __init__(self, params, lr, decay):
        super().__init__(params, dict(lr=lr, decay=decay))
        self.t = 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        every = [p.grad.double() for group in self.param_groups for p in group["params"] if p.grad is not None]
        clip = max(1., math.sqrt(sum(g.square().sum().item() for g in every)) / .1)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                g, state = p.grad.double() / clip, self.state[p]
                state["m"] = .9 * state.get("m", 0) + .1 * g
                state["v"] = .999 * state.get("v", 0) + .001 * g * g
                u = state["m"] / (1 - .9 ** self.t) / ((state["v"] / (1 - .999 ** self.t)).sqrt() + 1e-6) + group["decay"] * p.double()
                p.sub_((group["lr"] * p.double().norm() / u.norm() * u).float())


class ReferenceLars(torch.optim.SGD):
    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.add_(p, alpha=.1).mul_(.01 * p.norm() / ((p.grad - .1 * p).norm() + .1 * p.norm() + 1e-8))
        super().step()


def lars(params):
    from habana_frameworks.torch.hpex.optimizers import FusedLars
    return FusedLars(torch.optim.SGD(params, lr=.5, weight_decay=.1), skip_mask=[1] * 4, eeta=.01)


def fused(name, **options):
    return lambda params: getattr(importlib.import_module("habana_frameworks.torch.hpex.optimizers"), name)(params, **options)


OPTIMISERS = {
    "FusedAdamW": (fused("FusedAdamW", lr=.01, eps=1e-6, weight_decay=.1), lambda p: torch.optim.AdamW(p, lr=.01, eps=1e-6, weight_decay=.1)),
    "FusedAdamW no decay": (fused("FusedAdamW", lr=.01, betas=(.8, .99)), lambda p: torch.optim.AdamW(p, lr=.01, eps=1e-6, betas=(.8, .99), weight_decay=0)),
    "FusedSGD": (fused("FusedSGD", lr=.1, momentum=.9, weight_decay=.01, nesterov=True), lambda p: torch.optim.SGD(p, lr=.1, momentum=.9, weight_decay=.01, nesterov=True)),
    "FusedSGD plain": (fused("FusedSGD", lr=.1), lambda p: torch.optim.SGD(p, lr=.1)),
    "FusedAdagrad": (fused("FusedAdagrad", lr=.05, lr_decay=.1, initial_accumulator_value=.1), lambda p: torch.optim.Adagrad(p, lr=.05, lr_decay=.1, initial_accumulator_value=.1)),
    "FusedResourceApplyMomentum": (fused("FusedResourceApplyMomentum", lr=.05, momentum=.8), lambda p: torch.optim.SGD(p, lr=.05, momentum=.8)),
    "FusedLamb": (fused("FusedLamb", lr=.05, weight_decay=.01, max_grad_norm=.1), lambda p: ReferenceLamb(p, .05, .01)),
    "FusedLars": (lars, lambda p: ReferenceLars(p, lr=.5)),
    "AdamW": (fused("AdamW", lr=.01), lambda p: torch.optim.AdamW(p, lr=.01)),
}


@pytest.mark.long_in("eager")
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_follow_pytorchs(name):
    ours, theirs = OPTIMISERS[name]
    for here, there in zip(trained(ours, "hpu"), trained(theirs, "cpu")):
        torch.testing.assert_close(here, there, rtol=2e-4, atol=2e-5)


def test_optimisers_keep_their_state(mode):
    if mode == "eager":
        return
    from habana_frameworks.torch.hpex.optimizers import FusedAdamW
    hpu_torch.metrics.reset()
    torch.manual_seed(0)
    net = Net().to("hpu")
    optimiser = FusedAdamW(net.parameters(), lr=.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, .9)
    x = torch.randn(4, 6, device="hpu")
    for step in range(6):
        optimiser.zero_grad()
        net(x).square().sum().backward()
        optimiser.step()
        schedule.step()
        hpu_torch.core.mark_step()
    assert hpu_torch.metrics.counts()["compiles"] <= 3  # Rates and corrections are numbers of a run.
    state = copy.deepcopy(optimiser.state_dict())
    again = FusedAdamW(net.parameters(), lr=.5)
    again.load_state_dict(state)
    assert again.param_groups[0]["lr"] == optimiser.param_groups[0]["lr"] and again.state[net.head.weight]["step"] == 6
    for bad in (dict(lr=-1.), dict(betas=(1., .9))):
        with pytest.raises(ValueError):
            FusedAdamW(net.parameters(), **bad)


def test_norms_and_averages():
    from habana_frameworks.torch.hpex.movingavrg import FusedEMA
    from habana_frameworks.torch.hpex.normalization import FusedClipNorm, FusedRMSNorm
    torch.manual_seed(2)
    for kind, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2)):
        x, gamma = torch.randn(3, 5, 8).to(kind), torch.randn(8).to(kind)
        here = [x.to("hpu").requires_grad_(), gamma.to("hpu").requires_grad_()]
        there = [x.double().requires_grad_(), gamma.double().requires_grad_()]
        y = FusedRMSNorm.apply(*here, 1e-5, True, 0)
        expected = there[0] / (there[0].square().mean(-1, keepdim=True) + 1e-5).sqrt() * there[1]
        assert y.dtype == kind
        y.float().square().sum().backward(), expected.square().sum().backward()
        for a, b in ((y, expected), (here[0].grad, there[0].grad), (here[1].grad, there[1].grad)):
            torch.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=tolerance, atol=tolerance * 4)
    for bound in (.5, 1e6):
        nets = [Net(), Net().to("hpu")]
        nets[1].load_state_dict(nets[0].state_dict())
        x = torch.randn(4, 6)
        for net, here in zip(nets, (x, x.to("hpu"))):
            net(here).square().sum().backward()
        expected = nn.utils.clip_grad_norm_(nets[0].parameters(), bound)
        norm = FusedClipNorm(nets[1].parameters(), bound).clip_norm(nets[1].parameters())
        torch.testing.assert_close(norm.cpu(), expected)
        torch.testing.assert_close(nets[1].body.weight.grad.cpu(), nets[0].body.weight.grad)
        assert nets[1].unused.weight.grad is None and FusedClipNorm([], 1.).clip_norm([]).item() == 0
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)).to("hpu")
    average, expected = FusedEMA(net, decay=.9), net[0].weight.detach().cpu().clone()
    for step in range(1, 4):
        with torch.no_grad():
            net[0].weight.add_(1.)
        net(torch.randn(4, 2, device="hpu"))
        average.update(net)
        d = .9 * (1 - math.exp(-step / 2000))
        expected = expected * d + net[0].weight.detach().cpu() * (1 - d)
        torch.testing.assert_close(average.ema[0].weight.cpu(), expected)
    assert average.ema[1].num_batches_tracked.item() == 3 and not average.ema.training


def reference_attention(q, k, v, hidden=None, bias=None, scale=None):
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if bias is None else scores + bias
    return (scores if hidden is None else scores.masked_fill(hidden, -math.inf)).softmax(-1) @ v


def test_attention():
    from habana_frameworks.torch.hpex.kernels import FusedSDPA
    torch.manual_seed(1)
    q, k, v = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8), torch.randn(2, 2, 7, 8)
    mask, bias, lengths = torch.rand(2, 1, 5, 7) > .4, torch.randn(5, 7), torch.tensor([7, 3])
    mask[..., 0] = True
    at = torch.arange(7)
    cases = [((), {}, {}), ((None, 0., True), {}, dict(hidden=~torch.ones(5, 7).bool().tril())), ((mask, 0., False), {}, dict(hidden=~mask)),
             ((bias, 0., False, .3, "fast", True), {}, dict(bias=bias, scale=.3)),
             ((None, 0., False, None, "None", None, lengths, "right"), {}, dict(hidden=(at >= lengths[:, None])[:, None, None])),
             ((None, 0., False, None, "None", None, lengths), {}, dict(hidden=(at < 7 - lengths[:, None])[:, None, None]))]
    for args, options, expected in cases:
        here, there = [t.to("hpu").requires_grad_() for t in (q, k, v)], [t.double().requires_grad_() for t in (q, k, v)]
        y = FusedSDPA.apply(*here, *[a.to("hpu") if isinstance(a, torch.Tensor) else a for a in args], **options)
        e = reference_attention(*there, **expected)
        y.square().sum().backward(), e.square().sum().backward()
        for a, b in [(y, e)] + [(a.grad, b.grad) for a, b in zip(here, there)]:
            torch.testing.assert_close(a.detach().cpu().double(), b.detach(), rtol=1e-4, atol=1e-4)
    low = FusedSDPA.apply(*[t.to("hpu").bfloat16() for t in (q, k, v)])
    assert low.dtype == torch.bfloat16
    nothing = FusedSDPA.apply(q.to("hpu"), k.to("hpu"), v.to("hpu"), torch.zeros(5, 7, dtype=torch.bool, device="hpu"))
    assert nothing.isfinite().all()
    torch.manual_seed(4)
    dropped = FusedSDPA.apply(q.to("hpu"), k.to("hpu"), v.to("hpu"), None, .5)
    torch.manual_seed(4)
    weights = F.dropout(torch.softmax(q @ k.repeat_interleave(2, 1).transpose(-1, -2) / math.sqrt(8), -1), .5)
    torch.testing.assert_close(dropped.cpu(), weights @ v.repeat_interleave(2, 1), rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="4 heads of queries are no multiple of 3"):
        FusedSDPA.apply(q.to("hpu"), torch.ones(2, 3, 7, 8, device="hpu"), torch.ones(2, 3, 7, 8, device="hpu"))
    with pytest.raises(ValueError, match="exclude each other"):
        FusedSDPA.apply(q.to("hpu"), k.to("hpu"), v.to("hpu"), mask.to("hpu"), 0., True)


def test_rotary_embeddings_and_softmax():
    from habana_frameworks.torch.hpex import kernels
    torch.manual_seed(1)
    p, positions = torch.randn(2, 3, 5, 8), torch.tensor([[4, 3, 2, 1, 0], [6, 6, 6, 6, 6]])
    angles = torch.rand(7, 4, dtype=torch.float64) * 6

    def turned(a, b, angle):
        z = torch.complex(a.double(), b.double()) * torch.polar(torch.ones_like(angle), angle)
        return z.real, z.imag

    cos, sin = torch.cat([angles, angles], 1).cos().float(), torch.cat([angles, angles], 1).sin().float()
    first, second = turned(p[..., :4], p[..., 4:], angles[positions][:, None])
    for table in (lambda t: t, lambda t: t[None, None]):
        y = kernels.RotaryPosEmbeddingHelperV2.apply(p.to("hpu"), table(cos).to("hpu"), table(sin).to("hpu"), positions.to("hpu"))
        torch.testing.assert_close(y.cpu().double(), torch.cat([first, second], -1), rtol=1e-5, atol=1e-5)
    y = kernels.RotaryPosEmbeddingHelperV1.apply(p.to("hpu"), cos[:5].to("hpu"), sin[:5].to("hpu"), 0)
    first, second = turned(p[..., :4], p[..., 4:], angles[:5])
    torch.testing.assert_close(y.cpu().double(), torch.cat([first, second], -1), rtol=1e-5, atol=1e-5)
    doubled = angles.repeat_interleave(2, -1)[:5]
    y = kernels.apply_rotary_pos_emb(p.to("hpu"), doubled.cos().float().to("hpu"), doubled.sin().float().to("hpu"), None, 0, kernels.RotaryPosEmbeddingMode.PAIRWISE)
    even, odd = turned(p[..., ::2], p[..., 1::2], angles[:5])
    torch.testing.assert_close(y.cpu().double(), torch.stack([even, odd], -1).flatten(-2), rtol=1e-5, atol=1e-5)
    cache = torch.stack([angles[:, :2].cos(), angles[:, :2].sin()], -1).float()
    q = torch.randn(5, 2, 3, 8)
    y = kernels.RotaryPosEmbeddingHelperV3.apply(q.to("hpu"), cache.to("hpu"))
    even, odd = turned(q[..., :4:2], q[..., 1:4:2], angles[:5, None, None, :2].expand(5, 2, 3, 2))
    torch.testing.assert_close(y.cpu().double(), torch.cat([torch.stack([even, odd], -1).flatten(-2), q[..., 4:].double()], -1), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(kernels.CustomSoftmax.apply(p.to("hpu"), 1).cpu(), p.softmax(-1))


def test_metrics(tmp_path, mode):
    from habana_frameworks.torch.hpu.metrics import MetricNotFound, metric_global, metric_localcontext, metrics_dump
    whole = metric_global("graph_compilation")
    x = torch.ones(3, 17 if mode == "lazy" else 19, device="hpu")  # Sizes that nobody had.
    hpu_torch.core.mark_step()
    with metric_localcontext("graph_compilation") as compiled, metric_localcontext("recipe_cache") as cache, metric_localcontext("cpu_fallback") as placed:
        for _ in range(3):
            torch.tanh(x).exp().sqrt().sum().item()
        fallback.allow("all")
        torch.special.bessel_j0(x)
        hpu_torch.core.mark_step()
        torch.hpu.synchronize()
    stats = compiled.stats()
    assert stats[0][0] == "TotalNumber" and [name for name, _ in stats] == ["TotalNumber", "TotalTime", "AvgTime"]
    number, total, average = [value for _, value in stats]
    assert number >= 1 and total > 0 and average == pytest.approx(total / number)
    assert dict(cache.stats())["TotalHit"] >= 2 and dict(cache.stats())["TotalMiss"] == number
    assert dict(placed.stats()) == {"TotalNumber": 1, "FallbackOps": {"aten::special_bessel_j0.out": 1}}
    hpu_torch.metrics.reset()
    assert compiled.stats() == stats  # It has stopped.
    with metric_localcontext("graph_compilation") as nothing:
        torch.tanh(x).exp().sqrt().sum().item()
    assert nothing.stats()[0][1] == 0
    assert dict(whole.stats())["TotalNumber"] >= 0
    whole.reset()
    assert whole.stats()[0][1] == 0 and dict(metric_global("memory_defragmentation").stats())["TotalNumber"] >= 0
    metrics_dump(str(tmp_path / "metrics.json"))
    lines = [json.loads(line) for line in (tmp_path / "metrics.json").read_text().splitlines()]
    assert {line["metric_name"] for line in lines} == {"graph_compilation", "cpu_fallback", "recipe_cache", "memory_defragmentation"}
    for get in (metric_global, lambda name: metric_localcontext(name).__enter__()):
        with pytest.raises(MetricNotFound, match="no metric 'nosuch'; there are cpu_fallback"):
            get("nosuch")


def test_metrics_are_written_at_the_end(run_python, tmp_path, mode):
    if mode == "lazy":
        return
    run_python("import torch, hpu_torch; (torch.ones(3, device='hpu') * 2).cpu()", PT_HPU_METRICS_FILE=tmp_path / "m.json")
    entries = {e["metric_name"]: e for e in map(json.loads, (tmp_path / "m.json").read_text().splitlines())}
    assert entries["graph_compilation"]["statistics"]["TotalNumber"] >= 1 and entries["graph_compilation"]["triggered_by"] == "process_exit"


class Trainer:
    """Ours, with the steps that Lightning's accelerator, strategy and precision plugin for HPUs take."""

    def __init__(self, precision="32", epochs=2):
        from habana_frameworks.torch.utils.library_loader import is_habana_available
        assert is_habana_available() and importlib.util.find_spec("habana_frameworks") is not None
        import habana_frameworks.torch.core as htcore
        import habana_frameworks.torch.hpu as torch_hpu
        self.htcore, self.torch_hpu, self.precision, self.epochs = htcore, torch_hpu, precision, epochs
        assert torch_hpu.is_available() and torch_hpu.device_count() == 8 and torch_hpu.get_device_name()

    def context(self):
        if self.precision == "bf16-mixed":
            return torch.autocast(device_type="hpu", dtype=torch.bfloat16, enabled=True)
        if self.precision == "fp8":
            from habana_frameworks.torch.hpex.experimental.transformer_engine import fp8_autocast, recipe
            return fp8_autocast(enabled=True, fp8_recipe=recipe.DelayedScaling(fp8_format=recipe.Format.HYBRID))
        return torch.autocast("hpu", enabled=False)

    def fit(self, model, loader, path):
        self.htcore.hpu_initialize(model)
        self.torch_hpu.reset_peak_memory_stats()
        device = torch.device("hpu", self.torch_hpu.current_device())
        model.to(device)
        optimiser = torch.optim.AdamW(model.parameters(), lr=.02)
        losses, stats = [], []
        for epoch in range(self.epochs):
            total = torch.zeros((), device=device)
            for x, target in loader:
                with self.context():
                    loss = F.cross_entropy(model(x.to(device, non_blocking=True)).float(), target.to(device))
                optimiser.zero_grad()
                loss.backward()
                self.htcore.mark_step()  # Lightning: behind the backward, and behind the step.
                nn.utils.clip_grad_norm_(model.parameters(), 1.)
                optimiser.step()
                self.htcore.mark_step()
                total += loss.detach()
                stats.append(self.torch_hpu.memory_stats(device))
            losses.append(total.item() / len(loader))
        torch.save({"state_dict": model.state_dict(), "optimizer": optimiser.state_dict(), "rng": torch.hpu.random.get_rng_state_all()}, path)
        return losses, stats


@pytest.mark.long_in("eager")
@pytest.mark.parametrize("precision", ["32", "bf16-mixed", "fp8"])
def test_a_trainer_trains(precision, tmp_path):
    from habana_frameworks.torch.hpex.experimental import transformer_engine as te
    torch.manual_seed(0)
    x = torch.randn(96, 8)
    target = (x[:, 0] * x[:, 1] > 0).long()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, target), batch_size=16, pin_memory=True, pin_memory_device="hpu")
    Linear = (lambda *a: te.Linear(*a, device="cpu")) if precision == "fp8" else nn.Linear
    model = nn.Sequential(Linear(8, 32), nn.GELU(), Linear(32, 2))
    losses, stats = Trainer(precision, epochs=12).fit(model, loader, tmp_path / "last.ckpt")
    assert losses[-1] < .65 * losses[0]
    assert {"Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize", "TotalSystemAllocs", "TotalSystemFrees", "TotalActiveAllocs"} <= set(stats[0])
    assert stats[-1]["MaxInUse"] >= stats[-1]["InUse"] > 0
    saved = torch.load(tmp_path / "last.ckpt", map_location="cpu")
    again = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 2))
    again.load_state_dict(saved["state_dict"])
    assert (again(x).argmax(1) == target).float().mean() > .85 and len(saved["rng"]) == 8
