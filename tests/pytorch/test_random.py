# SPDX-License-Identifier: Apache-2.0
"""Random numbers: those of the CPU with the same seed, for each device."""
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential


@pytest.mark.parametrize("draw", [
    lambda d, g: torch.rand(5, device=d, generator=g), lambda d, g: torch.randn(5, device=d, generator=g),
    lambda d, g: torch.randint(0, 100, (50,), device=d, generator=g), lambda d, g: torch.randperm(20, device=d, generator=g),
    lambda d, g: torch.empty(30, device=d).uniform_(2, 3, generator=g), lambda d, g: torch.empty(30, device=d).exponential_(generator=g),
    lambda d, g: torch.empty(3, 4, device=d).bernoulli_(.3, generator=g), lambda d, g: torch.empty(3, 40, device=d).normal_(generator=g),
    lambda d, g: torch.multinomial(torch.ones(9, device=d), 4, generator=g), lambda d, g: torch.bernoulli(torch.full((9,), .5, device=d), generator=g),
    lambda d, g: torch.empty(9, device=d, dtype=torch.bfloat16).normal_(generator=g)])
def test_numbers_are_the_cpus_and_reproducible(draw):
    hpu, cpu = torch.Generator(device="hpu"), torch.Generator()
    assert hpu.device == torch.device("hpu", 0) and isinstance(hpu, torch.Generator) and isinstance(cpu, torch.Generator)
    hpu.manual_seed(17), cpu.manual_seed(17)
    first, second, expected = draw("hpu", hpu), draw("hpu", hpu), draw("cpu", cpu)
    assert torch.equal(first.cpu(), expected) and not torch.equal(first.cpu(), second.cpu())
    hpu.manual_seed(17)
    assert torch.equal(draw("hpu", hpu).cpu(), expected)
    torch.manual_seed(17)
    assert torch.equal(draw("hpu", None).cpu(), expected), "without one, the device's own, which manual_seed seeds"


def test_states():
    generator = torch.Generator("hpu:1")
    assert generator.device.index == 1 and generator.initial_seed() == torch.Generator().initial_seed()
    generator.manual_seed(2**63 + 5)
    assert generator.initial_seed() == 2**63 + 5
    state = generator.get_state()
    assert state.device.type == "cpu"
    first = torch.rand(4, device="hpu:1", generator=generator).cpu()
    generator.set_state(state)
    assert torch.equal(torch.rand(4, device="hpu:1", generator=generator).cpu(), first)
    assert isinstance(generator.seed(), int)
    states = torch.hpu.get_rng_state_all()
    here = torch.rand(3, device="hpu").cpu()
    torch.hpu.set_rng_state_all(states)
    assert len(states) == 8 and torch.equal(torch.rand(3, device="hpu").cpu(), here)
    torch.hpu.manual_seed(5)
    assert torch.hpu.initial_seed() == 5 and torch.hpu.default_generators[0].initial_seed() == 5
    assert torch.hpu.default_generator(1).initial_seed() == 1234
    torch.manual_seed(-1)
    assert torch.initial_seed() == torch.hpu.initial_seed() == 2**64 - 1
    torch.seed()
    assert torch.initial_seed() == torch.hpu.initial_seed()


def test_generators_of_other_devices_are_refused():
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(3, device="hpu", generator=torch.Generator())
    with pytest.raises(RuntimeError):
        torch.rand(3, generator=torch.Generator("hpu"))
    with pytest.raises(RuntimeError):
        torch.Generator("hpu:9")


def test_dropout_is_the_cpus():
    net = nn.Dropout(.4)
    torch.manual_seed(1)
    expected = net(torch.ones(50))
    torch.manual_seed(1)
    assert torch.equal(net(torch.ones(50, device="hpu")).cpu(), expected)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant):
    net = nn.Sequential(nn.Linear(6, 30), nn.Dropout(.5), nn.Linear(30, 30), nn.Dropout(.5)).to("hpu")
    x = torch.randn(4, 6, device="hpu", requires_grad=True)
    gradients, after = [], []
    for wrap in (lambda: net(x), lambda: checkpoint(net, x, use_reentrant=reentrant), lambda: checkpoint_sequential(net, 2, x)):
        x.grad = None
        torch.manual_seed(8)
        y = wrap()
        torch.rand(3, device="hpu")
        y.square().sum().backward()
        gradients.append(x.grad.cpu())
        after.append(torch.rand(3, device="hpu").cpu())
    assert torch.equal(gradients[0], gradients[1]) and torch.equal(gradients[0], gradients[2])
    assert torch.equal(after[0], after[1]), "the generator goes on where it was"


