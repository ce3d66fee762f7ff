# SPDX-License-Identifier: Apache-2.0
"""Unusual models: graphs, shapes, ranks and attributes at the edge."""

import numpy as np
import torch
import torch.nn.functional as F

from unusual_case import Case, f32, i64, node, noise, ones, relu

X = noise(3, 4)
X3 = noise(2, 3, 4)
EMPTY = np.zeros((0, 4), np.float32)
EMPTY_INNER = np.zeros((3, 0), np.float32)
NO_ELEMENTS = "no elements"


def _instance_norm(x, scale, shift):
    return F.instance_norm(torch.tensor(x), weight=torch.tensor(scale), bias=torch.tensor(shift)).numpy()


def _softmax(x, axes):
    powers = np.exp(x)
    return powers / powers.sum(axes, keepdims=True)


GRAPHS = [
    Case("input_is_output", [], {"a": X}, [("a", X)]),
    Case("input_is_output_too", [node("Relu", ["a"], ["b"])], {"a": X}, [("b", relu(X)), ("a", X)]),
    Case("output_listed_twice", [node("Relu", ["a"], ["b"])], {"a": X},
         [("b", relu(X)), ("b", relu(X))], refusal="output 'b' is listed twice"),
    Case("unused_input", [node("Relu", ["a"], ["b"])], {"a": X, "u": noise(2, 2)}, [("b", relu(X))]),
    Case("constant_is_output", [node("Relu", ["a"], ["b"])], {"a": X},
         [("b", relu(X)), ("w", f32(0, 1, 2))], {"w": f32(0, 1, 2)}),
    Case("no_inputs_constant", [], {}, [("w", f32(0, 1, 2))], {"w": f32(0, 1, 2)}),
    Case("no_inputs_node", [node("Add", ["w", "w"], ["b"])], {}, [("b", f32(0, 2, 4))],
         {"w": f32(0, 1, 2)}),
    Case("input_with_default", [node("Add", ["a", "w"], ["b"])], {"a": X, "w": X}, [("b", X + X)],
         {"w": X}),
    Case("equal_node_names", [node("Relu", ["a"], ["b"], name="n"), node("Neg", ["b"], ["c"], name="n")],
         {"a": X}, [("c", -relu(X))]),
    Case("output_left_out", [node("Split", ["a", "s"], ["b", ""], axis=1)], {"a": X}, [("b", X[:, :1])],
         {"s": i64(1, 3)}),
    Case("one_operand_twice", [node("MatMul", ["a", "a"], ["b"])], {"a": ones(4, 4)}, [("b", 4 * ones(4, 4))]),
    Case("name_of_5000_letters", [node("Relu", ["a"], ["x" * 5000])], {"a": X}, [("x" * 5000, relu(X))]),
    Case("name_with_quotes_and_newline", [node("Relu", ['é"\n'], ["b"], name='a"b\n')], {'é"\n': X},
         [("b", relu(X))]),
    Case("64_outputs", [node("Split", ["a"], [f"o{k}" for k in range(64)], axis=0)], {"a": ones(64, 2)},
         [(f"o{k}", ones(1, 2)) for k in range(64)]),
    Case("chain_of_1500", [node("Relu" if k % 2 else "Neg", [f"v{k}"], [f"v{k + 1}"]) for k in range(1500)],
         {"v0": X}, [("v1500", 0 * X)]),
    Case("shape_is_output", [node("Shape", ["a"], ["b"])], {"a": X}, [("b", i64(3, 4))]),
    Case("free_batch", [node("Relu", ["a"], ["b"])], {"a": X3}, [("b", relu(X3))],
         shapes={"a": ["N", 3, 4], "b": ["N", 3, 4]}),
    Case("free_dims_without_names", [node("Relu", ["a"], ["b"])], {"a": X3}, [("b", relu(X3))],
         shapes={"a": [None, 3, None], "b": [None, 3, None]}),
    Case("shape_computed_from_free_batch",
         [node("Shape", ["a"], ["s"]), node("Gather", ["s", "zero"], ["n"]),
          node("Unsqueeze", ["n", "axis"], ["n1"]), node("Concat", ["n1", "rest"], ["t"], axis=0),
          node("Reshape", ["a", "t"], ["b"])],
         {"a": X3}, [("b", X3.reshape(2, 12))], {"zero": i64(0), "axis": np.array([0]), "rest": np.array([-1])},
         shapes={"a": ["N", 3, 4], "b": ["N", 12]}),
    Case("shape_from_an_input", [node("Reshape", ["a", "s"], ["b"])], {"a": X3, "s": i64(4, 6)},
         [("b", X3.reshape(4, 6))], refusal="Reshape.*--dim s_0=SIZE"),
    Case("count_from_an_input", [node("NonZero", ["a"], ["b"])], {"a": X}, [("b", np.stack(np.nonzero(X)))]),
    Case("unsupported_nodes", [node("Foo", ["a"], ["b"], domain="example.org"), node("Bar", ["b"], ["c"])],
         {"a": X}, [("c", X)], refusal="2 nodes are not supported", table_lines=3),
    Case("convolution_of_rank_6", [node("Conv", ["a", "w"], ["b"])], {"a": noise(1, 2, 4, 4, 4, 4)},
         [("b", np.zeros((1, 3, 3, 3, 3, 3), np.float32))], {"w": noise(3, 2, 2, 2, 2, 2)}, refusal="Conv.*rank 6"),
    Case("recurrence", [node("LSTM", ["a", "w", "r"], ["b"], hidden_size=3)], {"a": noise(2, 1, 4)},
         [("b", np.zeros((2, 1, 1, 3), np.float32))], {"w": 0 * noise(1, 12, 4), "r": noise(1, 12, 3)}),
    Case("top_2", [node("TopK", ["a", "k"], ["b", "c"])], {"a": X},
         [("b", -np.sort(-X)[:, :2]), ("c", np.argsort(-X)[:, :2])], {"k": np.array([2])}),
]

