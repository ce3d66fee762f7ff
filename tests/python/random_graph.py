# SPDX-License-Identifier: Apache-2.0
"""A graph of ONNX nodes of which each knows how PyTorch computes it, and what is needed to make,
write and cut such graphs. Values are float64; float inputs and constants hold float32 numbers."""

import dataclasses
import os
import random
import typing

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import onnx_io

MAX_RANK = 8
MAX_ELEMENTS = 60000
MAX_MAGNITUDE = 1e4
# Relative size of the disturbance by which the conditioning of a graph is measured, and how much a
# graph may amplify it: beyond, a result is mostly rounding error and says nothing about the tools.
NOISE = 2.0**-20
MAX_AMPLIFICATION = 64.0
ELEMENT_TYPES = {torch.float64: TensorProto.FLOAT, torch.int64: TensorProto.INT64,
                 torch.bool: TensorProto.BOOL}


class Rejected(Exception):
    """The op cannot be applied to what is there; another one is tried."""


@dataclasses.dataclass(frozen=True)
class Node:
    """One ONNX node; `function` takes the inputs' tensors ("" inputs left out) and gives a tuple."""

    op: str
    inputs: tuple
    outputs: tuple
    attributes: dict
    function: typing.Callable

    def compute(self, values):
        return self.function(*(values[name] for name in self.inputs if name))


