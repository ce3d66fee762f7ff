# SPDX-License-Identifier: Apache-2.0
"""Random models whose states scatters update, with readers of what they were and became; each node beside numpy."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from openhpu_cases import model_of
from unusual_scatters import scatter_elements, scatter_nd

KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.float16): TensorProto.FLOAT16,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.int64): TensorProto.INT64}


class Updates:
    """A model of states that scatters update; `run(sizes, states, inputs)` computes it with numpy."""

    def __init__(self, seed, dtype=np.float32, exact=False):
        self.random = np.random.default_rng(seed)
        self.dtype, self.exact = np.dtype(dtype), exact
        self.nodes, self.steps, self.constants = [], [], []
        self.inputs, self.outputs, self.states = {}, [], {}
        self.highs, self.dims, self.values = {}, {}, 0
        for index in range(self.pick(1, 1, 2)):
            self.state(index)

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def name(self):
        self.values += 1
        return f"v{self.values}"

    def free(self, name, low, high):
        """A number, or a dimension of this name."""
        if self.pick(True, False):
            self.dims[name] = (low, high)
            return name
        return int(self.random.integers(low, high + 1))

    def add(self, op, names, compute, **attributes):
        """A node of one output, and what it computes of the operands' arrays."""
        out = self.name()
        self.nodes.append(helper.make_node(op, names, [out], **attributes))
        self.steps.append((out, names, compute))
        return out

    def constant(self, value):
        name = self.name()
        self.constants.append((name, np.asarray(value)))
        return name

    def input(self, shape, dtype, high=None, low=None):
        name = f"x{len(self.inputs)}"
        self.inputs[name] = (shape, np.dtype(dtype))
        if high is not None:
            self.highs[name] = (low, high)
        return name

    def output(self, name, shape, dtype=None):
        self.outputs.append((name, shape, np.dtype(dtype or self.dtype)))

    # ---- A state ----

    def state(self, index):
        batch, cap = self.free(f"batch{index}", 1, 3), self.free(f"cap{index}", 4, 40)
        heads, width = self.pick(1, 2, 3), self.pick(1, 4, 8, 9)
        shape = [batch, heads, cap, width]
        if self.pick(True, False):
            shape = [batch, cap, heads, width]
        past = f"past{index}"
        self.inputs[past] = (tuple(shape), self.dtype)
        value, at = past, list(shape)
        values = [(value, list(at))]
        for _ in range(self.pick(1, 1, 2, 3)):
            value, at = self.update(value, at)
            values.append((value, list(at)))
        # Back to the state's own shape.
        if at != shape:
            value, at = self.view_back(value, at, shape)
        out = f"present{index}"
        self.nodes.append(helper.make_node("Identity", [value], [out]))
        self.steps.append((out, [value], lambda x: x))
        self.output(out, tuple(shape))
        self.states[out] = past
        for _ in range(self.pick(0, 1, 2, 3)):
            self.read(*values[self.random.integers(len(values))], value)

    def view_back(self, value, at, shape):
        perm = []
        for dim in shape:
            perm.append(next(axis for axis, size in enumerate(at) if size == dim and axis not in perm))
        return self.add("Transpose", [value], lambda x, p=tuple(perm): x.transpose(p), perm=perm), list(shape)

    def update(self, value, at):
        if self.pick(True, False, False):
            perm = list(self.random.permutation(4))
            value = self.add("Transpose", [value], lambda x, p=tuple(perm): x.transpose(p), perm=[int(p) for p in perm])
            at = [at[p] for p in perm]
        count = self.pick(1, 2, 3)
        reduction = {} if self.exact else self.pick({}, {}, {"reduction": "add"}, {"reduction": "max"})
        mode = reduction.get("reduction", "none")
        low = {dim: self.dims[dim][0] if isinstance(dim, str) else dim for dim in at}
        if self.pick(True, False):
            depth = self.pick(1, 2, 3)
            most = min(low[dim] for dim in at[:depth])
            indices = self.input((count, depth), np.int64, most + self.pick(0, 0, 0, 1), -most)
            rest = tuple(at[depth:])
            if any(isinstance(dim, str) for dim in rest) or self.pick(True, False):
                updates = self.input((count, *rest), self.dtype)
            else:
                updates = self.near(value, at, (count, *rest))
            out = self.add("ScatterND", [value, indices, updates], lambda x, i, u: scatter_nd(x, i, u, mode), **reduction)
        else:
            axis = self.pick(0, 1, 2, 3)
            shape = list(at)
            shape[axis] = count
            # Other dims in part only, where they are numbers.
            for d in range(4):
                if d != axis and not isinstance(shape[d], str) and self.pick(True, False, False):
                    shape[d] = int(self.random.integers(1, shape[d] + 1))
            indices = self.input(tuple(shape), self.pick(np.int32, np.int64), low[at[axis]], -low[at[axis]])
            updates = self.input(tuple(shape), self.dtype)
            out = self.add("ScatterElements", [value, indices, updates],
                           lambda x, i, u: scatter_elements(x, i, u, axis, mode), axis=axis, **reduction)
        return out, at

    def near(self, value, at, shape):
        """Updates that are a part of what is updated."""
        size = int(np.prod(shape))
        if any(isinstance(dim, str) for dim in at) or size > np.prod([int(dim) for dim in at]):
            return self.input(shape, self.dtype)
        flat = self.add("Reshape", [value, self.constant(np.array([-1]))], lambda x, _: x.reshape(-1))
        head = self.add("Slice", [flat, self.constant(np.array([0])), self.constant(np.array([size]))],
                        lambda x, a, b: x[int(a[0]):int(b[0])])
        return self.add("Reshape", [head, self.constant(np.array(shape))], lambda x, _, s=tuple(shape): x.reshape(s))

    def read(self, value, at, last):
        """An output of what a state is at some point."""
        at = list(at)
        kind = self.pick("sum", "same", "rows", "late", "scatter", "negated")
        if kind == "sum":
            axis = self.pick(0, 1, 2, 3)
            at = [size for d, size in enumerate(at) if d != axis]
            self.output(self.add("ReduceMax", [value], lambda x: x.max(axis), axes=[axis], keepdims=0), tuple(at))
        elif kind == "same":
            self.output(self.add("Identity", [value], lambda x: x), tuple(at))
        elif kind == "negated":
            self.output(self.add("Neg", [value], lambda x: -x), tuple(at))
        elif kind == "rows":
            axis = self.pick(0, 1, 2, 3)
            most = self.dims[at[axis]][0] if isinstance(at[axis], str) else at[axis]
            rows = self.input((2,), np.int64, most, -most)
            at[axis] = 2
            self.output(self.add("Gather", [value, rows], lambda x, i: np.take(x, i, axis), axis=axis), tuple(at))
        elif kind == "late":
            # It follows from the last state, and reads an earlier one.
            one = self.add("ReduceMax", [last], lambda x: x.max(keepdims=True), axes=[0, 1, 2, 3], keepdims=1)
            self.output(self.add("Max", [value, one], np.maximum), tuple(at))
        else:
            indices = self.input((2, 1), np.int64, self.dims[at[0]][0] if isinstance(at[0], str) else at[0], 0)
            updates = self.input((2, *at[1:]), self.dtype)
            self.output(self.add("ScatterND", [value, indices, updates], scatter_nd), tuple(at))

    # ---- To run it ----

    def model(self):
        kind = lambda name, shape, dtype: (name, KINDS[dtype], shape)
        self.random.shuffle(self.outputs)
        model = model_of(self.ordered(), [kind(name, *one) for name, one in self.inputs.items()],
                         [kind(*one) for one in self.outputs])
        model.opset_import[0].version = 18 if any("reduction" in str(node.attribute) for node in self.nodes) else 13
        if model.opset_import[0].version == 18:
            for node in model.graph.node:
                if node.op_type == "ReduceMax":
                    axes = [attribute for attribute in node.attribute if attribute.name == "axes"]
                    node.input.append(self.constant(np.array(axes[0].ints)))
                    node.attribute.remove(axes[0])
        model.graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in self.constants)
        return model

    def ordered(self):
        """The nodes in another order that is one, too."""
        left, known, order = list(self.nodes), set(self.inputs) | {name for name, _ in self.constants}, []
        while left:
            ready = [node for node in left if all(name in known for name in node.input)]
            node = ready[self.random.integers(len(ready))]
            left.remove(node)
            known.update(node.output)
            order.append(node)
        return order

    def sizes(self):
        return {name: int(self.random.integers(low, high + 1)) for name, (low, high) in self.dims.items()}

    def array(self, name, sizes):
        shape, dtype = self.inputs[name]
        shape = [sizes.get(dim, dim) for dim in shape]
        if name in self.highs:
            low, high = self.highs[name]
            return self.random.integers(low, high, shape, dtype=dtype) if high > low else np.zeros(shape, dtype)
        # Small fractions are exact in each type.
        return (self.random.integers(-64, 64, shape) / 8).astype(dtype)

    def compute(self, arrays):
        known = {**dict(self.constants), **arrays}
        for out, names, compute in self.steps:
            known[out] = np.asarray(compute(*(known[name] for name in names)))
        return {name: known[name] for name, _, _ in self.outputs}