SCALARS = [
    Case("scalar_add", [node("Add", ["a", "b"], ["c"])], {"a": f32(2), "b": f32(3)}, [("c", f32(5))]),
    Case("scalar_relu", [node("Relu", ["a"], ["b"])], {"a": f32(-1)}, [("b", f32(0))]),
    Case("scalar_identity", [node("Identity", ["a"], ["b"])], {"a": f32(-1)}, [("b", f32(-1))]),
    Case("scalar_transpose", [node("Transpose", ["a"], ["b"])], {"a": f32(-1)}, [("b", f32(-1))]),
    Case("scalar_to_vector", [node("Unsqueeze", ["a", "x"], ["b"])], {"a": f32(-1)}, [("b", f32([-1]))],
         {"x": np.array([0])}),
    Case("vector_to_scalar", [node("Reshape", ["a", "s"], ["b"])], {"a": ones(1)}, [("b", f32(1))],
         {"s": np.zeros(0, np.int64)}),
    Case("matrix_to_scalar", [node("Squeeze", ["a"], ["b"])], {"a": ones(1, 1)}, [("b", f32(1))]),
    Case("scalar_expand_to_scalar", [node("Expand", ["a", "s"], ["b"])], {"a": f32(2)}, [("b", f32(2))],
         {"s": np.zeros(0, np.int64)}),
    Case("sum_to_scalar", [node("ReduceSum", ["a"], ["b"], keepdims=0)], {"a": X},
         [("b", np.array(X.sum(), np.float32))]),
    Case("vector_by_vector", [node("MatMul", ["a", "b"], ["c"])], {"a": f32(1, 2), "b": f32(3, 4)},
         [("c", f32(11))]),
]