@pytest.mark.parametrize("draw", [
    lambda d, g: torch.normal(torch.zeros(40, device=d), torch.ones(40, device=d), generator=g), lambda d, g: torch.normal(0., 2., (40,), device=d, generator=g),
    lambda d, g: torch.empty(40, device=d).log_normal_(generator=g), lambda d, g: torch.empty(40, device=d).cauchy_(generator=g),
    lambda d, g: torch.empty(40, device=d).geometric_(.2, generator=g), lambda d, g: torch.empty(40, device=d).random_(5, 90, generator=g),
    lambda d, g: torch.poisson(torch.full((40,), 3., device=d), generator=g), lambda d, g: torch.multinomial(torch.ones(9, device=d), 40, True, generator=g),
    lambda d, g: torch.zeros(40, device=d, dtype=torch.int64).random_(generator=g), lambda d, g: torch.rand(40, device=d, generator=g, dtype=torch.bfloat16)])
@pytest.mark.parametrize("lazy", [False, True])
def test_more_draws_from_a_generator(draw, lazy):
    torch.hpu.set_lazy(lazy)
    try:
        hpu, cpu = torch.Generator("hpu").manual_seed(3), torch.Generator().manual_seed(3)
        others = torch.get_rng_state(), torch.hpu.get_rng_state()
        for _ in range(2):
            assert torch.equal(draw("hpu", hpu).cpu(), draw("cpu", cpu))
        assert torch.equal(torch.get_rng_state(), others[0]) and torch.equal(torch.hpu.get_rng_state(), others[1]), "no other generator is drawn from"
        for device, wrong in (("hpu", cpu), ("cpu", hpu)):
            with pytest.raises(RuntimeError, match="generator"):
                draw(device, wrong)
    finally:
        torch.hpu.set_lazy(False)


def test_fork_rng_and_states():
    def drawn():
        return torch.rand(2).tolist(), nn.functional.dropout(torch.ones(30, device="hpu")).tolist(), torch.rand(2, device="hpu:1").tolist()

    torch.manual_seed(6)
    expected = drawn()
    torch.manual_seed(6)
    with torch.random.fork_rng():
        assert drawn() == expected
    with torch.random.fork_rng(devices=[0, "hpu:1"]):
        torch.manual_seed(99)
        assert drawn() != expected
    state, states = torch.get_rng_state(), torch.hpu.get_rng_state_all()
    with pytest.raises(ZeroDivisionError), torch.random.fork_rng():
        1 / len(drawn()[0][2:])
    assert drawn() == expected
    torch.set_rng_state(state)
    torch.hpu.set_rng_state_all(states)
    with torch.random.fork_rng(devices=["hpu:1"]):
        assert drawn() == expected
    torch.set_rng_state(state)
    assert drawn()[0] == expected[0] and drawn()[1] != expected[1], "device 0 was not forked"
    torch.hpu.set_rng_state(states[0])
    with torch.random.fork_rng(enabled=False):
        assert drawn()[1] == expected[1]
    assert drawn()[1] != expected[1]


def test_one_draw_of_each_row():
    from hpu_torch import fallback
    probabilities = torch.tensor([[.1, 0., .6, .3], [0., 0., 0., 2.]])
    with fallback.only("none"):
        wide = probabilities.to("hpu").repeat_interleave(2000, 0)
        for drawn in (torch.multinomial(wide, 1, True), torch.distributions.Categorical(wide).sample()[:, None]):
            assert drawn.shape == (4000, 1) and drawn.dtype == torch.int64
            parts = torch.stack([torch.bincount(part, minlength=4) for part in drawn[:, 0].cpu().split(2000)]) / 2000
            torch.testing.assert_close(parts, probabilities / probabilities.sum(1, True), rtol=0, atol=.04)
            assert (parts[probabilities == 0] == 0).all()
