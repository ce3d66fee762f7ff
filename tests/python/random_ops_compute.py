# SPDX-License-Identifier: Apache-2.0
"""Random ops that compute. A generator takes a random_graph.Builder, picks operands that suit,
and emits one node (or a few, where exporters write a pattern) with PyTorch's function for it.
It raises Rejected where nothing suits."""

import math

import torch
import torch.nn.functional as F

from random_graph import Rejected

# name: (function, attributes)
UNARY = {
    "Relu": (torch.relu, {}), "Sigmoid": (torch.sigmoid, {}), "Tanh": (torch.tanh, {}),
    "Neg": (torch.neg, {}), "Abs": (torch.abs, {}), "Erf": (torch.erf, {}),
    "Softplus": (F.softplus, {}), "Softsign": (F.softsign, {}), "Identity": (lambda t: t + 0, {}),
    "Sin": (torch.sin, {}), "Cos": (torch.cos, {}), "Exp": (torch.exp, {}),
    "Log": (torch.log, {}), "Sqrt": (torch.sqrt, {}), "Reciprocal": (torch.reciprocal, {}),
    "Sinh": (torch.sinh, {}), "Cosh": (torch.cosh, {}), "Asinh": (torch.asinh, {}),
    "Elu": (lambda t: F.elu(t, 0.7), {"alpha": 0.7}), "Celu": (lambda t: F.celu(t, 1.5), {"alpha": 1.5}),
    "Selu": (F.selu, {}), "LeakyRelu": (lambda t: F.leaky_relu(t, 0.1), {"alpha": 0.1}),
    "HardSigmoid": (lambda t: (t * 0.2 + 0.5).clamp(0, 1), {"alpha": 0.2, "beta": 0.5}),
    "HardSwish": (F.hardswish, {}),
    "ThresholdedRelu": (lambda t: torch.where(t > 0.3, t, 0 * t), {"alpha": 0.3}),
}
BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div,
          "Max": torch.maximum, "Min": torch.minimum}
COMPARE = {"Greater": torch.gt, "Less": torch.lt, "GreaterOrEqual": torch.ge}
REDUCE = {
    "ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax,
    "ReduceMin": torch.amin, "ReduceLogSumExp": torch.logsumexp,
    "ReduceL1": lambda t, dim, keepdim: t.abs().sum(dim, keepdim=keepdim),
    "ReduceL2": lambda t, dim, keepdim: t.pow(2).sum(dim, keepdim=keepdim).sqrt(),
    "ReduceSumSquare": lambda t, dim, keepdim: t.pow(2).sum(dim, keepdim=keepdim),
}


def unary(b):
    op = b.rng.choice(sorted(UNARY))
    if op == "HardSwish" and b.graph.opset < 14:
        raise Rejected
    function, attributes = UNARY[op]
    b.emit(op, [b.pick()], function, **attributes)


def clip(b):
    """With both limits, or one of them left out."""
    x = b.pick()
    low = b.rng.choice([None, -0.5])
    high = b.rng.choice([None, 0.25]) if low is not None else 0.25
    limits = [b.number(v) if v is not None else "" for v in (low, high)]
    b.emit("Clip", [x] + (limits if high is not None else limits[:1]),
           lambda t, *_: t.clamp(low, high))


def _operand_for(b, x):
    """Another operand whose shape broadcasts with that of `x`: a value or a constant."""
    shape = b.values[x].shape
    if b.chance(0.6):
        def fits(t):
            try:
                return torch.broadcast_shapes(t.shape, shape).numel() > 0
            except RuntimeError:
                return False

        return b.pick(fits)
    other = [size if b.chance(0.6) else 1 for size in shape]
    return b.weight(*(other[b.rng.randint(0, len(other)):] if b.chance(0.4) else other))


def binary(b):
    x = b.pick()
    operands = [x, _operand_for(b, x)]
    b.rng.shuffle(operands)
    op = b.rng.choice(sorted(BINARY))
    b.emit(op, operands, BINARY[op])


