# SPDX-License-Identifier: Apache-2.0
"""What an unusual model is made of, and short forms for the tables of them."""

import dataclasses
import typing

import numpy as np
from onnx import helper

node = helper.make_node


@dataclasses.dataclass
class Case:
    """Nodes, inputs with their data, and outputs with what is expected of them.

    An input that is also a constant has a default value and gets no data. `shapes` are written into
    the model in place of the data's. `refusal` matches the one line of the error that must come
    instead of a result; `table_lines` are the lines of the table that may follow it.
    """

    name: str
    nodes: list
    inputs: dict
    outputs: list
    constants: dict = dataclasses.field(default_factory=dict)
    opset: int = 17
    shapes: dict = dataclasses.field(default_factory=dict)
    flags: tuple = ()
    refusal: typing.Optional[str] = None
    table_lines: int = 0


def f32(*numbers):
    """A vector; f32() of one number is a scalar."""
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.float32)


def i64(*numbers):
    return np.array(numbers[0] if len(numbers) == 1 else numbers, np.int64)


def ones(*shape):
    return np.ones(shape, np.float32)


def noise(*shape):
    """Numbers in [-1, 1) that depend on the shape only."""
    return np.random.RandomState(len(shape)).uniform(-1, 1, shape).astype(np.float32)


def relu(x):
    return np.maximum(x, 0)
