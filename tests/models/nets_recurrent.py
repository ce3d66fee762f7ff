# SPDX-License-Identifier: Apache-2.0
"""Networks over time: recurrent taggers, speech, causal convolutions, a state space; all of them narrow."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.onnx import symbolic_helper

WORDS, TAGS = 500, 17


class LstmTagger(nn.Module):
    """Words to tags through two bidirectional LSTM layers."""

    def __init__(self, width=48, hidden=40):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.lstm = nn.LSTM(width, hidden, num_layers=2, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, TAGS)

    def forward(self, words):
        return self.tags(self.lstm(self.words(words))[0])


class GruTagger(nn.Module):
    """Padded sentences of given lengths through a bidirectional GRU; gives its last states, too."""

    def __init__(self, width=40, hidden=48):
        super().__init__()
        self.words = nn.Embedding(WORDS, width)
        self.gru = nn.GRU(width, hidden, bidirectional=True, batch_first=True)
        self.tags = nn.Linear(2 * hidden, TAGS)

    def forward(self, words, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(self.words(words), lengths, batch_first=True)
        states, last = self.gru(packed)
        return self.tags(nn.utils.rnn.pad_packed_sequence(states, batch_first=True)[0]), last


class Translator(nn.Module):
    """A GRU encoder, and an LSTM decoder over given words with attention to what the encoder gave (Luong)."""

    def __init__(self, width=40, hidden=48):
        super().__init__()
        self.source, self.target = nn.Embedding(WORDS, width), nn.Embedding(WORDS, width)
        self.encoder = nn.GRU(width, hidden // 2, bidirectional=True)
        self.decoder = nn.LSTM(width, hidden)
        self.score = nn.Linear(hidden, hidden, bias=False)
        self.mix, self.words = nn.Linear(2 * hidden, hidden), nn.Linear(hidden, WORDS)

    def forward(self, source, target):
        memory, last = self.encoder(self.source(source).transpose(0, 1))
        start = torch.cat((last[0], last[1]), -1)[None]
        states, _ = self.decoder(self.target(target).transpose(0, 1), (start, torch.tanh(start)))
        memory, states = memory.transpose(0, 1), states.transpose(0, 1)
        weights = torch.softmax(self.score(states) @ memory.transpose(1, 2), -1)
        return self.words(torch.tanh(self.mix(torch.cat((weights @ memory, states), -1))))


def mel_filters(bins, bands, rate=16000):
    """Triangles between equal steps of the mel scale: bins x bands."""
    mel = torch.linspace(0, 2595 * math.log10(1 + rate / 2 / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1) * (bins - 1) / (rate / 2)
    rising = (torch.arange(bins)[:, None] - edges[None, :-2]) / (edges[1:-1] - edges[:-2])
    falling = (edges[None, 2:] - torch.arange(bins)[:, None]) / (edges[2:] - edges[1:-1])
    return torch.minimum(rising, falling).clamp(min=0)


class SpeechFrontEnd(nn.Module):
    """Samples to log-mel features by an STFT, then two convolutions and a GRU over frames."""

    def __init__(self, window=256, bands=40, hidden=48, classes=12):
        super().__init__()
        self.size = window
        self.register_buffer("window", torch.hann_window(window))
        self.register_buffer("filters", mel_filters(window // 2 + 1, bands))
        self.convolutions = nn.Sequential(nn.Conv1d(bands, hidden, 3, padding=1), nn.ReLU(),
                                          nn.Conv1d(hidden, hidden, 3, stride=2, padding=1), nn.ReLU())
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.classes = nn.Linear(hidden, classes)

    def forward(self, samples):
        spectrum = torch.stft(samples, self.size, self.size // 2, window=self.window, center=False,
                              onesided=True, return_complex=False)
        power = spectrum.pow(2).sum(-1).transpose(1, 2)
        features = torch.log(power @ self.filters + 1e-3)
        states, _ = self.gru(self.convolutions(features.transpose(1, 2)).transpose(1, 2))
        return self.classes(states[:, -1]), features


class Ctc(nn.Module):
    """Convolutions over features and two LSTM layers; log-probabilities of symbols, and the best path."""

    def __init__(self, features=40, hidden=48, symbols=29):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv1d(features, hidden, 11, stride=2, padding=5, bias=False),
                                  nn.BatchNorm1d(hidden), nn.Hardtanh(0, 20),
                                  nn.Conv1d(hidden, hidden, 11, padding=5, bias=False),
                                  nn.BatchNorm1d(hidden), nn.Hardtanh(0, 20))
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2)
        self.symbols = nn.Linear(hidden, symbols)

    def forward(self, features):
        states, _ = self.lstm(self.stem(features).permute(2, 0, 1))
        scores = torch.log_softmax(self.symbols(states), -1)
        return scores, scores.argmax(-1)


class Tcn(nn.Module):
    """Dilated causal convolutions in residual blocks (Bai et al.)."""

    def __init__(self, features=6, width=32, levels=5):
        super().__init__()
        self.inputs = nn.Conv1d(features, width, 1)
        self.first = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2**k) for k in range(levels))
        self.second = nn.ModuleList(nn.Conv1d(width, width, 3, dilation=2**k) for k in range(levels))
        self.head = nn.Linear(width, 4)

    def forward(self, series):
        x = self.inputs(series)
        for first, second in zip(self.first, self.second):
            y = x
            for convolution in (first, second):
                y = functional.relu(convolution(functional.pad(y, (2 * convolution.dilation[0], 0))))
            x = functional.relu(x + 0.5 * y)
        return self.head(x[:, :, -1])


class WaveNet(nn.Module):
    """Gated dilated convolutions with skips: scores of 64 levels for each sample."""

    def __init__(self, width=24, skips=32, layers=8, levels=64):
        super().__init__()
        self.inputs = nn.Conv1d(1, width, 1)
        self.gated = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=2**(k % 6)) for k in range(layers))
        self.residual = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skip = nn.ModuleList(nn.Conv1d(width, skips, 1) for _ in range(layers))
        self.head = nn.Sequential(nn.ReLU(), nn.Conv1d(skips, skips, 1), nn.ReLU(), nn.Conv1d(skips, levels, 1))

    def forward(self, samples):
        x, total = self.inputs(samples), 0
        for gated, residual, skip in zip(self.gated, self.residual, self.skip):
            a, b = gated(functional.pad(x, (gated.dilation[0], 0))).chunk(2, dim=1)
            y = torch.tanh(a) * torch.sigmoid(b)
            x, total = x + residual(y), total + skip(y)
        return self.head(total / len(self.skip))


class ConformerBlock(nn.Module):
    """Half a feed-forward, attention, a convolution module with GLU, half a feed-forward."""

    def __init__(self, width, heads=4, kernel=15):
        super().__init__()
        def feed():
            return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width))
        self.before, self.after, self.heads = feed(), feed(), heads
        self.norm, self.qkv, self.projection = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norm_of_convolution, self.widen = nn.LayerNorm(width), nn.Conv1d(width, 2 * width, 1)
        self.depthwise = nn.Conv1d(width, width, kernel, padding=kernel // 2, groups=width)
        self.statistics, self.narrow = nn.BatchNorm1d(width), nn.Conv1d(width, width, 1)
        self.last = nn.LayerNorm(width)

    def attention(self, x):
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(width // self.heads), -1)
        return self.projection((weights @ value).transpose(1, 2).reshape(batch, length, width))

    def convolution(self, x):
        y = functional.glu(self.widen(x.transpose(1, 2)), dim=1)
        return self.narrow(functional.silu(self.statistics(self.depthwise(y)))).transpose(1, 2)

    def forward(self, x):
        x = x + 0.5 * self.before(x)
        x = x + self.attention(self.norm(x))
        x = x + self.convolution(self.norm_of_convolution(x))
        return self.last(x + 0.5 * self.after(x))


class Conformer(nn.Module):
    """Features, four times fewer frames by convolutions, then Conformer blocks."""

    def __init__(self, features=40, width=48, layers=2):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(),
                                  nn.Conv2d(16, 16, 3, stride=2, padding=1), nn.ReLU())
        self.project = nn.Linear(16 * features // 4, width)
        self.blocks = nn.Sequential(*(ConformerBlock(width) for _ in range(layers)))

    def forward(self, features):
        x = self.stem(features[:, None])
        return self.blocks(self.project(x.transpose(1, 2).flatten(2)))


class StateSpace(nn.Module):
    """A selective state space over a whole sequence: its scan by doubling, log2(length) steps without a loop."""

    def __init__(self, features=12, width=48, states=8, length=64):
        super().__init__()
        self.length, self.states = length, states
        self.inputs, self.gate = nn.Linear(features, width), nn.Linear(features, width)
        self.step, self.put, self.read = nn.Linear(width, width), nn.Linear(width, states), nn.Linear(width, states)
        self.rates = nn.Parameter(torch.log(torch.arange(1, states + 1).float())[None].repeat(width, 1))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, features)

    def forward(self, series):
        x = functional.silu(self.inputs(series))
        step = functional.softplus(self.step(x))[..., None]
        decay = torch.exp(-step * torch.exp(self.rates))
        state = step * self.put(x)[:, :, None] * x[..., None]
        distance = 1
        while distance < self.length:
            shifted = functional.pad(state, (0, 0, 0, 0, distance, 0))[:, :self.length]
            state = state + decay * shifted
            decay = decay * functional.pad(decay, (0, 0, 0, 0, distance, 0), value=1.0)[:, :self.length]
            distance *= 2
        mixed = (state * self.read(x)[:, :, None]).sum(-1) + x
        return self.head(self.norm(mixed) * functional.silu(self.gate(series)))


def _stft(g, samples, size, step, _width, window, normalized, _onesided, _complex):
    """torch.stft as ONNX has it from opset 17 on, which PyTorch 1.13 does not write."""
    def constant(value):
        return g.op("Constant", value_t=torch.tensor(value))
    if symbolic_helper._maybe_get_const(normalized, "b"):
        raise ValueError("a normalised STFT is not exported")
    numbers = [constant(symbolic_helper._get_const(value, "i", "")) for value in (step, size)]
    frames = g.op("STFT", g.op("Unsqueeze", samples, constant([-1])), numbers[0], window, numbers[1], onesided_i=1)
    return g.op("Transpose", frames, perm_i=[0, 2, 1, 3])


torch.onnx.register_custom_op_symbolic("aten::stft", _stft, 17)


def _words(batch, generator, length=40):
    return torch.randint(0, WORDS, (batch, length), generator=generator)


def _sentences(batch, generator):
    words = _words(2 * batch, generator, 24)
    return {"words": words, "lengths": torch.tensor([24] + [17] * (2 * batch - 1))}


def _audio(batch, generator):
    time = torch.arange(4096) / 16000
    pitch = 200 + 1800 * torch.rand(batch, 3, 1, generator=generator)
    noise = 0.1 * torch.randn(batch, 4096, generator=generator)
    return {"samples": torch.sin(2 * math.pi * pitch * time).sum(1) + noise}


def _noise(name, *sizes):
    return lambda batch, generator: {name: torch.randn(batch, *sizes, generator=generator)}


# Name: builder, inputs (batch, generator) -> {name: tensor}, names of the outputs, what it shows.
NETWORKS = {
    "lstm_tagger": (LstmTagger, lambda batch, generator: {"words": _words(batch, generator)}, ("tags",),
                    "embedding, two bidirectional LSTM layers"),
    "gru_tagger": (GruTagger, _sentences, ("tags", "last"), "bidirectional GRU with lengths of sentences"),
    "translator": (Translator, lambda batch, generator: {
        "source": _words(batch, generator, 20), "target": _words(batch, generator, 16)}, ("words",),
        "GRU encoder, LSTM decoder with initial states, attention between"),
    "speech_front_end": (SpeechFrontEnd, _audio, ("classes", "features"), "STFT, mel filters, logarithm, 1-D convolutions, GRU"),
    "speech_ctc": (Ctc, _noise("features", 40, 96), ("scores", "path"), "1-D convolutions, LSTM, log-softmax, ArgMax"),
    "tcn": (Tcn, _noise("series", 6, 96), ("forecast",), "causal dilated 1-D convolutions"),
    "wavenet": (WaveNet, _noise("samples", 1, 256), ("levels",), "gated dilated 1-D convolutions with skips"),
    "conformer": (Conformer, _noise("features", 64, 40), ("encoded",), "attention, GLU, depthwise 1-D convolutions"),
    "state_space": (StateSpace, _noise("series", 64, 12), ("mixed",), "a selective state space, scanned by doubling"),
}