def variadic(b):
    x = b.pick()
    op, function = b.rng.choice([("Sum", lambda p, q, r: p + q + r),
                                 ("Mean", lambda p, q, r: (p + q + r) / 3),
                                 ("Max", lambda p, q, r: torch.maximum(torch.maximum(p, q), r))])
    b.emit(op, [x, _operand_for(b, x), b.number(0.1)], function)


def prelu(b):
    x = b.pick(min_rank=2)
    shape = b.values[x].shape
    slope = b.weight(*b.rng.choice([(1,), (shape[1],) + (1,) * (len(shape) - 2)]))
    b.emit("PRelu", [x, slope], lambda t, s: torch.where(t < 0, t * s, t))


def where(b):
    """Selects by a comparison; the mask may be an output of its own after Cast."""
    x = b.pick()
    y = b.pick(lambda t: t.shape == b.values[x].shape)
    op = b.rng.choice(sorted(COMPARE))
    half = b.emit("Mul", [y, b.number(0.5)], torch.mul)
    mask = b.emit(op, [x, half], COMPARE[op])
    if b.chance(0.2):
        b.emit("Cast", [mask], lambda t: t.double(), to=1)
    b.emit("Where", [mask, x, y], torch.where)


def matmul(b):
    """With a value or constant on the right; ranks 1 and up, batch dims broadcast."""
    x = b.pick(lambda t: t.shape[-1] < 300, min_rank=1)
    shape = b.values[x].shape
    depth = shape[-1]
    if b.chance(0.4):
        def fits(t):
            try:
                return t.shape[-2] == depth and torch.broadcast_shapes(t.shape[:-2], shape[:-2]) is not None
            except RuntimeError:
                return False

        y = b.pick(fits, min_rank=2)
    else:
        batch = tuple(shape[:-2]) if len(shape) > 2 and b.chance(0.3) else ()
        y = b.constant(b.uniform(*batch, depth, b.rng.choice([1, 3, 5, 16, 33, 64, 70])) / depth**0.5)
    b.emit("MatMul", [x, y], torch.matmul)


def gemm(b):
    x = b.pick(min_rank=2, max_rank=2)
    flip_a, flip_b = b.rng.randint(0, 1), b.rng.randint(0, 1)
    rows, depth = b.values[x].shape[::-1] if flip_a else b.values[x].shape
    columns = b.rng.choice([1, 2, 7, 32, 65])
    weights = b.uniform(*((columns, depth) if flip_b else (depth, columns))) / depth**0.5
    alpha, beta = b.rng.choice([(1.0, 1.0), (0.5, 2.0), (1.0, 0.0)])
    bias = b.rng.choice([None, (), (columns,), (1, columns), (rows, 1), (rows, columns)])
    inputs = [x, b.constant(weights)] + ([] if bias is None else [b.weight(*bias)])

    def function(p, q, c=None):
        product = alpha * (p.T if flip_a else p) @ (q.T if flip_b else q)
        return product if c is None else product + beta * c

    b.emit("Gemm", inputs, function, alpha=alpha, beta=beta, transA=flip_a, transB=flip_b)


def _pad_spatial(t, pads, value=0.0):
    """`t` padded as ONNX's pads say: all begins, then all ends."""
    rank = len(pads) // 2
    return F.pad(t, [n for d in reversed(range(rank)) for n in (pads[d], pads[rank + d])],
                 value=value)