RANKS = [
    Case("rank_6_transpose", [node("Transpose", ["a"], ["b"])], {"a": noise(2, 3, 2, 2, 3, 2)},
         [("b", noise(2, 3, 2, 2, 3, 2).transpose())]),
    Case("rank_7_transpose", [node("Transpose", ["a"], ["b"])], {"a": noise(*[2] * 7)},
         [("b", noise(*[2] * 7).transpose())]),
    Case("rank_8_add", [node("Add", ["a", "c"], ["b"])], {"a": noise(*[2] * 8), "c": noise(*[2] * 8)[:1]},
         [("b", noise(*[2] * 8) + noise(*[2] * 8)[:1])]),
    Case("rank_8_tile", [node("Tile", ["a", "r"], ["b"])], {"a": noise(*[2] * 8)},
         [("b", np.tile(noise(*[2] * 8), [1, 2, 1, 1, 1, 1, 1, 2]))], {"r": i64(1, 2, 1, 1, 1, 1, 1, 2)}),
    Case("rank_4_tile", [node("Tile", ["a", "r"], ["b"])], {"a": noise(2, 3, 4, 5)},
         [("b", np.tile(noise(2, 3, 4, 5), [2, 1, 3, 2]))], {"r": i64(2, 1, 3, 2)}),
    Case("rank_9", [node("Relu", ["a"], ["b"])], {"a": noise(*[2] * 9)}, [("b", relu(noise(*[2] * 9)))],
         refusal="has more than 8 dimensions"),
    Case("instance_norm_of_rank_3", [node("InstanceNormalization", ["a", "w", "s"], ["b"])],
         {"a": noise(2, 4, 9)}, [("b", _instance_norm(noise(2, 4, 9), f32(1, 2, 3, 4), f32(4, 3, 2, 1)))],
         {"w": f32(1, 2, 3, 4), "s": f32(4, 3, 2, 1)}),
    Case("instance_norm_of_rank_3_amid",
         [node("Relu", ["a"], ["r"]), node("InstanceNormalization", ["r", "w", "s"], ["n"]),
          node("Neg", ["n"], ["b"])],
         {"a": noise(2, 4, 9)}, [("b", -_instance_norm(relu(noise(2, 4, 9)), f32(1, 2, 3, 4), f32(4, 3, 2, 1)))],
         {"w": f32(1, 2, 3, 4), "s": f32(4, 3, 2, 1)}),
    Case("instance_norm_of_rank_5", [node("InstanceNormalization", ["a", "w", "s"], ["b"])],
         {"a": noise(2, 4, 3, 3, 2)},
         [("b", _instance_norm(noise(2, 4, 3, 3, 2), f32(1, 2, 3, 4), f32(4, 3, 2, 1)))],
         {"w": f32(1, 2, 3, 4), "s": f32(4, 3, 2, 1)}),
    Case("vector_by_batch", [node("MatMul", ["a", "c"], ["b"])], {"a": ones(4), "c": noise(2, 4, 3)},
         [("b", noise(2, 4, 3).sum(1))]),
    Case("batches_broadcast", [node("MatMul", ["a", "c"], ["b"])], {"a": ones(5, 1, 2, 3), "c": ones(1, 6, 3, 4)},
         [("b", 3 * ones(5, 6, 2, 4))]),
]

