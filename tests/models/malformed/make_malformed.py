#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the broken models of this folder and manifest.json, which says what is broken in each.

Every name in a model (node, value, file) is unlike the rest, so that an error line that mentions it
can only mean that object. The patterns of `mention` are case-insensitive regular expressions; all
of them must be found in the error output after the model's own path has been removed from it.
"""

import argparse
import json
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
FILES = {}  # name -> bytes
MANIFEST = {}  # name -> {"what", "mention"}


def add(name, what, mention, data):
    FILES[name] = data
    MANIFEST[name] = {"what": what, "mention": mention}


def value(name, dims, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, dims)


def weight(name, array):
    return numpy_helper.from_array(array, name)


def ones(*dims):
    return np.ones(dims, np.float32)


def model(nodes, inputs, outputs, initializers=(), opset=13):
    graph = helper.make_graph(nodes, "malformed", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset)] if opset is not None else []
    proto = helper.make_model(graph, opset_imports=imports or [helper.make_opsetid("", 13)],
                              producer_name="make_malformed", ir_version=8)
    if opset is None:
        del proto.opset_import[:]
    return proto


def node(op, inputs, outputs, name, **attributes):
    return helper.make_node(op, inputs, outputs, name=name, **attributes)


def one(op, input_dims, name, initializers=(), kind=FLOAT, output_dims=None, **attributes):
    """A model of one node: value `data` and the initializers in, `result` out (by default of
    as many dimensions as the input, each unknown)."""
    output_dims = output_dims or [f"size{axis}" for axis in range(len(input_dims))]
    operands = ["data"] + [tensor.name for tensor in initializers]
    return model([node(op, operands, ["result"], name, **attributes)],
                 [value("data", input_dims, kind)], [value("result", output_dims, kind)],
                 initializers).SerializeToString()


def make_unreadable_files():
    good = one("Relu", [2, 3], "relu_node", output_dims=[2, 3])
    add("empty.onnx", "a file of 0 bytes", ["empty|no graph|0 bytes"], b"")
    add("text.onnx", "a text file", ["parse|not an? (valid )?onnx|protobuf"],
        b"This is no model at all.\nIt has two lines.\n")
    add("truncated.onnx", "cut off in the middle", ["parse|truncated|not an? (valid )?onnx|protobuf"],
        good[:len(good) // 2])
    proto = model([], [], [])
    proto.ClearField("graph")
    add("no_graph.onnx", "a model without a graph", ["no graph|graph .*missing|without a graph|empty"],
        proto.SerializeToString())


def external(name, what, mention, location, **entries):
    """One MatMul whose weight `far_weight` (16 x f32) lies in another file."""
    tensor = TensorProto(name="far_weight", data_type=FLOAT, dims=[4, 4],
                         data_location=TensorProto.EXTERNAL)
    for key, text in dict(entries, location=location).items():
        entry = tensor.external_data.add()
        entry.key, entry.value = key, str(text)
    add(name, what, ["far_weight"] + mention,
        one("MatMul", [2, 4], "matmul_node", [tensor], output_dims=[2, 4]))


def make_external_data():
    FILES["weights.bin"] = ones(16).tobytes()  # 64 bytes
    external("external_missing.onnx", "the external file does not exist", [r"not_there\.bin"],
             "not_there.bin", offset=0, length=64)
    external("external_offset_beyond.onnx", "offset behind the end of the 64-byte file",
             [r"weights\.bin", "4096"], "weights.bin", offset=4096, length=64)
    external("external_length_beyond.onnx", "offset + length behind the end of the 64-byte file",
             [r"weights\.bin", "32|96"], "weights.bin", offset=32, length=64)
    external("external_offset_overflow.onnx", "offset + length overflows 64 bits",
             [r"weights\.bin"], "weights.bin", offset=2**64 - 32, length=64)
    external("external_offset_negative.onnx", "negative offset", ["-16"], "weights.bin",
             offset=-16, length=64)
    external("external_offset_text.onnx", "offset is no number", ["offset"], "weights.bin",
             offset="first", length=64)
    external("external_length_wrong.onnx", "length differs from what the shape needs",
             ["32", "64"], "weights.bin", offset=0, length=32)
    external("external_escape.onnx", "the path leaves the model's folder (the file exists)",
             [r"\.\./digits/model\.onnx", "outside|leaves|escape|director|folder"],
             "../digits/model.onnx", offset=0, length=64)
    external("external_absolute.onnx", "an absolute path", ["/dev/zero"], "/dev/zero",
             offset=0, length=64)


def make_graphs():
    x, y = [value("data", [2, 3])], [value("result", [2, 3])]
    add("cycle.onnx", "two nodes wait for each other", ["first_knot|second_knot|left_end|right_end"],
        model([node("Add", ["data", "right_end"], ["left_end"], "first_knot"),
               node("Relu", ["left_end"], ["right_end"], "second_knot"),
               node("Relu", ["left_end"], ["result"], "third_node")], x, y).SerializeToString())
    add("duplicate_value.onnx", "two nodes define one value", ["made_twice"],
        model([node("Relu", ["data"], ["made_twice"], "first_maker"),
               node("Neg", ["data"], ["made_twice"], "second_maker"),
               node("Abs", ["made_twice"], ["result"], "reader")], x, y).SerializeToString())
    add("undefined_input.onnx", "a node reads a value that nothing defines",
        ["from_nowhere", "add_node"],
        model([node("Add", ["data", "from_nowhere"], ["result"], "add_node")], x,
              y).SerializeToString())
    add("undefined_output.onnx", "a graph output that nothing defines", ["never_made"],
        model([node("Relu", ["data"], ["result"], "relu_node")], x,
              y + [value("never_made", [2, 3])]).SerializeToString())
    add("unknown_ops.onnx", "two different unknown ops and one of a foreign domain, all to be listed",
        ["FrobnicateTensor", "frobnicator", "GlorpReduce", "glorper", "ZorkConv", "zorker"],
        model([node("FrobnicateTensor", ["data"], ["a"], "frobnicator"),
               node("Relu", ["a"], ["b"], "relu_node"),
               node("GlorpReduce", ["b"], ["c"], "glorper"),
               node("ZorkConv", ["c"], ["result"], "zorker", domain="org.example")], x,
              y).SerializeToString())
    add("opset_future.onnx", "opset 999", ["opset", "999"],
        model([node("Relu", ["data"], ["result"], "relu_node")], x, y, opset=999)
        .SerializeToString())
    add("opset_ancient.onnx", "opset 1, whose ops have other attributes", ["opset"],
        model([node("Relu", ["data"], ["result"], "relu_node", consumed_inputs=[0])], x, y, opset=1)
        .SerializeToString())
    add("opset_missing.onnx", "no opset import", ["opset"],
        model([node("Relu", ["data"], ["result"], "relu_node")], x, y, opset=None)
        .SerializeToString())


def make_types():
    mixed = model([node("Add", ["data", "whole"], ["result"], "mixed_add")],
                  [value("data", [2, 3]), value("whole", [2, 3], INT64)], [value("result", [2, 3])])
    add("dtype_mixed.onnx", "Add of f32 and int64", ["mixed_add", "f32|float", "i64|int64"],
        mixed.SerializeToString())
    add("dtype_not_allowed.onnx", "Sqrt of int64", ["whole_root", "i64|int64"],
        one("Sqrt", [2, 3], "whole_root", kind=INT64, output_dims=[2, 3]))
    add("dtype_unknown.onnx", "an initializer of element type 99", ["odd_type", "99|type"],
        one("Add", [4], "add_node", [TensorProto(name="odd_type", data_type=99, dims=[4],
                                                 raw_data=bytes(16))], output_dims=[4]))
    add("attribute_type.onnx", "Softmax whose axis is a float", ["soft_node", "axis"],
        one("Softmax", [2, 3], "soft_node", output_dims=[2, 3], axis=1.5))
    add("attribute_missing.onnx", "Cast without `to`", ["cast_node", r"\bto\b|attribute"],
        one("Cast", [2, 3], "cast_node", output_dims=[2, 3]))


def make_sizes():
    huge = 2**40
    add("dims_huge_input.onnx", "2^80 input elements: the product overflows", ["data", str(huge)],
        one("Relu", [huge, huge], "relu_node", output_dims=[huge, huge]))
    add("dims_huge_weight.onnx", "an initializer of 2^80 elements and 16 bytes", ["huge_weight"],
        one("Add", [1, 1], "add_node", [TensorProto(name="huge_weight", data_type=FLOAT,
                                                 dims=[huge, huge], raw_data=bytes(16))]))
    # 4 x (2^60 + 1) x 4 bytes is 2^64 + 16: a 64-bit size wraps to the 16 bytes that are there.
    add("dims_wrap_to_fit.onnx", "an initializer whose byte count modulo 2^64 equals its data",
        ["wrapped_weight"],
        one("Add", [1, 1], "add_node", [TensorProto(name="wrapped_weight", data_type=FLOAT,
                                                 dims=[4, 2**60 + 1], raw_data=bytes(16))]))
    add("dims_negative_weight.onnx", "an initializer of dimensions -2 x -2", ["negative_weight", "-2"],
        one("Add", [1, 1], "add_node", [TensorProto(name="negative_weight", data_type=FLOAT,
                                                 dims=[-2, -2], raw_data=bytes(16))]))
    add("dims_negative_input.onnx", "an input dimension of -7", ["data", "-7"],
        one("Relu", [2, -7], "relu_node"))
    add("data_short.onnx", "an initializer with fewer bytes than its shape needs",
        ["short_weight", "12", "16"],
        one("Add", [4], "add_node", [TensorProto(name="short_weight", data_type=FLOAT, dims=[4],
                                                 raw_data=bytes(12))], output_dims=[4]))


def make_shapes():
    kernel = weight("kernel", ones(4, 3, 3, 3))
    image = [1, 3, 8, 8]

    def int64s(name, *numbers):
        return weight(name, np.array(numbers, np.int64))

    add("shape_matmul.onnx", "MatMul 2x4 by 5x6", ["bad_matmul", "4", "5"],
        one("MatMul", [2, 4], "bad_matmul", [weight("matrix", ones(5, 6))]))
    add("shape_gemm_bias.onnx", "Gemm with a bias that does not broadcast", ["bad_gemm", "7"],
        model([node("Gemm", ["data", "matrix", "bias"], ["result"], "bad_gemm")],
              [value("data", [2, 4])], [value("result", [2, 6])],
              [weight("matrix", ones(4, 6)), weight("bias", ones(7))]).SerializeToString())
    add("shape_broadcast.onnx", "Add of 2x3 and 2x4", ["bad_add", "3", "4"],
        one("Add", [2, 3], "bad_add", [weight("other", ones(2, 4))]))
    add("shape_conv_channels.onnx", "Conv of 5 channels with a kernel for 3", ["bad_conv", "5", "3"],
        one("Conv", [1, 5, 8, 8], "bad_conv", [kernel]))
    add("shape_conv_stride.onnx", "Conv with stride 0", ["bad_conv", "stride"],
        one("Conv", image, "bad_conv", [kernel], strides=[0, 1]))
    add("shape_conv_group.onnx", "Conv with group 0", ["bad_conv", "group"],
        one("Conv", image, "bad_conv", [kernel], group=0))
    add("shape_conv_small.onnx", "Conv whose kernel is larger than the padded image", ["bad_conv"],
        one("Conv", [1, 3, 2, 2], "bad_conv", [kernel]))
    add("shape_pool_kernel.onnx", "MaxPool with a kernel of 0", ["bad_pool", "kernel"],
        one("MaxPool", image, "bad_pool", kernel_shape=[0, 2], strides=[1, 1]))
    add("shape_reshape.onnx", "Reshape of 6 elements to 4", ["bad_reshape"],
        one("Reshape", [2, 3], "bad_reshape", [int64s("target", 2, 2)]))
    add("shape_reshape_two_free.onnx", "Reshape with two -1", ["bad_reshape", "-1"],
        one("Reshape", [2, 3], "bad_reshape", [int64s("target", -1, -1)]))
    add("shape_transpose.onnx", "Transpose whose permutation names a dimension twice",
        ["bad_transpose", "perm"], one("Transpose", [2, 3], "bad_transpose", perm=[0, 0]))
    add("shape_axis.onnx", "Softmax over axis 7 of a matrix", ["bad_softmax", "axis", "7"],
        one("Softmax", [2, 3], "bad_softmax", axis=7))
    add("shape_slice_step.onnx", "Slice with step 0", ["bad_slice", "step"],
        one("Slice", [2, 3], "bad_slice", [int64s("starts", 0), int64s("ends", 2),
                                           int64s("axes", 0), int64s("steps", 0)]))
    add("shape_split.onnx", "Split of 6 into 2 + 3", ["bad_split"],
        model([node("Split", ["data", "sizes"], ["result", "rest"], "bad_split", axis=0)],
              [value("data", [6])], [value("result", [2]), value("rest", [3])],
              [int64s("sizes", 2, 3)]).SerializeToString())
    add("shape_concat.onnx", "Concat of 2x3 and 2x3x1", ["bad_concat"],
        one("Concat", [2, 3], "bad_concat", [weight("other", ones(2, 3, 1))], axis=0))
    add("shape_declared.onnx", "the declared output shape is not the computed one", ["result", "9"],
        one("Relu", [2, 3], "relu_node", output_dims=[2, 9]))


def make_all():
    make_unreadable_files()
    make_external_data()
    make_graphs()
    make_types()
    make_sizes()
    make_shapes()
    FILES["manifest.json"] = (json.dumps(MANIFEST, indent=1) + "\n").encode()
    return FILES


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", default=HERE, help="folder to write to (default: this one)")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    for name, data in make_all().items():
        with open(os.path.join(args.out, name), "wb") as file:
            file.write(data)
    print(f"{len(MANIFEST)} models, {sum(map(len, FILES.values()))} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
