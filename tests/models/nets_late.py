# SPDX-License-Identifier: Apache-2.0
"""The networks of tests/python/one_recipe.py: real architectures with few channels, and how large each input may be.

`NETS[name]` says how to build a network, which of its sizes are free and between which bounds, and what is asked of them
beyond that. Decoders take and give the key/value cache, so that one network does prefill (past = 0) and every step after.
"""

import dataclasses
import math

import torch
import torchvision
from torch import nn

import nets
import nets_sequence
import nets_vision

VOCABULARY = 1000
LAYERS, WIDTH, HEADS, KV_HEADS = 2, 64, 4, 2
MOST_SEQ, MOST_PAST = 512, 1024

BATCH = {"batch": (1, 8)}
IMAGE = {**BATCH, "height": (64, 320), "width": (64, 320)}
SEQUENCE = {**BATCH, "seq": (1, MOST_SEQ)}
CACHED = {**SEQUENCE, "past": (0, MOST_PAST)}


@dataclasses.dataclass(frozen=True)
class Net:
    """A network and its sizes. Inputs are in the order of forward(): a name, and sizes as numbers and names of `bounds`."""

    build: object  # () -> nn.Module
    inputs: dict
    outputs: tuple
    bounds: dict
    note: str
    step: dict = dataclasses.field(default_factory=dict)  # Sizes are multiples of this.
    refused: tuple = ()  # Of (sizes within the bounds that the network cannot take, words of the refusal).


class CachedDecoderBlock(nets_sequence.DecoderBlock):
    """GPT-2's block behind a cache; `mask` says which keys each query sees."""

    def __init__(self, width, heads):
        super().__init__(width, heads, 1)

    def forward(self, x, mask, past_key, past_value):
        batch, length, width = x.shape
        query, key, value = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
                             for part in self.qkv(self.norm1(x)).split(width, dim=2))
        key, value = torch.cat((past_key, key), dim=2), torch.cat((past_value, value), dim=2)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        lowest = torch.tensor(torch.finfo(scores.dtype).min, dtype=scores.dtype)
        mixed = torch.where(mask, scores, lowest).softmax(-1) @ value
        x = x + self.projection(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x)))), key, value


def positions_and_mask(length, past):
    """Of the queries, and which of all keys each query sees: those of the cache, and its own up to itself."""
    everything = torch.arange(past + length)
    positions = torch.arange(past, past + length)
    return positions, everything[None] <= positions[:, None]