EMPTIES = [
    Case("empty_relu", [node("Relu", ["a"], ["b"])], {"a": EMPTY}, [("b", EMPTY)]),
    Case("empty_input_is_output", [], {"a": EMPTY}, [("a", EMPTY)]),
    Case("empty_beside_others", [node("Relu", ["a"], ["b"]), node("Relu", ["c"], ["d"])], {"a": EMPTY, "c": X},
         [("b", EMPTY), ("d", relu(X))]),
    Case("empty_constant_is_output", [], {}, [("w", EMPTY)], {"w": EMPTY}),
    Case("empty_product", [node("MatMul", ["a", "w"], ["b"])], {"a": EMPTY},
         [("b", np.zeros((0, 5), np.float32))], {"w": noise(4, 5)}),
    Case("empty_depth", [node("MatMul", ["a", "w"], ["b"])], {"a": EMPTY_INNER}, [("b", 0 * ones(3, 5))],
         {"w": np.zeros((0, 5), np.float32)}),
    Case("empty_depth_of_two_inputs", [node("MatMul", ["a", "w"], ["b"]), node("Add", ["b", "c"], ["d"])],
         {"a": EMPTY_INNER, "w": np.zeros((0, 4), np.float32), "c": X}, [("d", X)]),
    Case("empty_depth_of_a_large_product", [node("MatMul", ["a", "w"], ["b"])],
         {"a": np.zeros((300, 0), np.float32), "w": np.zeros((0, 500), np.float32)}, [("b", 0 * ones(300, 500))]),
    Case("empty_depth_with_bias", [node("Gemm", ["a", "w", "c"], ["b"], beta=2.0)], {"a": EMPTY_INNER, "c": f32(1, 2)},
         [("b", 2 * f32(1, 2) * ones(3, 1))], {"w": np.zeros((0, 2), np.float32)}),
    Case("empty_sum", [node("ReduceSum", ["a", "x"], ["b"], keepdims=0)], {"a": EMPTY}, [("b", 0 * ones(4))],
         {"x": np.array([0])}),
    Case("empty_kept_sum", [node("ReduceSum", ["a", "x"], ["b"])], {"a": EMPTY_INNER}, [("b", 0 * ones(3, 1))],
         {"x": np.array([1])}),
    Case("empty_sum_of_other_dims", [node("ReduceSum", ["a", "x"], ["b"], keepdims=0)], {"a": EMPTY},
         [("b", np.zeros(0, np.float32))], {"x": np.array([1])}),
    Case("empty_product_of_elements", [node("ReduceProd", ["a"], ["b"], keepdims=0)], {"a": EMPTY}, [("b", f32(1))]),
    Case("empty_mean", [node("ReduceMean", ["a"], ["b"], axes=[0], keepdims=0)], {"a": EMPTY}, [("b", np.nan * ones(4))]),
    # What ONNX says of it since opset 20; NumPy and PyTorch refuse it.
    Case("empty_maximum", [node("ReduceMax", ["a"], ["b"], axes=[0], keepdims=0)], {"a": EMPTY},
         [("b", -np.inf * ones(4))]),
    Case("empty_minimum_of_integers", [node("ReduceMin", ["a"], ["b"], axes=[0], keepdims=0)],
         {"a": np.zeros((0, 2), np.int32)}, [("b", np.full(2, 2**31 - 1, np.int32))]),
    Case("empty_largest_of_none", [node("ArgMax", ["a"], ["b"], axis=0, keepdims=0)], {"a": EMPTY},
         [("b", np.zeros(4, np.int64))], refusal=NO_ELEMENTS),
    Case("empty_softmax", [node("Softmax", ["a"], ["b"], axis=1)], {"a": EMPTY_INNER}, [("b", EMPTY_INNER)]),
    Case("empty_layer_norm", [node("LayerNormalization", ["a", "s", "t"], ["b"], axis=-1)], {"a": EMPTY}, [("b", EMPTY)],
         {"s": ones(4), "t": ones(4)}),
    Case("empty_part", [node("Concat", ["a", "c"], ["b"], axis=0)], {"a": EMPTY, "c": X}, [("b", X)]),
    Case("empty_part_of_three", [node("Concat", ["c", "a", "c"], ["b"], axis=0)], {"a": EMPTY, "c": X},
         [("b", np.concatenate([X, X]))]),
    Case("empty_parts", [node("Concat", ["a", "a"], ["b"], axis=1)], {"a": EMPTY}, [("b", np.zeros((0, 8), np.float32))]),
    Case("empty_broadcast", [node("Add", ["a", "c"], ["b"])], {"a": np.zeros((0, 1, 4), np.float32), "c": X},
         [("b", np.zeros((0, 3, 4), np.float32))]),
    Case("empty_choice", [node("Where", ["a", "c", "d"], ["b"])],
         {"a": np.zeros((0, 4), bool), "c": noise(1, 4), "d": f32(1)}, [("b", EMPTY)]),
    Case("empty_slice", [node("Slice", ["a", "s", "e", "x"], ["b"])], {"a": X}, [("b", X[:, 3:1])],
         {"s": np.array([3]), "e": np.array([1]), "x": np.array([1])}),
    Case("empty_split", [node("Split", ["a", "s"], ["b", "c"], axis=1)], {"a": X}, [("b", X[:, :0]), ("c", X)],
         {"s": i64(0, 4)}),
    Case("empty_reshape", [node("Reshape", ["a", "s"], ["b"], allowzero=1)], {"a": EMPTY},
         [("b", np.zeros((2, 0, 7), np.float32))], {"s": i64(2, 0, 7)}),
    Case("empty_transpose", [node("Transpose", ["a"], ["b"], perm=[1, 0])], {"a": EMPTY},
         [("b", np.zeros((4, 0), np.float32))]),
    Case("empty_pad", [node("Pad", ["a", "p", "v"], ["b"])], {"a": EMPTY}, [("b", 7 * ones(3, 4))],
         {"p": i64(1, 0, 2, 0), "v": f32(7)}),
    Case("empty_large_pad", [node("Pad", ["a", "p", "v"], ["b"]), node("Neg", ["b"], ["c"])], {"a": EMPTY},
         [("c", -7 * ones(9000, 4))], {"p": i64(4000, 0, 5000, 0), "v": f32(7)}),
    Case("empty_indices", [node("Gather", ["a", "i"], ["b"], axis=0)], {"a": X}, [("b", EMPTY)],
         {"i": np.zeros(0, np.int64)}),
    Case("empty_table", [node("Gather", ["a", "i"], ["b"], axis=0)], {"a": EMPTY, "i": i64(0, 0)}, [("b", 0 * ones(2, 4))],
         refusal=NO_ELEMENTS),
    Case("empty_cast", [node("Cast", ["a"], ["b"], to=7)], {"a": EMPTY}, [("b", np.zeros((0, 4), np.int64))]),
    Case("empty_shape", [node("Shape", ["a"], ["b"])], {"a": EMPTY}, [("b", i64(0, 4))]),
    Case("empty_batch", [node("Conv", ["a", "w"], ["b"])], {"a": np.zeros((0, 2, 3, 3), np.float32)},
         [("b", np.zeros((0, 3, 2, 2), np.float32))], {"w": ones(3, 2, 2, 2)}),
    Case("empty_batch_of_pools", [node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2])],
         {"a": np.zeros((0, 2, 3, 3), np.float32)}, [("b", np.zeros((0, 2, 2, 2), np.float32))]),
    Case("empty_cache",
         [node("Concat", ["past", "k"], ["present"], axis=1), node("Transpose", ["present"], ["kt"], perm=[0, 2, 1]),
          node("MatMul", ["k", "kt"], ["scores"]), node("Softmax", ["scores"], ["p"], axis=-1),
          node("MatMul", ["p", "present"], ["y"])],
         {"past": np.zeros((2, 0, 4), np.float32), "k": X3},
         [("present", X3), ("y", _softmax(X3 @ X3.transpose(0, 2, 1), -1) @ X3)],
         shapes={"past": [2, "past", 4], "k": [2, "seq", 4], "present": [2, "past + seq", 4]}),
    Case("empty_steps", [node("Range", ["z", "n", "o"], ["r"]), node("Cast", ["r"], ["f"], to=1), node("Add", ["f", "a"], ["b"])],
         {"a": f32(0.5)}, [("b", np.zeros(0, np.float32))], {"z": i64(0), "n": i64(0), "o": i64(1)}),
]


