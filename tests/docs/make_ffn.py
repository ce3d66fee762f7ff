# SPDX-License-Identifier: Apache-2.0
"""Writes the model that docs/architecture.md walks through: a feed-forward layer as PyTorch exports it."""
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

TOKENS, WIDTH, HIDDEN = 1024, 1024, 4096


def make_model():
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array((random.standard_normal((WIDTH, HIDDEN)) / 32).astype(np.float32), "fc.weight")
    bias = numpy_helper.from_array(random.standard_normal(HIDDEN).astype(np.float32), "fc.bias")
    scalars = [numpy_helper.from_array(np.array(value, np.float32), name)
               for name, value in (("sqrt2", 2 ** 0.5), ("one", 1), ("half", 0.5))]
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["fc"], "fc"),
        helper.make_node("Add", ["fc", "fc.bias"], ["h"], "bias"),
        helper.make_node("Div", ["h", "sqrt2"], ["a"], "gelu/div"),
        helper.make_node("Erf", ["a"], ["e"], "gelu/erf"),
        helper.make_node("Add", ["e", "one"], ["f"], "gelu/add"),
        helper.make_node("Mul", ["h", "f"], ["g"], "gelu/mul"),
        helper.make_node("Mul", ["g", "half"], ["y"], "gelu/half"),
    ]
    graph = helper.make_graph(nodes, "ffn", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [TOKENS, WIDTH])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [TOKENS, HIDDEN])],
                              [weight, bias, *scalars])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    save(make_model(), sys.argv[1] if len(sys.argv) > 1 else "ffn.onnx")
