# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes (opset 17) in numpy, a function for each: what models of a few nodes come to, found by nothing of ours."""

import numpy as np
from onnx import helper, numpy_helper


def _top(x, k, a):
    axis, count = a.get("axis", -1), int(k[0])
    keys = -x if a.get("largest", 1) else x  # A stable order: of equal elements the first one comes first.
    indices = np.take(np.argsort(keys, axis=axis, kind="stable"), np.arange(count), axis=axis)
    return np.take_along_axis(x, indices, axis), indices


def _reduce(function, axes_input=False):
    def call(x, *more, **a):
        axes = tuple(int(axis) for axis in more[0]) if more else tuple(a["axes"]) if "axes" in a else None
        return function(x, axis=axes, keepdims=bool(a.get("keepdims", 1)))
    return call


def _sum_of_squares(x, **how):
    return np.sum(x * x, **how)


def _cut(x, starts, ends, axes=None, steps=None):
    where = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts, ends)):
        step = int(steps[i]) if steps is not None else 1
        axis = int(axes[i]) if axes is not None else i
        start, end = (int(np.clip(value, -(1 << 40), 1 << 40)) for value in (start, end))
        where[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(where)]


def _running(x, axis, **a):
    axis = int(axis)
    x = np.flip(x, axis) if a.get("reverse") else x
    sums = np.cumsum(x, axis)
    sums = sums - x if a.get("exclusive") else sums
    return np.flip(sums, axis) if a.get("reverse") else sums


def _scatter_elements(data, at, updates, **a):
    data = data.copy()
    np.put_along_axis(data, at, updates, a.get("axis", 0))
    return data


def _scatter_tuples(data, at, updates, **a):
    data = data.copy()
    for place in np.ndindex(at.shape[:-1]):
        where = tuple(at[place])
        data[where] = updates[place] + (data[where] if a.get("reduction") == "add" else 0)
    return data


def _softmax(x, **a):
    axis = a.get("axis", -1)
    if x.size == 0:
        return x
    powers = np.exp(x - x.max(axis=axis, keepdims=True))
    return powers / powers.sum(axis=axis, keepdims=True)


def _non_zero(x):
    return np.stack(np.nonzero(x)) if x.ndim else np.zeros((0, int(x != 0)), np.int64)


def _divide(x, y):
    return x / y if x.dtype.kind == "f" else (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)


def _pad(x, pads, value=np.float32(0)):
    return np.pad(x, [(int(pads[d]), int(pads[d + x.ndim])) for d in range(x.ndim)], constant_values=value)


def _filled(shape, **a):
    return np.full([int(size) for size in shape], numpy_helper.to_array(a["value"])[0])


def _compressed(x, keep, **a):
    return np.compress(keep, x, axis=a.get("axis"))


NODES = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _divide, "Neg": np.negative, "Exp": np.exp, "Greater": np.greater,
    "Max": lambda *x: np.maximum.reduce(x), "Min": lambda *x: np.minimum.reduce(x), "MatMul": np.matmul, "Where": np.where,
    "Shape": lambda x: np.array(x.shape, np.int64), "Size": lambda x: np.array(x.size, np.int64),
    "Cast": lambda x, to: x.astype(helper.mapping.TENSOR_TYPE_TO_NP_TYPE[to]),
    "Gather": lambda x, at, axis=0: np.take(x, at, axis), "GatherND": lambda x, at: x[tuple(np.moveaxis(at, -1, 0))],
    "Squeeze": lambda x, axes: np.squeeze(x, tuple(axes)), "Unsqueeze": lambda x, axes: np.expand_dims(x, tuple(axes)),
    "Reshape": lambda x, shape: x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)]),
    "Transpose": lambda x, perm: np.transpose(x, perm), "Concat": lambda *x, axis: np.concatenate(x, axis),
    "Expand": lambda x, shape: np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape))), "Tile": np.tile,
    "Range": lambda start, end, step: np.arange(start, end, step, np.int64), "ConstantOfShape": _filled, "Pad": _pad,
    "Slice": _cut, "CumSum": _running, "NonZero": _non_zero, "Compress": _compressed,
    "TopK": lambda x, k, **a: _top(x, k, a), "Softmax": _softmax, "LogSoftmax": lambda x, **a: np.log(_softmax(x, **a)),
    "ScatterElements": _scatter_elements, "ScatterND": _scatter_tuples,
    "ArgMax": lambda x, axis=0, keepdims=1: np.expand_dims(x.argmax(axis), axis) if keepdims else x.argmax(axis),
    "ArgMin": lambda x, axis=0, keepdims=1: np.expand_dims(x.argmin(axis), axis) if keepdims else x.argmin(axis),
    "ReduceSum": _reduce(np.sum), "ReduceMean": _reduce(np.mean), "ReduceProd": _reduce(np.prod),
    "ReduceMax": _reduce(lambda x, **how: np.max(x, initial=-np.inf, **how)),
    "ReduceMin": _reduce(lambda x, **how: np.min(x, initial=np.inf, **how)),
    "ReduceSumSquare": _reduce(_sum_of_squares), "ReduceL2": _reduce(lambda x, **how: np.sqrt(_sum_of_squares(x, **how))),
}


def evaluate(model, inputs):
    """The outputs of a model by name."""
    values = {one.name: numpy_helper.to_array(one) for one in model.graph.initializer}
    values.update(inputs)
    for node in model.graph.node:
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        attributes = {name: value.decode() if isinstance(value, bytes) else value for name, value in attributes.items()}
        results = NODES[node.op_type](*(values[name] for name in node.input), **attributes)
        results = results if isinstance(results, tuple) else (results,)
        values.update(zip(node.output, results))
    return {output.name: values[output.name] for output in model.graph.output}