def _depthwise(name, kernel, pads):
    x, w = noise(1, 5, 4, 4), noise(5, 1, *kernel)
    padded = F.pad(torch.tensor(x), (pads[1], pads[3], pads[0], pads[2]))
    return Case(name, [node("Conv", ["a", "w"], ["b"], group=5, pads=pads, kernel_shape=kernel)], {"a": x},
                [("b", F.conv2d(padded, torch.tensor(w), groups=5).numpy())], {"w": w})


WINDOWS = [
    _depthwise("depthwise_1x1_padded", [1, 1], [0, 2, 0, 2]),
    _depthwise("depthwise_2x1_padded", [2, 1], [2, 2, 2, 0]),
    _depthwise("depthwise_3x1_padded", [3, 1], [1, 1, 1, 1]),
    _depthwise("depthwise_1x3_padded", [1, 3], [1, 1, 1, 1]),
    _depthwise("depthwise_padded_beyond_its_side", [2, 2], [2, 2, 2, 2]),
    Case("pointwise_padded", [node("Conv", ["a", "w"], ["b"], pads=[1, 1, 1, 1])], {"a": ones(1, 2, 3, 3)},
         [("b", np.pad(2 * ones(1, 3, 3, 3), ((0, 0), (0, 0), (1, 1), (1, 1))))], {"w": ones(3, 2, 1, 1)}),
    Case("conv_padded_by_5", [node("Conv", ["a", "w"], ["b"], pads=[5, 5, 5, 5])], {"a": ones(1, 2, 2, 2)},
         [("b", F.conv2d(torch.ones(1, 2, 2, 2), torch.ones(3, 2, 2, 2), padding=5).numpy())],
         {"w": ones(3, 2, 2, 2)}),
    Case("conv_same_lower", [node("Conv", ["a", "w"], ["b"], auto_pad="SAME_LOWER")], {"a": ones(1, 1, 3, 3)},
         [("b", f32([[[[1, 2, 2], [2, 4, 4], [2, 4, 4]]]]))], {"w": ones(1, 1, 2, 2)}),
    Case("conv_weights_are_an_input", [node("Conv", ["a", "w"], ["b"])],
         {"a": ones(1, 2, 3, 3), "w": ones(3, 2, 2, 2)}, [("b", 8 * ones(1, 3, 2, 2))]),
    Case("max_pool_padded", [node("MaxPool", ["a"], ["b"], kernel_shape=[2, 2], pads=[1, 1, 0, 0])],
         {"a": -ones(1, 1, 2, 2)}, [("b", -ones(1, 1, 2, 2))]),
    Case("max_pool_1d", [node("MaxPool", ["a"], ["b"], kernel_shape=[2])], {"a": X3},
         [("b", np.maximum(X3[..., :-1], X3[..., 1:]))]),
    Case("max_pool_1x1_strided", [node("MaxPool", ["a"], ["b"], kernel_shape=[1, 1], strides=[2, 2])],
         {"a": noise(1, 2, 5, 5)}, [("b", noise(1, 2, 5, 5)[:, :, ::2, ::2])]),
    Case("average_pool_same", [node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")],
         {"a": ones(1, 1, 3, 3)}, [("b", ones(1, 1, 3, 3))]),
    Case("average_pool_padded", [node("AveragePool", ["a"], ["b"], kernel_shape=[2, 2], pads=[0, 1, 0, 1])],
         {"a": ones(1, 2, 3, 3)}, [("b", ones(1, 2, 2, 4))]),
    Case("resize_by_sizes", [node("Resize", ["a", "", "", "s"], ["b"], mode="nearest",
                                  coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
         {"a": f32([[[[0, 1], [2, 3]]]])}, [("b", f32([[[[0, 1], [2, 3]]]]).repeat(2, 2).repeat(2, 3))],
         {"s": i64(1, 1, 4, 4)}),
]

MOVEMENT = [
    Case("slice_backwards_beyond_the_end", [node("Slice", ["a", "s", "e", "x", "t"], ["b"])], {"a": X},
         [("b", X[:, ::-2])], {"s": np.array([10]), "e": np.array([-100]), "x": np.array([1]), "t": np.array([-2])}),
    Case("split_in_equal_parts", [node("Split", ["a"], ["b", "c", "d"], axis=1)], {"a": noise(2, 9)},
         [(n, noise(2, 9)[:, k:k + 3]) for n, k in (("b", 0), ("c", 3), ("d", 6))]),
    Case("reshape_with_0_and_minus_1", [node("Reshape", ["a", "s"], ["b"])], {"a": X3}, [("b", X3.reshape(2, 12))],
         {"s": i64(0, -1)}),
    Case("reshape_of_opset_1", [node("Reshape", ["a"], ["b"], shape=[4, 6])], {"a": X3}, [("b", X3.reshape(4, 6))],
         opset=1),
    Case("unsqueeze_of_opset_12", [node("Unsqueeze", ["a"], ["b"], axes=[0, -1])], {"a": X},
         [("b", X[None, ..., None])], opset=12),
    Case("indices_from_an_input", [node("Gather", ["a", "i"], ["b"])], {"a": X, "i": i64(0, -1, 2)},
         [("b", X[[0, -1, 2]])]),
    Case("one_hot_with_indices_outside", [node("OneHot", ["a", "d", "v"], ["b"])], {"a": i64(1, -1, 9)},
         [("b", f32([[0, 1, 0], [0, 0, 1], [0, 0, 0]]))], {"d": i64(3), "v": f32(0, 1)}),
    Case("where_broadcasts", [node("Where", ["c", "a", "z"], ["b"])],
         {"c": np.array([[True], [False], [True]]), "a": X},
         [("b", np.where([[True], [False], [True]], X, 0).astype(np.float32))], {"z": f32(0)}),
]

ATTRIBUTES = [
    Case("softmax_of_opset_11", [node("Softmax", ["a"], ["b"])], {"a": X3}, [("b", _softmax(X3, (1, 2)))], opset=11),
    Case("add_of_opset_6", [node("Add", ["a", "c"], ["b"], broadcast=1, axis=1)], {"a": X3, "c": f32(0, 1, 2)},
         [("b", X3 + f32(0, 1, 2)[:, None])], opset=6),
    Case("dropout_of_opset_6", [node("Dropout", ["a"], ["b"], is_test=1)], {"a": X3}, [("b", X3)], opset=6),
    Case("batch_norm_of_opset_6", [node("BatchNormalization", ["a", "s", "c", "m", "v"], ["b"], is_test=1)],
         {"a": noise(2, 3, 4, 4)}, [("b", 2 * ones(2, 3, 4, 4))],
         {"s": 0 * ones(3), "c": 2 * ones(3), "m": ones(3), "v": ones(3)}, opset=6),
    Case("sum_over_nothing", [node("ReduceSum", ["a"], ["b"], noop_with_empty_axes=1)], {"a": X}, [("b", X)]),
    Case("clip_below_only", [node("Clip", ["a", "m"], ["b"])], {"a": X}, [("b", relu(X))], {"m": f32(0)}),
    Case("clip_above_only", [node("Clip", ["a", "", "m"], ["b"])], {"a": X}, [("b", np.minimum(X, 0))],
         {"m": f32(0)}),
    Case("gemm_with_scalar_bias", [node("Gemm", ["a", "w", "c"], ["b"])], {"a": X}, [("b", X @ ones(4, 2) + 5)],
         {"w": ones(4, 2), "c": f32(5)}),
    Case("prelu_slope_of_channels", [node("PRelu", ["a", "s"], ["b"])], {"a": -ones(2, 3, 4)},
         [("b", -ones(2, 3, 4) * f32([[0], [1], [2]]))], {"s": f32([[0], [1], [2]])}),
    Case("arg_max_takes_last_of_equals", [node("ArgMax", ["a"], ["b"], axis=1, keepdims=0, select_last_index=1)],
         {"a": f32([[1, 3, 3], [2, 2, 1]])}, [("b", i64(2, 1))]),
]

CASES = GRAPHS + SCALARS + RANKS + EMPTIES + WINDOWS + MOVEMENT + ATTRIBUTES