class CachedDecoder(nn.Module):
    """GPT-2-like: learned positions, tied output weights, logits of each new token and the grown cache."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(MOST_SEQ + MOST_PAST, WIDTH)
        self.blocks = nn.ModuleList(CachedDecoderBlock(WIDTH, HEADS) for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, token_ids, *past):
        length, before = token_ids.shape[1], past[0].shape[2]
        _, mask = positions_and_mask(length, before)
        x = self.token(token_ids) + self.position.weight[before:before + length]
        caches = []
        for index, block in enumerate(self.blocks):
            x, key, value = block(x, mask, past[2 * index], past[2 * index + 1])
            caches += [key, value]
        return (nn.functional.linear(self.norm(x), self.token.weight), *caches)


class CachedLlama(nets_sequence.Llama):
    """nets_sequence.Llama from token ids to logits, with a cache of any length, also of none."""

    def __init__(self):
        super().__init__(LAYERS, WIDTH, HEADS, KV_HEADS, 3 * WIDTH, MOST_SEQ + MOST_PAST)
        del self.mask
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, token_ids, *past):
        positions, seen = positions_and_mask(token_ids.shape[1], past[0].shape[2])
        mask = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        cosine, sine = self.cosine[positions], self.sine[positions]
        hidden, caches = self.token(token_ids), []
        for index, block in enumerate(self.blocks):
            hidden, key, value = block(hidden, cosine, sine, mask, past[2 * index:2 * index + 2])
            caches += [key, value]
        return (self.head(self.norm(hidden)), *caches)


class Classifier(nn.Module):
    """BERT-like: three embeddings, post-LN layers under a mask of padding, a pooler on the first token, a classifier."""

    def __init__(self, classes=5):
        super().__init__()
        self.word, self.kind = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(2, WIDTH)
        self.position = nn.Embedding(MOST_SEQ, WIDTH)
        self.register_buffer("position_ids", torch.arange(MOST_SEQ)[None])
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "qkv": nn.Linear(WIDTH, 3 * WIDTH), "out": nn.Linear(WIDTH, WIDTH), "norm1": nn.LayerNorm(WIDTH),
            "up": nn.Linear(WIDTH, 4 * WIDTH), "down": nn.Linear(4 * WIDTH, WIDTH), "norm2": nn.LayerNorm(WIDTH)})
            for _ in range(LAYERS))
        self.pooler, self.classifier = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, classes)

    def forward(self, token_ids, token_kinds, attention_mask):
        batch, length = token_ids.shape
        x = self.norm(self.word(token_ids) + self.kind(token_kinds) + self.position(self.position_ids[:, :length]))
        hidden = (1.0 - attention_mask[:, None, None].to(x.dtype)) * torch.finfo(x.dtype).min
        for layer in self.layers:
            query, key, value = (part.view(batch, length, HEADS, WIDTH // HEADS).transpose(1, 2)
                                 for part in layer["qkv"](x).split(WIDTH, dim=2))
            scores = query @ key.transpose(-1, -2) / math.sqrt(WIDTH // HEADS) + hidden
            mixed = (scores.softmax(-1) @ value).transpose(1, 2).reshape(batch, length, WIDTH)
            x = layer["norm1"](x + layer["out"](mixed))
            x = layer["norm2"](x + layer["down"](nn.functional.gelu(layer["up"](x))))
        return self.classifier(torch.tanh(self.pooler(x[:, 0]))), x


def deeplabv3():
    """torchvision's DeepLabV3 over MobileNetV3 with a fifth of the channels."""
    settings = torchvision.models.mobilenetv3._mobilenet_v3_conf("mobilenet_v3_large", width_mult=0.2, dilated=True)
    backbone = torchvision.models.mobilenetv3.MobileNetV3(*settings).features
    channels = backbone[-1].out_channels
    backbone = torchvision.models._utils.IntermediateLayerGetter(backbone, {str(len(backbone) - 1): "out"})
    head = torchvision.models.segmentation.deeplabv3.DeepLabHead(channels, 21)
    return nets_vision.Segmentation(torchvision.models.segmentation.DeepLabV3(backbone, head))


class DetectionHead(nn.Module):
    """Anchors whose score is above a threshold, and the best 100 of these. Scores are sums of small multiples of 1/32, and of
    a little more with each anchor: exact in any order, and no two the same."""

    BEST, THRESHOLD = 100, 0.75

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 8, stride=8), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.boxes = nn.Conv2d(16, 4, 1)

    def forward(self, image):
        coarse = torch.round(image * 2).clamp(-2, 2) / 8
        places = torch.arange(8)
        weight = ((places[:, None] * 3 + places) % 5 - 2).expand(1, 3, 8, 8) / 4
        scores = nn.functional.conv2d(coarse, weight, stride=8).flatten()
        scores = scores + torch.arange(scores.shape[0]).float() / (1 << 19)
        boxes = self.boxes(self.features(image)).permute(0, 2, 3, 1).reshape(-1, 4)
        keep = scores > self.THRESHOLD
        scores, boxes = scores[keep], boxes[keep]
        found = torch.cat((boxes, scores[:, None]), 1)
        count = torch.min(torch.cat((torch._shape_as_tensor(scores), torch.tensor([self.BEST]))))
        best, order = scores.topk(count if torch.onnx.is_in_onnx_export() else int(count))
        return best, boxes[order], found, torch.nonzero(keep), boxes.sum(0)