def conv(b):
    """One and two spatial dims, grouped and depthwise, windows of side 1, any padding."""
    x = b.pick(lambda t: t.shape[1] <= 64, min_rank=3, max_rank=4)
    shape = b.values[x].shape
    channels, rank = shape[1], len(shape) - 2
    groups = b.rng.choice([g for g in (1, 1, 2, 3, channels, channels) if channels % g == 0])
    out = groups * b.rng.choice([1, 1, 2, 3]) if groups > 1 else b.rng.choice([1, 3, 8, 16, 33])
    kernel = [b.rng.choice([1, 1, 2, 3, 5]) for _ in range(rank)]
    strides = [b.rng.choice([1, 1, 2, 3]) for _ in range(rank)]
    dilations = [b.rng.choice([1, 1, 2]) for _ in range(rank)]
    pads = [b.rng.choice([0, 0, 1, 2]) for _ in range(2 * rank)]
    for d in range(rank):
        if shape[2 + d] + pads[d] + pads[rank + d] < (kernel[d] - 1) * dilations[d] + 1:
            raise Rejected
    fan_in = channels // groups * math.prod(kernel)
    inputs = [x, b.constant(b.uniform(out, channels // groups, *kernel) / fan_in**0.5)]
    if b.chance(0.6):
        inputs.append(b.weight(out))
    convolution = F.conv2d if rank == 2 else F.conv1d

    def function(t, w, bias=None):
        return convolution(_pad_spatial(t, pads), w, bias, strides, 0, dilations, groups)

    b.emit("Conv", inputs, function, group=groups, strides=strides, dilations=dilations, pads=pads,
           kernel_shape=kernel)


def conv_transpose(b):
    x = b.pick(lambda t: t.shape[1] <= 32 and t.numel() < 8000, 4, 4)
    channels = b.values[x].shape[1]
    groups = b.rng.choice([g for g in (1, 1, 2, channels) if channels % g == 0])
    kernel = [b.rng.choice([1, 2, 3]) for _ in range(2)]
    strides = [b.rng.choice([1, 2]) for _ in range(2)]
    dilations = [b.rng.choice([1, 1, 2]) for _ in range(2)]
    pads = [b.rng.choice([0, 0, 1]) for _ in range(2)]
    extra = [b.rng.choice([0, 1]) if max(strides[d], dilations[d]) > 1 else 0 for d in range(2)]
    fan_in = channels // groups * math.prod(kernel)
    weights = b.uniform(channels, b.rng.choice([1, 2, 5]), *kernel) / fan_in**0.5
    for d in range(2):
        size = b.values[x].shape[2 + d]
        if (size - 1) * strides[d] - 2 * pads[d] + (kernel[d] - 1) * dilations[d] + extra[d] < 0:
            raise Rejected

    def function(t, w):
        return F.conv_transpose2d(t, w, None, strides, pads, extra, groups, dilations)

    b.emit("ConvTranspose", [x, b.constant(weights)], function, group=groups, strides=strides,
           dilations=dilations, pads=pads + pads, output_padding=extra, kernel_shape=kernel)


def pool(b):
    x = b.pick(min_rank=4, max_rank=4)
    kernel = [b.rng.choice([1, 2, 3]) for _ in range(2)]
    strides = [b.rng.choice([1, 2, 3]) for _ in range(2)]
    pads = [min(b.rng.choice([0, 0, 1]), side // 2) for side in kernel]  # torch's limit
    if any(b.values[x].shape[2 + d] + 2 * pads[d] < kernel[d] for d in range(2)):
        raise Rejected
    window = {"kernel_shape": kernel, "strides": strides, "pads": pads + pads}
    if b.chance(0.5):
        ceil = b.chance(0.3)
        b.emit("MaxPool", [x], lambda t: F.max_pool2d(t, kernel, strides, pads, 1, ceil),
               ceil_mode=int(ceil), **window)
    else:
        count = b.chance(0.5)
        b.emit("AveragePool", [x], lambda t: F.avg_pool2d(t, kernel, strides, pads, False, count),
               count_include_pad=int(count), **window)


def global_pool(b):
    """Over all but the first two dims, of any number."""
    x = b.pick(min_rank=3, max_rank=5)
    dims = tuple(range(2, b.values[x].dim()))
    op, function = b.rng.choice([("GlobalAveragePool", torch.mean), ("GlobalMaxPool", torch.amax)])
    b.emit(op, [x], lambda t: function(t, dims, keepdim=True))


def reduce(b):
    x = b.pick(min_rank=1)
    rank = b.values[x].dim()
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, rank)))
    written = [axis - rank if b.chance(0.4) else axis for axis in axes]
    keep = b.chance(0.5)
    op = b.rng.choice(sorted(REDUCE))
    function = REDUCE[op]
    if op == "ReduceSum":
        b.emit(op, [x, b.integers(written)], lambda t, _: function(t, axes, keepdim=keep),
               keepdims=int(keep))
    else:
        b.emit(op, [x], lambda t: function(t, axes, keepdim=keep), axes=written, keepdims=int(keep))


def arg(b):
    x = b.pick(min_rank=1)
    axis = b.rng.randrange(b.values[x].dim())
    keep = b.chance(0.5)
    op, function = b.rng.choice([("ArgMax", torch.argmax), ("ArgMin", torch.argmin)])
    b.emit(op, [x], lambda t: function(t, axis, keepdim=keep), axis=axis, keepdims=int(keep))


def softmax(b):
    x = b.pick(min_rank=1)
    rank = b.values[x].dim()
    axis = b.rng.randrange(-rank, rank)
    op, function = b.rng.choice([("Softmax", F.softmax), ("LogSoftmax", F.log_softmax)])
    b.emit(op, [x], lambda t: function(t, axis), axis=axis)


def layer_norm(b):
    if b.graph.opset < 17:
        raise Rejected
    x = b.pick(min_rank=1)
    axis = b.rng.randrange(b.values[x].dim())
    shape = b.values[x].shape[axis:]
    if shape.numel() < 2:
        raise Rejected
    b.emit("LayerNormalization", [x, b.weight(*shape, low=0, high=2), b.weight(*shape)],
           lambda t, w, c: F.layer_norm(t, shape, w, c, 1e-2), axis=axis, epsilon=1e-2)


def layer_norm_pattern(b):
    """As exporters write it before opset 17."""
    x = b.pick(lambda t: t.shape[-1] > 1, min_rank=1)
    size = b.values[x].shape[-1]

    def mean(name):
        return b.emit("ReduceMean", [name], lambda t: t.mean(-1, keepdim=True), axes=[-1], keepdims=1)

    centred = b.emit("Sub", [x, mean(x)], torch.sub)
    variance = mean(b.emit("Pow", [centred, b.number(2.0)], torch.pow))
    deviation = b.emit("Sqrt", [b.emit("Add", [variance, b.number(1e-2)], torch.add)], torch.sqrt)
    scaled = b.emit("Mul", [b.emit("Div", [centred, deviation], torch.div),
                            b.weight(size, low=0, high=2)], torch.mul)
    b.emit("Add", [scaled, b.weight(size)], torch.add)


def batch_norm(b):
    x = b.pick(min_rank=2)
    size = b.values[x].shape[1]
    scale, shift, mean = b.weight(size, low=0.5, high=1.5), b.weight(size), b.weight(size)
    b.emit("BatchNormalization", [x, scale, shift, mean, b.weight(size, low=0.5, high=2)],
           lambda t, s, c, m, v: F.batch_norm(t, m, v, s, c, False, 0, 1e-5), epsilon=1e-5)


def instance_norm(b):
    x = b.pick(lambda t: t.shape[2:].numel() > 3, min_rank=3, max_rank=5)
    size = b.values[x].shape[1]
    b.emit("InstanceNormalization", [x, b.weight(size), b.weight(size)],
           lambda t, w, c: F.instance_norm(t, None, None, w, c, eps=1e-2), epsilon=1e-2)


def group_norm(b):
    """As exporters write it: InstanceNormalization of rank 3 between two reshapes."""
    x = b.pick(lambda t: t.shape[1] % 2 == 0 and t.shape[1:].numel() > 7, min_rank=3, max_rank=5)
    shape = list(b.values[x].shape)
    merged, ones, zeros = [shape[0], 2, -1], torch.ones(2), torch.zeros(2)
    y = b.emit("Reshape", [x, b.integers(merged)], lambda t, _: t.reshape(merged))
    y = b.emit("InstanceNormalization", [y, b.constant(ones.double()), b.constant(zeros.double())],
               lambda t, w, c: F.instance_norm(t, None, None, w, c, eps=1e-2), epsilon=1e-2)
    y = b.emit("Reshape", [y, b.integers(shape)], lambda t, _: t.reshape(shape))
    per_channel = (shape[1],) + (1,) * (len(shape) - 2)
    y = b.emit("Mul", [y, b.weight(*per_channel, low=0, high=2)], torch.mul)
    b.emit("Add", [y, b.weight(*per_channel)], torch.add)


def attention(b):
    """Two heads of self-attention from three projections, with an optional causal mask."""
    x = b.pick(lambda t: t.shape[-1] % 2 == 0 and t.numel() < 20000, 3, 3)
    batch, length, width = b.values[x].shape
    heads = [batch, length, 2, width // 2]
    operands = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = b.emit("MatMul", [x, b.constant(b.uniform(width, width) / width**0.5)], torch.matmul)
        y = b.emit("Add", [y, b.weight(width)], torch.add)
        y = b.emit("Reshape", [y, b.integers(heads)], lambda t, _: t.reshape(heads))
        operands.append(b.emit("Transpose", [y], lambda t, o=order: t.permute(o), perm=order))
    query, key, value = operands
    scores = b.emit("Mul", [b.emit("MatMul", [query, key], torch.matmul), b.number(0.35)], torch.mul)
    if b.chance(0.3):
        mask = torch.full((length, length), -1e3, dtype=torch.float64).triu(1)
        scores = b.emit("Add", [scores, b.constant(mask)], torch.add)
    weights = b.emit("Softmax", [scores], lambda t: F.softmax(t, -1), axis=-1)
    y = b.emit("MatMul", [weights, value], torch.matmul)
    y = b.emit("Transpose", [y], lambda t: t.permute(0, 2, 1, 3), perm=[0, 2, 1, 3])
    b.emit("Reshape", [y, b.integers([batch, length, width])],
           lambda t, _: t.reshape(batch, length, width))


def rotary(b):
    """Rotary embedding: halves swapped by slices and a negation, two products, a sum."""
    x = b.pick(lambda t: t.shape[-1] % 2 == 0, min_rank=2)
    size = b.values[x].shape[-1]
    half = size // 2

    def part(begin, end):
        operands = [x] + [b.integers([v]) for v in (begin, end, -1)]
        return b.emit("Slice", operands, lambda t, *_: t[..., begin:end])

    turned = b.emit("Concat", [b.emit("Neg", [part(half, size)], torch.neg), part(0, half)],
                    lambda *t: torch.cat(t, -1), axis=-1)
    angle = b.uniform(b.values[x].shape[-2], size, high=3.0)
    cosine = b.emit("Mul", [x, b.constant(angle.cos())], torch.mul)
    sine = b.emit("Mul", [turned, b.constant(angle.sin())], torch.mul)
    b.emit("Add", [cosine, sine], torch.add)


# name: (generator, weight)
OPS = {
    "unary": (unary, 3), "clip": (clip, 1), "binary": (binary, 3), "variadic": (variadic, 1),
    "prelu": (prelu, 1), "where": (where, 1), "matmul": (matmul, 2), "gemm": (gemm, 1),
    "conv": (conv, 3), "conv_transpose": (conv_transpose, 1), "pool": (pool, 1),
    "global_pool": (global_pool, 1), "reduce": (reduce, 2), "arg": (arg, 1),
    "softmax": (softmax, 1), "layer_norm": (layer_norm, 1),
    "layer_norm_pattern": (layer_norm_pattern, 1), "batch_norm": (batch_norm, 1),
    "instance_norm": (instance_norm, 1), "group_norm": (group_norm, 1),
    "attention": (attention, 1), "rotary": (rotary, 1),
}
