# SPDX-License-Identifier: Apache-2.0
"""Training on hpu follows the CPU's losses."""
import pytest
import torch
from torch import nn

LABELS = torch.Generator().manual_seed(7)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 32)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True), 2)
        self.head = nn.Linear(32, 50)

    def forward(self, x):
        return self.head(self.body(self.embedding(x))).transpose(1, 2)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True, dropout=.2)
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(self.body(x)[0][:, -1])


def randn(*shape):
    return torch.randn(*shape, generator=LABELS)


def randint(high, *shape):
    return torch.randint(0, high, shape, generator=LABELS)


SGD = lambda p: torch.optim.SGD(p, lr=.05, momentum=.9)  # noqa: E731
RUNS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Dropout(.3), nn.Linear(64, 5)), randn(16, 20), randint(5, 16), SGD, 20),
    "mlp foreach": (lambda: nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.Linear(64, 5)), randn(16, 20), randint(5, 16),
                    lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=True), 20),
    "encoder": (Encoder, randint(50, 4, 10), randint(50, 4, 10), lambda p: torch.optim.Adam(p, lr=1e-3), 6),
    "lstm": (Recurrent, randn(4, 6, 8), randint(3, 4), SGD, 6),
    "lstm of sequences": (lambda: Packed(), randn(4, 6, 8), randint(3, 4), SGD, 3),
}


class Packed(Recurrent):
    def forward(self, x):
        lengths = torch.tensor([6, 5, 3, 1])
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        result, _ = nn.utils.rnn.pad_packed_sequence(self.body(packed)[0], batch_first=True)
        return self.head(result.sum(1))


# Lazy and compiled mode are test_models's, which has most of these.
@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.long] if name in ("encoder", "lstm") else []) for name in RUNS])
def test_losses_follow_the_cpus(name):
    make, x, target, optimiser, steps = RUNS[name]
    losses, nets = {}, {}
    for device in ("cpu", "hpu"):
        torch.manual_seed(0)
        net = make().to(device)
        optimise = optimiser(net.parameters())
        torch.manual_seed(1)
        losses[device] = []
        for _ in range(steps):
            optimise.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(net(x.to(device)), target.to(device))
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.)
            optimise.step()
            losses[device].append(loss.item())
        nets[device] = net
    assert losses["hpu"] == pytest.approx(losses["cpu"], rel=2e-5)
    assert losses["hpu"][0] != losses["hpu"][-1]
    if optimiser is not SGD:
        return  # Others divide by what is nearly nothing.
    for here, there in zip(nets["cpu"].state_dict().values(), nets["hpu"].state_dict().values()):
        assert torch.allclose(here.float(), there.cpu().float(), rtol=1e-3, atol=1e-5)


def test_gradients_gather_over_several_backwards():
    net = nn.Linear(3, 2).to("hpu")
    x = torch.randn(4, 3, device="hpu")
    for _ in range(3):
        net(x).sum().backward()
    assert torch.allclose(net.weight.grad.cpu(), 3 * x.sum(0).cpu().expand(2, 3), atol=1e-5)


def test_backward_over_several_devices():
    first, second = nn.Linear(3, 4).to("hpu:0"), nn.Linear(4, 2).to("hpu:1")
    x = torch.randn(5, 3)
    second(first(x.to("hpu:0")).relu().to("hpu:1")).sum().backward()
    gradient = first.weight.grad.cpu()
    first.cpu(), second.cpu()
    first.weight.grad = None
    second(first(x).relu()).sum().backward()
    assert first.weight.grad.shape == (4, 3) and torch.allclose(first.weight.grad, gradient, atol=1e-5)