IMAGES = {"image": ("batch", 3, "height", "width")}
TOKENS = {"token_ids": ("batch", "seq")}


def _cache(heads):
    return {f"past_{kind}_{layer}": ("batch", heads, "past", WIDTH // HEADS)
            for layer in range(LAYERS) for kind in ("key", "value")}


def _outputs(past):
    return ("logits", *(name.replace("past", "present") for name in past))


def _decoder(build, heads, note, tokens=TOKENS, bounds=CACHED):
    past = _cache(heads)
    return Net(build, {**tokens, **past}, _outputs(past), bounds, note)


NETS = {
    "encoder": Net(lambda: nets_sequence.Encoder(LAYERS, WIDTH, HEADS), {"tokens": ("batch", "seq", WIDTH)}, ("encoded",),
                   SEQUENCE, "nn.TransformerEncoder, post-LN, erf-GELU"),
    "gpt2": _decoder(CachedDecoder, HEADS, "GPT-2-like, pre-LN, learned positions, cache of keys and values"),
    "gpt2_step": _decoder(CachedDecoder, HEADS, "the same, one token at a time: what begins at a free size has a fixed one",
                          {"token_ids": ("batch", 1)}, {**BATCH, "past": CACHED["past"]}),
    "llama": _decoder(CachedLlama, KV_HEADS, "LLaMA-like, RMSNorm, RoPE, grouped queries, SwiGLU, cache"),
    "bert": Net(Classifier, {**TOKENS, "token_kinds": ("batch", "seq"), "attention_mask": ("batch", "seq")},
                ("scores", "hidden"), SEQUENCE, "BERT-like classifier under a mask of padding"),
    "resnet50": Net(lambda: torchvision.models.ResNet(torchvision.models.resnet.Bottleneck, [3, 4, 6, 3], width_per_group=8),
                    IMAGES, ("logits",), IMAGE, "torchvision, with bottlenecks of an eighth of the channels"),
    "unet": Net(lambda: nets_vision.UNet(base=8), IMAGES, ("mask_logits",), IMAGE,
                "transposed convolutions, Resize, skips by concatenation", step={"height": 16, "width": 16},
                refused=(({"batch": 2, "height": 72, "width": 96}, ("height", "72")),)),
    "deeplabv3": Net(deeplabv3, IMAGES, ("mask_logits",), IMAGE,
                     "torchvision over MobileNetV3 with a fifth of the channels, atrous pyramid, Resize to the image's size"),
    "detection": Net(DetectionHead, IMAGES, ("best", "best_boxes", "found", "anchors", "sum"), IMAGE,
                     "anchors above a threshold (NonZero), and the best 100 of them (TopK): sizes that depend on data"),
}


def build(name):
    """The network in inference mode with its fixed-seed weights."""
    most = {dim: high if dim == "batch" else min(high, 96) for dim, (_, high) in NETS[name].bounds.items()}
    return nets.prepared(NETS[name].build, name, lambda generator: example(name, most, generator))


def example(name, sizes, generator):
    """Inputs of these sizes by name."""
    made = {}
    for key, dims in NETS[name].inputs.items():
        shape = [sizes.get(dim, dim) for dim in dims]
        if key == "image":
            made[key] = nets_vision.images(shape[0], shape[2], generator, shape[3])
        elif key == "token_ids":
            made[key] = torch.randint(0, VOCABULARY, shape, generator=generator)
        elif key == "token_kinds":
            made[key] = torch.randint(0, 2, shape, generator=generator)
        elif key == "attention_mask":  # Padding at the end of some rows, never of all of one.
            lengths = torch.randint(1, shape[1] + 1, (shape[0], 1), generator=generator)
            made[key] = (torch.arange(shape[1])[None] < lengths).long()
        else:
            made[key] = torch.randn(shape, generator=generator)
    return made
