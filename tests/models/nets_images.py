# SPDX-License-Identifier: Apache-2.0
"""Networks that make, compare or locate things in images and volumes, and two over tables and graphs; all narrow."""

import math

import torch
import torchvision
from torch import nn
from torch.nn import functional


def convolution(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class UNet3d(nn.Module):
    """Two levels down and up over volumes."""

    def __init__(self, base=8, classes=3):
        super().__init__()
        def block(inputs, outputs):
            return nn.Sequential(nn.Conv3d(inputs, outputs, 3, padding=1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01))
        self.first, self.second, self.third = block(1, base), block(base, 2 * base), block(2 * base, 4 * base)
        self.up2, self.up1 = nn.ConvTranspose3d(4 * base, 2 * base, 2, stride=2), nn.ConvTranspose3d(2 * base, base, 2, stride=2)
        self.merge2, self.merge1 = block(4 * base, 2 * base), block(2 * base, base)
        self.pool, self.head = nn.MaxPool3d(2), nn.Conv3d(base, classes, 1)

    def forward(self, volume):
        first = self.first(volume)
        second = self.second(self.pool(first))
        x = self.up2(self.third(self.pool(second)))
        x = self.up1(self.merge2(torch.cat((second, x), 1)))
        return self.head(self.merge1(torch.cat((first, x), 1)))


class VaeBlock(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.first = nn.GroupNorm(4, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2, self.second = nn.GroupNorm(4, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x):
        y = self.first(functional.silu(self.norm1(x)))
        return self.skip(x) + 0.5 * self.second(functional.silu(self.norm2(y)))


class VaeDecoder(nn.Module):
    """Latents to an image as latent diffusion has it: residual blocks, attention over pixels, nearest upsampling."""

    def __init__(self, latents=4, width=32):
        super().__init__()
        self.inputs, self.first, self.second = nn.Conv2d(latents, width, 3, padding=1), VaeBlock(width, width), VaeBlock(width, width)
        self.norm, self.qkv, self.projection = nn.GroupNorm(4, width), nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)
        self.up = nn.ModuleList((VaeBlock(width, width), VaeBlock(width, width // 2)))
        self.last, self.outputs = nn.GroupNorm(4, width // 2), nn.Conv2d(width // 2, 3, 3, padding=1)

    def attention(self, x):
        query, key, value = self.qkv(self.norm(x)).flatten(2).chunk(3, dim=1)
        weights = torch.softmax(query.transpose(1, 2) @ key / math.sqrt(x.shape[1]), -1)
        return x + self.projection((value @ weights.transpose(1, 2)).view_as(x))

    def forward(self, latents):
        x = self.second(self.attention(self.first(self.inputs(latents))))
        for block in self.up:
            x = block(functional.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.outputs(functional.silu(self.last(x)))


class Gan(nn.Module):
    """The generator of DCGAN."""

    def __init__(self, noise=32, base=16):
        super().__init__()
        layers = [nn.ConvTranspose2d(noise, 4 * base, 4, bias=False), nn.BatchNorm2d(4 * base), nn.ReLU()]
        for inputs, outputs in ((4 * base, 2 * base), (2 * base, base)):
            layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride=2, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.ConvTranspose2d(base, 3, 4, stride=2, padding=1), nn.Tanh())

    def forward(self, noise):
        return self.layers(noise[..., None, None])


class Style(nn.Module):
    """Fast style transfer: reflected borders, instance norms, nearest upsampling."""

    def __init__(self, base=12):
        super().__init__()
        def layer(inputs, outputs, kernel, stride=1, norm=True):
            parts = [nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride)]
            return nn.Sequential(*parts, *([nn.InstanceNorm2d(outputs, affine=True)] if norm else []))
        self.down = nn.Sequential(layer(3, base, 9), nn.ReLU(), layer(base, 2 * base, 3, 2), nn.ReLU())
        self.residual = nn.ModuleList(nn.Sequential(layer(2 * base, 2 * base, 3), nn.ReLU(), layer(2 * base, 2 * base, 3)) for _ in range(2))
        self.up, self.last = layer(2 * base, base, 3), layer(base, 3, 9, norm=False)

    def forward(self, image):
        x = self.down(image)
        for block in self.residual:
            x = x + block(x)
        return self.last(torch.relu(self.up(functional.interpolate(x, scale_factor=2.0, mode="nearest"))))


class SuperResolution(nn.Module):
    """Sub-pixel convolutions, beside the bicubic picture."""

    def __init__(self, factor=3, width=32):
        super().__init__()
        self.factor = factor
        self.layers = nn.Sequential(nn.Conv2d(1, width, 5, padding=2), nn.Tanh(), nn.Conv2d(width, width, 3, padding=1), nn.PReLU(width),
                                    nn.Conv2d(width, factor**2, 3, padding=1), nn.PixelShuffle(factor))

    def forward(self, image):
        wide = functional.interpolate(image, scale_factor=float(self.factor), mode="bicubic", align_corners=False)
        return wide + self.layers(image)


class Keypoints(nn.Module):
    """Heat maps by transposed convolutions; their places by a soft and by a hard maximum."""

    def __init__(self, points=7, base=16):
        super().__init__()
        self.layers = nn.Sequential(convolution(3, base, 2), convolution(base, 2 * base, 2), convolution(2 * base, 2 * base, 2),
                                    nn.ConvTranspose2d(2 * base, base, 4, stride=2, padding=1), nn.ReLU(), nn.Conv2d(base, points, 1))

    def forward(self, image):
        maps = self.layers(image)
        weights = torch.softmax(maps.flatten(2), -1).view_as(maps)
        rows = (weights.sum(3) * torch.arange(maps.shape[2])).sum(2)
        columns = (weights.sum(2) * torch.arange(maps.shape[3])).sum(2)
        return maps, torch.stack((columns, rows), -1), maps.flatten(2).argmax(-1)


class SpatialTransformer(nn.Module):
    """A network that turns its image before it reads it: an affine grid and GridSample."""

    def __init__(self, base=12):
        super().__init__()
        self.where = nn.Sequential(convolution(3, base, 2), convolution(base, base, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(base, 6))
        self.what = nn.Sequential(convolution(3, base, 2), convolution(base, base, 2), nn.Conv2d(base, 10, 1))
        steps = torch.linspace(-1, 1, 32)
        places = torch.stack((steps[None].expand(32, 32), steps[:, None].expand(32, 32), torch.ones(32, 32)), -1)
        self.register_buffer("places", places.reshape(1, 32 * 32, 3))
        self.register_buffer("same", torch.tensor([1.0, 0, 0, 0, 1, 0]))

    def forward(self, image):
        turn = (self.same + 0.1 * torch.tanh(self.where(image))).view(-1, 2, 3)
        grid = (self.places @ turn.transpose(1, 2)).view(-1, 32, 32, 2)
        turned = functional.grid_sample(image, grid, align_corners=True)
        return self.what(turned), turned


class SegNet(nn.Module):
    """Pooling that remembers places, and unpooling to them by scatters."""

    def __init__(self, base=12, classes=5):
        super().__init__()
        self.first, self.second = convolution(3, base), convolution(base, 2 * base)
        self.third, self.head = convolution(2 * base, base), nn.Conv2d(base, classes, 3, padding=1)
        self.pool = nn.MaxPool2d(2, return_indices=True)

    @staticmethod
    def unpool(x, places):
        batch, channels, height, width = x.shape
        spread = torch.zeros(batch, channels, 4 * height * width, dtype=x.dtype).scatter(2, places.flatten(2), x.flatten(2))
        return spread.view(batch, channels, 2 * height, 2 * width)

    def forward(self, image):
        x, places1 = self.pool(self.first(image))
        x, places2 = self.pool(self.second(x))
        return self.head(self.unpool(self.third(self.unpool(x, places2)), places1))


class Detector(nn.Module):
    """One shot: boxes from anchors on two scales, scores of classes, and non-maximum suppression class by class."""

    def __init__(self, size=64, base=16, classes=4):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, base, 2), convolution(base, 2 * base, 2), convolution(2 * base, 2 * base, 2))
        self.further = convolution(2 * base, 2 * base, 2)
        self.boxes = nn.ModuleList(nn.Conv2d(2 * base, 3 * 4, 3, padding=1) for _ in range(2))
        self.scores = nn.ModuleList(nn.Conv2d(2 * base, 3 * classes, 3, padding=1) for _ in range(2))
        self.classes = classes
        anchors = []
        for stride in (8, 16):
            centres = (torch.arange(size // stride) + 0.5) * stride
            places = torch.stack((centres[None].repeat(len(centres), 1), centres[:, None].repeat(1, len(centres))), -1)
            sizes = torch.tensor([[2.0, 2.0], [3.0, 1.5], [1.5, 3.0]]) * stride
            anchors.append(torch.cat((places[:, :, None].repeat(1, 1, 3, 1), sizes.expand(*places.shape[:2], 3, 2)), -1).reshape(-1, 4))
        self.register_buffer("anchors", torch.cat(anchors))

    def forward(self, image):
        near = self.stem(image)
        levels = (near, self.further(near))
        def rows(heads, width):
            return torch.cat([head(x).permute(0, 2, 3, 1).reshape(-1, width) for head, x in zip(heads, levels)])
        offsets, scores = 0.2 * rows(self.boxes, 4), torch.softmax(rows(self.scores, self.classes), -1)
        centres = self.anchors[:, :2] + offsets[:, :2] * self.anchors[:, 2:]
        half = self.anchors[:, 2:] * torch.exp(offsets[:, 2:]) / 2
        boxes = torch.cat((centres - half, centres + half), -1)
        best, which = scores.max(-1)
        kept = torchvision.ops.nms(boxes + 200.0 * which[:, None].to(boxes.dtype), best, 0.45)[:20]
        return boxes, scores, kept, which[kept]


class MaskHeads(nn.Module):
    """The second stage of Mask R-CNN: features of proposed boxes on two levels, a head of boxes and one of masks."""

    def __init__(self, base=16, classes=4):
        super().__init__()
        self.stem, self.further = nn.Sequential(convolution(3, base, 2), convolution(base, base, 2)), convolution(base, base, 2)
        self.box = nn.Sequential(nn.Flatten(), nn.Linear(base * 49, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.scores, self.deltas = nn.Linear(64, classes), nn.Linear(64, 4 * classes)
        self.mask = nn.Sequential(nn.Conv2d(base, base, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(base, base, 2, stride=2), nn.ReLU(),
                                  nn.Conv2d(base, classes, 1))

    def forward(self, image, proposals):
        near = self.stem(image)
        far = self.further(near)
        rois = torch.cat((torch.zeros_like(proposals[:, :1]), proposals), -1)
        def features(size):  # aligned, which is what an export without the attribute means from opset 16 on
            return sum(torchvision.ops.roi_align(level, rois, size, scale, 2, True) for level, scale in ((near, 1 / 4), (far, 1 / 8)))
        x = self.box(features(7))
        return torch.softmax(self.scores(x), -1), self.deltas(x), torch.sigmoid(self.mask(features(14)))


class Recommender(nn.Module):
    """DLRM: embeddings of categories (one of them a bag), a network of numbers, products of all pairs."""

    def __init__(self, width=16, tables=(50, 200, 1000)):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for rows in tables)
        self.bag = nn.Embedding(300, width)
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        count = len(tables) + 2
        self.top = nn.Sequential(nn.Linear(width + count * (count - 1) // 2, 32), nn.ReLU(), nn.Linear(32, 1))
        self.register_buffer("pairs", torch.tensor([i * count + j for i in range(count) for j in range(i)]))

    def forward(self, numbers, categories, history):
        x = self.bottom(numbers)
        rows = [x, self.bag(history).mean(1)] + [table(categories[:, k]) for k, table in enumerate(self.tables)]
        rows = torch.stack(rows, 1)
        products = (rows @ rows.transpose(1, 2)).flatten(1)[:, self.pairs]
        return torch.sigmoid(self.top(torch.cat((x, products), 1)))


class GraphNet(nn.Module):
    """Messages along edges, summed and taken the maximum of at nodes by scatters; degrees normalise the sums."""

    def __init__(self, features=12, width=24, layers=2):
        super().__init__()
        self.inputs = nn.Linear(features, width)
        self.message = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.update = nn.ModuleList(nn.Linear(2 * width, width) for _ in range(layers))
        self.head = nn.Linear(width, 5)

    def forward(self, nodes, edges):
        x, source, target = self.inputs(nodes), edges[0], edges[1]
        ones = torch.ones(edges.shape[1], 1, dtype=x.dtype)
        degrees = torch.zeros(nodes.shape[0], 1, dtype=x.dtype).scatter_add(0, target[:, None], ones)
        for message, update in zip(self.message, self.update):
            sent = functional.relu(message(torch.cat((x[source], x[target]), -1)))
            total = torch.zeros_like(x).scatter_add(0, target[:, None].expand_as(sent), sent)
            x = x + functional.relu(update(torch.cat((x, total / degrees.clamp(min=1)), -1)))
        return self.head(x)


def _normal(name, *sizes):
    return lambda batch, generator: {name: torch.randn(batch, *sizes, generator=generator)}


def _image_and_boxes(batch, generator):
    corner = 36 * torch.rand(6 * batch, 2, generator=generator)
    size = 8 + 20 * torch.rand(6 * batch, 2, generator=generator)
    return {"image": torch.randn(1, 3, 64, 64, generator=generator), "proposals": torch.cat((corner, corner + size), -1)}


def _clicks(batch, generator):
    batch *= 8
    categories = torch.stack([torch.randint(0, rows, (batch,), generator=generator) for rows in (50, 200, 1000)], -1)
    return {"numbers": torch.randn(batch, 13, generator=generator), "categories": categories,
            "history": torch.randint(0, 300, (batch, 6), generator=generator)}


def _graph(batch, generator):
    return {"nodes": torch.randn(30 * batch, 12, generator=generator),
            "edges": torch.randint(0, 30 * batch, (2, 100 * batch), generator=generator)}


# Name: builder, inputs (batch, generator) -> {name: tensor}, names of the outputs, what it shows.
NETWORKS = {
    "unet_3d": (UNet3d, _normal("volume", 1, 16, 16, 16), ("mask",), "3-D convolutions, transposed ones, pooling, instance norms"),
    "vae_decoder": (VaeDecoder, _normal("latents", 4, 8, 8), ("image",), "group norms, attention over pixels, nearest Resize"),
    "gan_generator": (Gan, _normal("noise", 32), ("image",), "DCGAN: transposed convolutions, BatchNormalization"),
    "style_transfer": (Style, _normal("image", 3, 40, 40), ("styled",), "reflected borders, instance norms"),
    "super_resolution": (SuperResolution, _normal("image", 1, 24, 24), ("wide",), "DepthToSpace, bicubic Resize, PRelu"),
    "keypoints": (Keypoints, _normal("image", 3, 64, 64), ("maps", "places", "best"), "heat maps, soft and hard ArgMax"),
    "spatial_transformer": (SpatialTransformer, _normal("image", 3, 32, 32), ("logits", "turned"), "GridSample"),
    "segnet": (SegNet, _normal("image", 3, 32, 32), ("mask_logits",), "MaxPool with indices, unpooling by ScatterElements"),
    "detector": (Detector, lambda batch, generator: _normal("image", 3, 64, 64)(1, generator), ("boxes", "scores", "kept", "classes"),
                 "anchors, NonMaxSuppression, as many results as there are"),
    "mask_heads": (MaskHeads, _image_and_boxes, ("scores", "deltas", "masks"), "Mask R-CNN's second stage: RoiAlign"),
    "recommender": (Recommender, _clicks, ("click",), "embeddings, products of pairs"),
    "graph_network": (GraphNet, _graph, ("classes",), "gathers and scatters along edges"),
}
