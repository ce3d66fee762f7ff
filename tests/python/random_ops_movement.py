# SPDX-License-Identifier: Apache-2.0
"""Random ops that move numbers without changing them. See random_ops_compute.py."""

import math

import torch
import torch.nn.functional as F

from random_graph import MAX_RANK, Rejected

INT64_MAX, INT32_MIN = 2**63 - 1, -(2**31)


def transpose(b):
    x = b.pick(min_rank=1)
    order = list(range(b.values[x].dim()))
    b.rng.shuffle(order)
    b.emit("Transpose", [x], lambda t: t.permute(order), perm=order)


def _factors(size):
    return [d for d in range(1, size + 1) if size % d == 0]


def reshape(b):
    """Two dims merged, one split, or a 1 appended; scalars become vectors and the reverse."""
    x = b.pick()
    shape = list(b.values[x].shape)
    if b.values[x].numel() == 1 and b.chance(0.5):
        shape = []
    elif len(shape) >= 2 and b.chance(0.5):
        at = b.rng.randrange(len(shape) - 1)
        shape[at:at + 2] = [shape[at] * shape[at + 1]]
    elif shape and b.chance(0.8):
        at = b.rng.randrange(len(shape))
        factor = b.rng.choice(_factors(shape[at]))
        shape[at:at + 1] = [factor, shape[at] // factor]
    else:
        shape.append(1)
    written = list(shape)
    if shape and b.chance(0.4):
        written[b.rng.randrange(len(shape))] = -1
    b.emit("Reshape", [x, b.integers(written)], lambda t, _: t.reshape(shape))


def flatten(b):
    x = b.pick()
    rank = b.values[x].dim()
    axis = b.rng.randint(-rank, rank)
    rows = math.prod(b.values[x].shape[:axis]) if axis != -rank or rank == 0 else 1
    b.emit("Flatten", [x], lambda t: t.reshape(rows, -1), axis=axis)


def concat(b):
    x = b.pick(min_rank=1)
    shape = list(b.values[x].shape)
    axis = b.rng.randrange(len(shape))
    rest = shape[:axis] + shape[axis + 1:]

    def fits(t):
        return t.dim() == len(shape) and list(t.shape[:axis] + t.shape[axis + 1:]) == rest

    parts = [x]
    for _ in range(b.rng.randint(1, 3)):
        constant_shape = shape[:axis] + [b.rng.randint(1, 3)] + shape[axis + 1:]
        parts.append(b.weight(*constant_shape) if b.chance(0.3) else b.pick(fits))
    b.rng.shuffle(parts)
    b.emit("Concat", parts, lambda *t: torch.cat(t, axis),
           axis=axis - len(shape) if b.chance(0.3) else axis)


def slice_(b):
    """Up to two axes, with negative indices and steps, and ends beyond the end."""
    x = b.pick(min_rank=1)
    shape = b.values[x].shape
    axes = b.rng.sample(range(len(shape)), b.rng.randint(1, min(2, len(shape))))
    starts, ends, steps, taken = [], [], [], []
    for axis in axes:
        size = shape[axis]
        begin, step = b.rng.randrange(size), b.rng.choice([1, 1, 1, 2, 3])
        if b.chance(0.15):
            starts.append(begin)
            ends.append(INT32_MIN)
            steps.append(-step)
            taken.append(torch.arange(begin, -1, -step))
            continue
        end = b.rng.randint(begin + 1, size)
        starts.append(begin if b.chance(0.7) else begin - size)
        ends.append(end if end < size else b.rng.choice([end, INT64_MAX]))
        steps.append(step)
        taken.append(torch.arange(begin, end, step))

    def function(t, *_):
        for axis, indices in zip(axes, taken):
            t = t.index_select(axis, indices)
        return t

    b.emit("Slice", [x] + [b.integers(v) for v in (starts, ends, axes, steps)], function)


def split(b):
    x = b.pick(lambda t: max(t.shape, default=0) > 1)
    shape = b.values[x].shape
    axis = b.rng.choice([d for d, size in enumerate(shape) if size > 1])
    first = b.rng.randint(1, shape[axis] - 1)
    sizes = [first, shape[axis] - first]
    b.emit("Split", [x, b.integers(sizes)], lambda t, _: tuple(torch.split(t, sizes, axis)),
           outputs=2, axis=axis)


def gather(b):
    """Indices are a constant or an input, of rank 0 to 2, some of them negative."""
    x = b.pick(min_rank=1)
    shape = b.values[x].shape
    axis = b.rng.randrange(len(shape))
    indices = torch.randint(-shape[axis], shape[axis], b.rng.choice([(), (1,), (3,), (2, 2)]),
                            generator=b.generator)
    if len(shape) - 1 + indices.dim() > MAX_RANK:
        raise Rejected

    def function(t, i):
        flat = t.index_select(axis, (i % t.shape[axis]).reshape(-1))
        return flat.reshape(t.shape[:axis] + i.shape + t.shape[axis + 1:])

    name = b.input(indices) if b.chance(0.3) else b.constant(indices)
    b.emit("Gather", [x, name], function, axis=axis)


def _mirror(size, before, after, mode):
    """The index that each element of an edge or reflect padded dim has in the operand."""
    indices = torch.arange(-before, size + after)
    if mode == "edge":
        return indices.clamp(0, size - 1)
    indices = indices.abs()
    return torch.where(indices > size - 1, 2 * (size - 1) - indices, indices)


def pad(b):
    """Constant padding may be negative (a crop)."""
    x = b.pick(min_rank=1)
    shape = b.values[x].shape
    mode = b.rng.choice(["constant", "constant", "reflect", "edge"])
    if mode == "constant":
        pads = [(b.rng.choice([0, 0, 1, 2, -1 if size > 2 else 0]), b.rng.choice([0, 1, 3]))
                for size in shape]
        value = b.rng.choice([0.0, 1.5])
        extra = [b.number(value)]
        flat = [n for pair in reversed(pads) for n in pair]

        def function(t, *_):
            return F.pad(t, flat, value=value)
    else:
        pads = [(b.rng.choice([0, 1]), b.rng.choice([0, 1])) if size > 1 else (0, 0)
                for size in shape]
        extra = []

        def function(t, *_):
            for axis, (before, after) in enumerate(pads):
                t = t.index_select(axis, _mirror(t.shape[axis], before, after, mode))
            return t

    written = b.integers([p[0] for p in pads] + [p[1] for p in pads])
    b.emit("Pad", [x, written] + extra, function, mode=mode)


def expand(b):
    x = b.pick(lambda t: t.numel() < 2000)
    shape = [b.rng.choice([2, 3]) if size == 1 and b.chance(0.7) else size
             for size in b.values[x].shape]
    if len(shape) < MAX_RANK and b.chance(0.3):
        shape.insert(0, b.rng.choice([1, 2]))
    b.emit("Expand", [x, b.integers(shape)], lambda t, _: t.expand(shape).clone())


def tile(b):
    x = b.pick(lambda t: t.numel() < 3000, min_rank=1)
    repeats = [b.rng.choice([1, 1, 2, 3]) for _ in b.values[x].shape]
    b.emit("Tile", [x, b.integers(repeats)], lambda t, _: t.repeat(repeats))


def squeeze(b):
    x = b.pick(lambda t: 1 in t.shape)
    axis = b.rng.choice([d for d, size in enumerate(b.values[x].shape) if size == 1])
    b.emit("Squeeze", [x, b.integers([axis])], lambda t, _: t.squeeze(axis))


def unsqueeze(b):
    x = b.pick(max_rank=MAX_RANK - 1)
    axis = b.rng.randint(0, b.values[x].dim())
    b.emit("Unsqueeze", [x, b.integers([axis])], lambda t, _: t.unsqueeze(axis))


def resize(b):
    x = b.pick(lambda t: t.numel() < 8000, min_rank=4, max_rank=4)
    factor = b.rng.choice([2, 3])
    scales = b.constant(torch.tensor([1.0, 1.0, factor, factor], dtype=torch.float64))
    if b.chance(0.5):
        b.emit("Resize", [x, "", scales], lambda t, _: F.interpolate(t, scale_factor=factor),
               mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    else:
        b.emit("Resize", [x, "", scales],
               lambda t, _: F.interpolate(t, scale_factor=factor, mode="bilinear"),
               mode="linear", coordinate_transformation_mode="half_pixel")


def depth_space(b):
    """DepthToSpace in torch's order of channels, or SpaceToDepth."""
    if b.chance(0.5):
        x = b.pick(lambda t: t.shape[1] % 4 == 0, 4, 4)
        b.emit("DepthToSpace", [x], lambda t: F.pixel_shuffle(t, 2), blocksize=2, mode="CRD")
        return
    x = b.pick(lambda t: t.shape[2] % 2 == 0 and t.shape[3] % 2 == 0, 4, 4)

    def function(t):
        n, c, h, w = t.shape
        blocks = t.reshape(n, c, h // 2, 2, w // 2, 2).permute(0, 3, 5, 1, 2, 4)
        return blocks.reshape(n, 4 * c, h // 2, w // 2)

    b.emit("SpaceToDepth", [x], function, blocksize=2)


def roll(b):
    """As exporters write torch.roll: two slices, concatenated the other way round."""
    x = b.pick(lambda t: max(t.shape, default=0) > 1)
    shape = b.values[x].shape
    axis = b.rng.choice([d for d, size in enumerate(shape) if size > 1])
    at, size = b.rng.randint(1, shape[axis] - 1), shape[axis]
    parts = []
    for begin, end in ((at, size), (0, at)):
        operands = [x] + [b.integers([v]) for v in (begin, end, axis)]
        parts.append(b.emit("Slice", operands,
                            lambda t, *_, i=torch.arange(begin, end): t.index_select(axis, i)))
    b.emit("Concat", parts, lambda *t: torch.cat(t, axis), axis=axis)


def window_partition(b):
    """The reshape-transpose-reshape of windowed attention: through rank 6."""
    x = b.pick(lambda t: t.shape[1] % 2 == 0 and t.shape[2] % 2 == 0, 4, 4)
    n, h, w, c = b.values[x].shape
    split_shape, merged = [n, h // 2, 2, w // 2, 2, c], [n * h * w // 4, 4, c]
    order = [0, 1, 3, 2, 4, 5]
    y = b.emit("Reshape", [x, b.integers(split_shape)], lambda t, _: t.reshape(split_shape))
    y = b.emit("Transpose", [y], lambda t: t.permute(order), perm=order)
    b.emit("Reshape", [y, b.integers(merged)], lambda t, _: t.reshape(merged))


# name: (generator, weight)
OPS = {
    "transpose": (transpose, 2), "reshape": (reshape, 2), "flatten": (flatten, 1),
    "concat": (concat, 2), "slice": (slice_, 2), "split": (split, 1), "gather": (gather, 1),
    "pad": (pad, 1), "expand": (expand, 1), "tile": (tile, 1), "squeeze": (squeeze, 1),
    "unsqueeze": (unsqueeze, 1), "resize": (resize, 1), "depth_space": (depth_space, 1),
    "roll": (roll, 1), "window_partition": (window_partition, 1),
}