@dataclasses.dataclass
class Graph:
    """Nodes in topological order; outputs name values, of which some may be inputs."""

    opset: int
    inputs: dict = dataclasses.field(default_factory=dict)
    constants: dict = dataclasses.field(default_factory=dict)
    nodes: list = dataclasses.field(default_factory=list)
    outputs: list = dataclasses.field(default_factory=list)

    def evaluate(self):
        """Every value by name."""
        values = {**self.inputs, **self.constants}
        for node in self.nodes:
            values.update(zip(node.outputs, node.compute(values)))
        return values

    def with_outputs(self, outputs):
        """The part that these outputs need; inputs that nothing reads are dropped."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.outputs):
                nodes.insert(0, node)
                needed.update(node.inputs)
        return Graph(self.opset, {n: t for n, t in self.inputs.items() if n in needed},
                     {n: t for n, t in self.constants.items() if n in needed}, nodes, list(outputs))

    def cut(self, removed):
        """The graph without these nodes: what others read of them becomes an input."""
        values = self.evaluate()
        kept = [node for node in self.nodes if node not in removed]
        inputs = dict(self.inputs)
        for node in removed:
            inputs.update((name, as_stored(values[name])) for name in node.outputs)
        whole = Graph(self.opset, inputs, self.constants, kept, self.outputs)
        return whole.with_outputs(self.outputs)

    def to_onnx(self, values):
        def info(name):
            return helper.make_tensor_value_info(name, ELEMENT_TYPES[values[name].dtype],
                                                 list(values[name].shape))

        nodes = [helper.make_node(node.op, node.inputs, node.outputs,
                                  name=f"{node.op}_{node.outputs[0]}", **node.attributes)
                 for node in self.nodes]
        constants = [numpy_helper.from_array(to_numpy(t), n) for n, t in self.constants.items()]
        graph = helper.make_graph(nodes, "random", [info(n) for n in self.inputs],
                                  [info(n) for n in self.outputs], constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)],
                                 ir_version=8)

    def save(self, folder):
        """Writes model.onnx and test_data_set_0; returns their paths."""
        values = self.evaluate()
        model, data = os.path.join(folder, "model.onnx"), os.path.join(folder, "test_data_set_0")
        os.makedirs(folder, exist_ok=True)
        onnx.save(self.to_onnx(values), model)
        onnx_io.save_data_set(data, [(n, to_numpy(t)) for n, t in self.inputs.items()],
                              [(n, to_numpy(values[n])) for n in self.outputs])
        return model, data


def to_numpy(tensor):
    """As the file has it: float64 becomes float32."""
    tensor = tensor.float() if tensor.dtype == torch.float64 else tensor
    return np.array(tensor.numpy(), order="C")


def as_stored(tensor):
    """The value that reading the file gives."""
    return tensor.float().double() if tensor.dtype == torch.float64 else tensor.clone()


class Builder:
    """Grows a graph; every choice comes from the seed.

    `values` are the exact results. `disturbed` are those of a run in which each operand of each
    node is off by up to NOISE: their difference shows what rounding does to a value.
    """

    def __init__(self, seed, opset):
        self.rng = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)
        self.graph = Graph(opset)
        self.values, self.disturbed = {}, {}
        self.candidates = []  # names that later nodes may read, oldest first
        self.amplification = 1.0  # the largest of any value

    def uniform(self, *shape, low=-1.0, high=1.0):
        return torch.rand(shape, generator=self.generator).double() * (high - low) + low

    def _add(self, table, prefix, tensor):
        name = f"{prefix}{len(table)}"
        table[name] = self.values[name] = self.disturbed[name] = as_stored(tensor)
        return name

    def input(self, tensor):
        name = self._add(self.graph.inputs, "in", tensor)
        if tensor.dtype == torch.float64:
            self.candidates.append(name)
        return name

    def constant(self, tensor):
        return self._add(self.graph.constants, "const", tensor)

    def weight(self, *shape, low=-1.0, high=1.0):
        return self.constant(self.uniform(*shape, low=low, high=high))

    def integers(self, numbers):
        return self.constant(torch.tensor(numbers, dtype=torch.int64))

    def number(self, value):
        return self.constant(torch.tensor(value, dtype=torch.float64))

    def chance(self, probability):
        return self.rng.random() < probability

    def pick(self, suits=lambda tensor: True, min_rank=0, max_rank=MAX_RANK):
        """A float value that suits; the newest ones are preferred, so that chains grow."""
        names = [name for name in self.candidates
                 if min_rank <= self.values[name].dim() <= max_rank and suits(self.values[name])]
        if not names:
            raise Rejected
        return self.rng.choice(names[-4:] if self.chance(0.6) else names)

    def _off(self, tensor):
        if tensor.dtype != torch.float64:
            return tensor
        return tensor * (1 + NOISE * self.uniform(*tensor.shape))

    def _check(self, exact, disturbed):
        """The amplification of a result that is worth having."""
        if exact.dim() > MAX_RANK or exact.numel() == 0 or exact.numel() > MAX_ELEMENTS:
            raise Rejected
        if exact.dtype != torch.float64:
            if not torch.equal(exact, disturbed):  # decided by rounding
                raise Rejected
            return 1.0
        if not (torch.isfinite(exact).all() and torch.isfinite(disturbed).all()):
            raise Rejected
        largest = exact.abs().max().item()
        error = (exact - disturbed).abs().max().item()
        if largest > MAX_MAGNITUDE or error > MAX_AMPLIFICATION * NOISE * largest:
            raise Rejected
        return error / (NOISE * largest) if largest > 0 else 1.0

    def emit(self, op, inputs, function, outputs=1, **attributes):
        """Appends a node and returns the name of its output (a tuple of names for several)."""
        operands = [name for name in inputs if name]
        exact = function(*(self.values[name] for name in operands))
        disturbed = function(*(self._off(self.disturbed[name]) for name in operands))
        exact, disturbed = (r if isinstance(r, tuple) else (r,) for r in (exact, disturbed))
        assert len(exact) == outputs
        worst = max(self._check(a, b) for a, b in zip(exact, disturbed))
        self.amplification = max(self.amplification, worst)
        first = sum(len(node.outputs) for node in self.graph.nodes)
        names = tuple(f"v{first + k}" for k in range(outputs))
        as_tuple = function if outputs > 1 else lambda *tensors: (function(*tensors),)
        self.graph.nodes.append(Node(op, tuple(inputs), names, attributes, as_tuple))
        for name, a, b in zip(names, exact, disturbed):
            self.values[name], self.disturbed[name] = a, b
            if a.dtype == torch.float64:
                self.candidates.append(name)
        return names if outputs > 1 else names[0]
