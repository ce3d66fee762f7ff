#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Each op of com.microsoft that imports, ops of detectors, and recurrent ones, against ONNX Runtime. Exit codes: 0 ok, 1 a difference or a failure, 77 ONNX Runtime is not there."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from case_runner import ROOT, arguments, has_onnx_runtime, run_cases

RUNNER = os.path.join(ROOT, "benchmarks", "ort", "ort_run.js")
TYPES = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64, "int32": TensorProto.INT32, "uint8": TensorProto.UINT8, "int8": TensorProto.INT8, "bool": TensorProto.BOOL}
# Of outputs by name; others are floats.
OUTPUTS = {"mask": TensorProto.INT32, "q": TensorProto.UINT8, **dict.fromkeys(("chosen", "first", "inverse", "counts"), TensorProto.INT64)}
NEWER = ("Attention-23", "RotaryEmbedding-23")
IMAGES = ("AffineGrid", "CenterCropPad", "Col2Im", "DeformConv")  # Of opsets 18 to 20.
STANDARD = (*IMAGES, "MaxRoiPool", "NonMaxSuppression", "Unique", "RoiAlign", "Det", "SimplifiedLayerNormalization", "RNN", "GRU", "LSTM", "TfIdfVectorizer")
RNG = np.random.default_rng(7)
BATCH, STEPS, HEADS, DEPTH = 2, 5, 4, 8
WIDTH = HEADS * DEPTH


def noise(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def bytes_of(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


def cases():
    """(name, op, inputs (None: left out), outputs ("": not asked for), attributes, inputs that are constants)"""
    x, mask = noise(BATCH, STEPS, WIDTH), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    qkv = [noise(WIDTH, 3 * WIDTH), noise(3 * WIDTH)]
    keys = [noise(BATCH, 6, WIDTH), noise(BATCH, 6, WIDTH)]
    past = [noise(BATCH, HEADS, 3, DEPTH), noise(BATCH, HEADS, 3, DEPTH)]
    caches = [noise(16, DEPTH // 2), noise(16, DEPTH // 2)]
    heads = {"num_heads": HEADS}
    yield "Gelu", "Gelu", [noise(3, 7)], ["y"], {}, ()
    yield "BiasGelu", "BiasGelu", [noise(3, 7), noise(7)], ["y"], {}, ()
    yield "FastGelu", "FastGelu", [noise(3, 7)], ["y"], {}, ()
    yield "FastGelu with a bias", "FastGelu", [noise(3, 7), noise(7)], ["y"], {}, ()
    yield "QuickGelu", "QuickGelu", [noise(3, 7)], ["y"], {"alpha": 1.3}, ()
    yield "SkipLayerNormalization", "SkipLayerNormalization", [x, noise(*x.shape), noise(WIDTH)], ["y"], {"epsilon": 1e-5}, ()
    yield "SkipLayerNormalization, all", "SkipLayerNormalization", [x, noise(*x.shape), noise(WIDTH), noise(WIDTH), noise(WIDTH)], ["y", "", "", "sum"], {"epsilon": 1e-5}, ()
    yield "SkipSimplified", "SkipSimplifiedLayerNormalization", [x, noise(*x.shape), noise(WIDTH), noise(WIDTH)], ["y", "", "", "sum"], {"epsilon": 1e-5}, ()
    ids = RNG.integers(0, 11, (BATCH, STEPS)).astype(np.int32)
    yield "EmbedLayerNormalization", "EmbedLayerNormalization", [ids, RNG.integers(0, 2, ids.shape).astype(np.int32), noise(11, WIDTH), noise(9, WIDTH), noise(2, WIDTH), noise(WIDTH), noise(WIDTH)], ["y", "mask"], {"epsilon": 1e-5}, ()
    yield "FusedMatMul", "FusedMatMul", [noise(2, 7, 3), noise(2, 7, 5)], ["y"], {"transA": 1, "alpha": 0.5}, ()
    yield "FusedMatMul, both", "FusedMatMul", [noise(7, 3), noise(5, 7)], ["y"], {"transA": 1, "transB": 1}, ()
    yield "Attention", "Attention", [x, *qkv], ["y"], heads, ()
    yield "Attention, causal", "Attention", [x, *qkv], ["y"], {"unidirectional": 1, **heads}, ()
    yield "Attention, a mask", "Attention", [x, *qkv, mask], ["y"], heads, ()
    yield "Attention, lengths", "Attention", [x, *qkv, np.array([3, 5], np.int32)], ["y"], heads, ()
    yield "Attention, a cache", "Attention", [x, *qkv, None, np.stack(past)], ["y", "present"], {"unidirectional": 1, **heads}, ()
    yield "MultiHeadAttention", "MultiHeadAttention", [x, *keys, noise(3 * WIDTH)], ["y"], heads, ()
    yield "MultiHeadAttention, a mask", "MultiHeadAttention", [x, *keys, None, np.array([[1, 1, 1, 0, 0, 0], [1] * 6], np.int32)], ["y"], heads, ()
    yield "MultiHeadAttention, a bias", "MultiHeadAttention", [x, *keys, None, None, noise(1, HEADS, STEPS, 6)], ["y"], {"scale": 0.3, **heads}, ()
    yield "MultiHeadAttention, a cache", "MultiHeadAttention", [x, noise(*x.shape), noise(*x.shape), None, None, None, *past], ["y", "k", "v"], heads, ()
    yield "RotaryEmbedding", "RotaryEmbedding", [x, np.arange(STEPS, dtype=np.int64)[None].repeat(BATCH, 0), *caches], ["y"], {}, ()
    yield "RotaryEmbedding, pairs", "RotaryEmbedding", [noise(BATCH, HEADS, STEPS, DEPTH), np.array([2], np.int64), *caches], ["y"], {"interleaved": 1}, ()
    for k, n in ((32, 5), (48, 6)):
        blocks = k // 16
        attributes = {"K": k, "N": n, "bits": 4, "block_size": 16}
        weights = [bytes_of(n, blocks, 8), noise(n * blocks)]
        yield f"MatMulNBits {k}", "MatMulNBits", [noise(3, k), *weights], ["y"], attributes, (1, 2)
        yield f"MatMulNBits {k} with zero points", "MatMulNBits", [noise(3, k), *weights, bytes_of(n * ((blocks + 1) // 2))], ["y"], attributes, (1, 2, 3)


    words = {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": [0, 3], "ngram_indexes": [0, 1, 1, 2, 2, 1], "pool_int64s": [2, 3, 5, 3, 5, 2, 3, 5, 2]}
    yield "TfIdfVectorizer, columns of several grams", "TfIdfVectorizer", [RNG.choice([2, 3, 5, 9], (4, 7)).astype(np.int32)], ["y"], {"mode": "TF", **words}, ()
    weighted = {**words, "ngram_indexes": [4, 0, 3, 2, 5, 1], "weights": [2.0, 3.0, 5.0, 7.0, 11.0, 13.0]}
    for mode in ("IDF", "TFIDF"):
        yield f"TfIdfVectorizer, weights, {mode}", "TfIdfVectorizer", [RNG.choice([2, 3, 5, 9], (4, 7)).astype(np.int32)], ["y"], {"mode": mode, **weighted}, ()
    shared = {**weighted, "ngram_indexes": [0, 1, 1, 2, 2, 1]}
    yield "TfIdfVectorizer, weights of shared columns", "TfIdfVectorizer", [RNG.choice([2, 3, 5, 9], (4, 7)).astype(np.int32)], ["y"], {"mode": "TFIDF", **shared}, ()
    yield "TfIdfVectorizer, shorter than a gram", "TfIdfVectorizer", [np.array([3], np.int64)], ["y"], {"mode": "TF", **words}, ()
    yield from recurrent()
    yield from grouped()
    yield from fused()
    yield from quantised(x, mask)
    yield from standard()


def recurrent():
    """Activations other than the usual ones, which random models do not draw, and what goes with them."""
    steps, inputs, hidden = 6, 4, 3
    def operands(gates, directions):
        return [noise(steps, BATCH, inputs), noise(directions, gates * hidden, inputs), noise(directions, gates * hidden, hidden), noise(directions, 2 * gates * hidden)]
    size = {"hidden_size": hidden}
    for name in ("Relu", "LeakyRelu", "HardSigmoid", "Elu", "Softsign", "Softplus", "Affine", "ScaledTanh", "ThresholdedRelu"):
        numbers = {"activation_alpha": [0.3], "activation_beta": [0.6]} if name in ("HardSigmoid", "Affine", "ScaledTanh") else {"activation_alpha": [0.3]} if name in ("LeakyRelu", "Elu", "ThresholdedRelu") else {}
        yield f"RNN, {name}", "RNN", operands(1, 1), ["y", "h"], {"activations": [name], "clip": 1.5, **numbers, **size}, ()
    mixed = ["HardSigmoid", "LeakyRelu", "Tanh", "Sigmoid", "Elu", "Softsign"]
    yield "LSTM, activations of both directions", "LSTM", operands(4, 2), ["y", "h", "c"], {"direction": "bidirectional", "activations": mixed, "activation_alpha": [0.25, 0.1, 0.7], "activation_beta": [0.4], **size}, ()
    yield "LSTM, one gate for two, clipped", "LSTM", operands(4, 1), ["y", "h", "c"], {"input_forget": 1, "clip": 0.4, **size}, ()
    yield "GRU, activations and lengths", "GRU", operands(3, 2) + [np.array([6, 2], np.int32)], ["y", "h"], {"direction": "bidirectional", "activations": ["Sigmoid", "Relu", "HardSigmoid", "Tanh"], "activation_alpha": [0.3], "activation_beta": [0.4], **size}, ()


def grouped():
    """Four heads of the query on two of keys and values."""
    pairs, depth = 2, 16  # ONNX Runtime turns rows of 16 only.
    width, caches = pairs * depth, [noise(16, depth // 2), noise(16, depth // 2)]
    heads = {"num_heads": HEADS, "kv_num_heads": pairs}
    names = ["y", "k", "v"]

    def fresh(steps):
        return [noise(BATCH, steps, HEADS * depth), noise(BATCH, steps, width), noise(BATCH, steps, width)]

    def lengths(*counts):
        return np.array(counts, np.int32)

    first = [None, None, lengths(STEPS - 1, STEPS - 1), lengths(STEPS)]
    yield "GroupQueryAttention", "GroupQueryAttention", [*fresh(STEPS), *first], names, heads, (6,)
    yield "GroupQueryAttention, packed", "GroupQueryAttention", [noise(BATCH, STEPS, HEADS * depth + 2 * width), None, None, *first], names, heads, (6,)
    yield "GroupQueryAttention, rotary", "GroupQueryAttention", [*fresh(STEPS), *first, *caches], names, {"do_rotary": 1, "scale": 0.4, **heads}, (6,)
    yield "GroupQueryAttention, a window", "GroupQueryAttention", [*fresh(STEPS), *first], names, {"local_window_size": 2, **heads}, (6,)
    past = [noise(BATCH, pairs, 3, depth), noise(BATCH, pairs, 3, depth)]
    yield "GroupQueryAttention, a cache", "GroupQueryAttention", [*fresh(1), *past, lengths(3, 3), lengths(4), *caches], names, {"do_rotary": 1, "rotary_interleaved": 1, **heads}, (6,)
    yield "GroupQueryAttention, a cache and a softcap", "GroupQueryAttention", [*fresh(1), *past, lengths(3, 3), lengths(4)], names, {"softcap": 2.0, "local_window_size": 3, **heads}, (6,)


def fused():
    image, weights = noise(1, 3, 7, 6), noise(4, 3, 3, 3)
    for name, attributes in (("Relu", {}), ("Tanh", {}), ("Sigmoid", {}), ("LeakyRelu", {"activation_params": [0.2]}), ("Clip", {"activation_params": [-0.5, 0.7]})):
        yield f"FusedConv, {name}", "FusedConv", [image, weights, noise(4)], ["y"], {"activation": name, "pads": [1, 1, 1, 1], **attributes}, (1, 2)
    yield "FusedConv, a sum", "FusedConv", [image, weights, noise(4), noise(1, 4, 5, 4)], ["y"], {"activation": "Relu"}, (1, 2)
    yield "FusedGemm", "FusedGemm", [noise(5, 3), noise(4, 3), noise(4)], ["y"], {"transB": 1, "alpha": 0.5, "beta": 2.0, "activation": "LeakyRelu", "activation_alpha": 0.1}, ()


def quantised(x, mask):
    def number(value):
        return np.array(value, np.float32)

    def zero(value):
        return np.array(value, np.uint8)

    a, b = [bytes_of(3, 8), number(0.02), zero(120)], [bytes_of(3, 8), number(0.03), zero(131)]
    scales = (1, 2, 4, 5, 6, 7)
    yield "QLinearAdd", "QLinearAdd", [*a, *b, number(0.05), zero(125)], ["q"], {}, scales
    yield "QLinearMul", "QLinearMul", [*a, *b, number(0.06), zero(128)], ["q"], {}, scales
    all_pairs = [each.astype(np.uint8) for each in np.meshgrid(np.arange(256), np.arange(256))]  # With all the ties that there are.
    yield "QLinearMul, ties", "QLinearMul", [all_pairs[0], number(0.1), zero(128), all_pairs[1], number(0.3), zero(100), number(0.06), zero(9)], ["q"], {}, scales
    yield "QLinearAdd, ties", "QLinearAdd", [all_pairs[0], number(0.1), zero(128), all_pairs[1], number(0.3), zero(100), number(0.16), zero(99)], ["q"], {}, scales
    yield "QLinearSigmoid", "QLinearSigmoid", [*a, number(1 / 256), zero(0)], ["q"], {}, (1, 2, 3, 4)
    yield "QLinearLeakyRelu", "QLinearLeakyRelu", [*a, number(0.02), zero(100)], ["q"], {"alpha": 0.1}, (1, 2, 3, 4)
    yield "QLinearGlobalAveragePool", "QLinearGlobalAveragePool", [bytes_of(2, 3, 5, 4), number(0.02), zero(120), number(0.01), zero(128)], ["q"], {"channels_last": 0}, (1, 2, 3, 4)
    yield "QLinearConcat", "QLinearConcat", [number(0.04), zero(128), *a, *b], ["q"], {"axis": 1}, (0, 1, 3, 4, 6, 7)
    weights = [bytes_of(8, 5), number(0.01), zero(127)]
    yield "MatMulIntegerToFloat", "MatMulIntegerToFloat", [a[0], weights[0], a[1], weights[1], a[2], weights[2], noise(5)], ["y"], {}, ()
    yield "DynamicQuantizeMatMul", "DynamicQuantizeMatMul", [noise(3, 8), *weights, noise(5)], ["y"], {}, (1, 2, 3)
    yield "QGemm", "QGemm", [*a, *weights, np.arange(5, dtype=np.int32) * 99, number(0.02), zero(128)], ["q"], {}, (1, 2, 3, 4, 5, 6, 7, 8)
    yield "QGemm to floats", "QGemm", [*a, *weights], ["y"], {"alpha": 0.5}, (1, 2, 3, 4, 5)
    rows = (x * 30 + 128).clip(0, 255).astype(np.uint8)
    product = [rows, bytes_of(WIDTH, 3 * WIDTH), noise(3 * WIDTH), number(0.03), number(0.005), mask, zero(128), zero(128)]
    yield "QAttention", "QAttention", product, ["y"], {"num_heads": HEADS}, (1, 3, 4, 6, 7)


def standard():
    corners = RNG.uniform(0, 10, (2, 40, 2)).astype(np.float32)
    boxes = np.concatenate([corners, corners + RNG.uniform(1, 5, corners.shape).astype(np.float32)], 2)
    scores = RNG.uniform(0, 1, (2, 3, 40)).astype(np.float32)
    numbers = [np.array([7], np.int64), np.array([0.3], np.float32), np.array([0.25], np.float32)]
    yield "NonMaxSuppression", "NonMaxSuppression", [boxes, scores, *numbers], ["chosen"], {}, (2,)
    yield "NonMaxSuppression, middles", "NonMaxSuppression", [boxes, scores, *numbers], ["chosen"], {"center_point_box": 1}, ()
    yield "NonMaxSuppression, all", "NonMaxSuppression", [boxes[:1], scores[:1], np.array([99], np.int64)], ["chosen"], {}, (2,)
    outputs = ["y", "first", "inverse", "counts"]
    yield "Unique", "Unique", [noise(60).round(1)], outputs, {}, ()
    yield "Unique, as they come", "Unique", [noise(6, 20).round(1)], outputs, {"sorted": 0}, ()
    yield "Unique, columns", "Unique", [RNG.integers(0, 2, (3, 25, 2)).astype(np.float32)], outputs, {"axis": 1}, ()
    rois = np.concatenate([corners[0, :6], corners[0, :6] + 6], 1)
    batch = np.array([0, 1, 1, 0, 1, 0], np.int64)
    for mode, pixels in (("avg", "half_pixel"), ("avg", "output_half_pixel"), ("max", "half_pixel")):
        attributes = {"mode": mode, "coordinate_transformation_mode": pixels, "output_height": 3, "output_width": 4, "sampling_ratio": 2, "spatial_scale": 0.7}
        yield f"RoiAlign, {mode}, {pixels}", "RoiAlign", [noise(2, 5, 9, 11), rois, batch], ["y"], attributes, ()
    pooled = np.concatenate([batch[:, None].astype(np.float32), rois], 1)
    pooled[3:, 1:] -= 20  # Outside in part, or wholly.
    yield "MaxRoiPool", "MaxRoiPool", [noise(2, 5, 9, 11), pooled], ["y"], {"pooled_shape": [3, 4], "spatial_scale": 0.7}, ()
    yield "MaxRoiPool, larger than its boxes", "MaxRoiPool", [noise(2, 3, 9, 11), pooled], ["y"], {"pooled_shape": [7, 9]}, ()
    q, kv = noise(BATCH, HEADS, STEPS, DEPTH), [noise(BATCH, 2, 6, DEPTH), noise(BATCH, 2, 6, DEPTH)]
    past = [noise(BATCH, 2, 3, DEPTH), noise(BATCH, 2, 3, DEPTH)]
    yield "Attention-23", "Attention-23", [q, *kv], ["y"], {"scale": 0.3}, ()
    yield "Attention-23, a mask", "Attention-23", [q, *kv, noise(STEPS, 6)], ["y", "", "", "products"], {"is_causal": 1, "softcap": 2.0}, ()
    blind = np.tri(STEPS, 6, -2, bool)
    yield "Attention-23, rows that see nothing", "Attention-23", [q, *kv, blind], ["y", "", "", "weights"], {"qk_matmul_output_mode": 3}, ()
    yield "Attention-23, a cache", "Attention-23", [q, *kv, None, *past], ["y", "k", "v"], {"is_causal": 1}, ()
    flat = [noise(BATCH, STEPS, WIDTH), noise(BATCH, 6, 2 * DEPTH), noise(BATCH, 6, 2 * DEPTH)]
    yield "Attention-23, flat", "Attention-23", [*flat, noise(BATCH, 1, STEPS, 6)], ["y"], {"q_num_heads": HEADS, "kv_num_heads": 2}, ()
    caches = [noise(16, DEPTH // 2), noise(16, DEPTH // 2)]
    yield "RotaryEmbedding-23", "RotaryEmbedding-23", [q, *caches, RNG.integers(0, 16, (BATCH, STEPS)).astype(np.int64)], ["y"], {"interleaved": 1}, ()
    yield "RotaryEmbedding-23, flat", "RotaryEmbedding-23", [flat[0], noise(BATCH, STEPS, 2), noise(BATCH, STEPS, 2)], ["y"], {"num_heads": HEADS, "rotary_embedding_dim": 4}, ()
    yield "Det", "Det", [noise(3, 5, 5)], ["y"], {}, ()
    yield "SimplifiedLayerNormalization", "SimplifiedLayerNormalization", [noise(3, 8), noise(8)], ["y"], {"epsilon": 1e-5}, ()
    for aligned in (0, 1):
        yield f"AffineGrid, {aligned}", "AffineGrid", [noise(2, 2, 3), np.array([2, 3, 5, 6])], ["y"], {"align_corners": aligned}, (1,)
        yield f"AffineGrid of volumes, {aligned}", "AffineGrid", [noise(2, 3, 4), np.array([2, 3, 4, 5, 6])], ["y"], {"align_corners": aligned}, (1,)
    yield "CenterCropPad, both", "CenterCropPad", [noise(7, 5, 4), np.array([4, 8, 4])], ["y"], {}, (1,)
    yield "CenterCropPad, odd and even", "CenterCropPad", [noise(6, 5, 4), np.array([3, 10])], ["y"], {"axes": [-3, 1]}, (1,)
    yield "Col2Im", "Col2Im", [noise(2, 3 * 6, 12), np.array([5, 5]), np.array([2, 3])], ["y"], {}, (1, 2)
    yield "Col2Im, all attributes", "Col2Im", [noise(1, 2 * 6, 8), np.array([6, 7]), np.array([2, 3])], ["y"], {"strides": [2, 2], "dilations": [1, 2], "pads": [1, 0, 1, 1]}, (1, 2)
    yield "Col2Im, a line", "Col2Im", [noise(1, 2 * 3, 4), np.array([6]), np.array([3])], ["y"], {}, (1, 2)
    yield "Col2Im, volumes", "Col2Im", [noise(1, 2 * 8, 8), np.array([3, 3, 3]), np.array([2, 2, 2])], ["y"], {}, (1, 2)
    yield "DeformConv", "DeformConv", [noise(1, 2, 6, 7), noise(3, 2, 3, 3), noise(1, 18, 4, 5)], ["y"], {}, ()
    yield "DeformConv, all", "DeformConv", [noise(2, 4, 6, 7), noise(6, 2, 3, 2), 2 * noise(2, 24, 3, 4), noise(6), noise(2, 12, 3, 4)], ["y"], {"strides": [2, 2], "pads": [1, 1, 1, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}, ()


def model_of(op, inputs, outputs, attributes, constants):
    opset = 23 if op in NEWER else 20 if op in IMAGES else 17
    op, domain = op.removesuffix("-23"), "" if op in STANDARD + NEWER else "com.microsoft"
    names = ["" if value is None else f"in{i}" for i, value in enumerate(inputs)]
    node = helper.make_node(op, names, outputs, domain=domain, **attributes)
    given = {name: value for i, (name, value) in enumerate(zip(names, inputs)) if name and i not in constants}
    graph = helper.make_graph(
        [node], "graph", [helper.make_tensor_value_info(name, TYPES[str(value.dtype)], value.shape) for name, value in given.items()],
        [helper.make_tensor_value_info(name, OUTPUTS.get(name, TensorProto.FLOAT), None) for name in outputs if name],
        [numpy_helper.from_array(inputs[i], names[i]) for i in constants])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)], ir_version=8), given


def run(command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if result.returncode == 0 else f"{os.path.basename(command[0])}: {(result.stderr or result.stdout).strip()[-300:]}"


def prepare(folder, outputs, model, given):
    """Writes the model, inputs and ONNX Runtime's results into the folder; gives what is wrong."""
    at = lambda name: os.path.join(folder, name)
    onnx.save(model, at("model.onnx"))
    with open(at("in.json"), "w", encoding="utf-8") as file:
        json.dump({name: {"type": str(v.dtype), "shape": v.shape, "data": v.flatten().tolist()} for name, v in given.items()}, file)
    wrong = run(["node", RUNNER, at("model.onnx"), at("in.json"), at("out.json")])
    if wrong:
        return wrong
    with open(at("out.json"), encoding="utf-8") as file:
        expected = json.load(file)
    os.makedirs(at("data"), exist_ok=True)
    for k, (name, value) in enumerate(given.items()):
        onnx.save_tensor(numpy_helper.from_array(value, name), at(f"data/input_{k}.pb"))
    for k, name in enumerate(filter(None, outputs)):
        one = expected[name]
        onnx.save_tensor(numpy_helper.from_array(np.array(one["data"], one["type"]).reshape(one["shape"]), name), at(f"data/output_{k}.pb"))
    return None


def check(folder, build, outputs, model, given, flags=()):
    """What is wrong; None: nothing."""
    return prepare(folder, outputs, model, given) or run([os.path.join(build, "bin", "hpu-verify"), os.path.join(folder, "model.onnx"), "--data", os.path.join(folder, "data"), "-q", *flags])


def check_free_boxes(folder, build):
    """One recipe of a suppression runs with any number of boxes."""
    limits = [np.array([5], np.int64), np.array([0.5], np.float32), np.array([0.3], np.float32)]
    for count in (1, 2, 7, 33, 100):
        corners = RNG.random((1, count, 2)) * 3
        boxes = np.concatenate([corners, corners + RNG.random((1, count, 2)) + 0.5], 2).astype(np.float32)
        model, given = model_of("NonMaxSuppression", [boxes, RNG.random((1, 2, count)).astype(np.float32), *limits], ["chosen"], {}, (2, 3, 4))
        for value, dim in zip(model.graph.input, (1, 2)):
            value.type.tensor_type.shape.dim[dim].dim_param = "k"
        recipe = os.path.join(folder, "any.recipe")
        wrong = prepare(folder, ["chosen"], model, given)
        if not wrong and not os.path.exists(recipe):
            wrong = run([os.path.join(build, "bin", "hpu-compile"), os.path.join(folder, "model.onnx"), "--dim", "k=1:100", "-o", recipe])
        wrong = wrong or run([os.path.join(build, "bin", "hpu-run"), recipe, "--data", os.path.join(folder, "data")])
        if wrong:
            return f"{count} boxes: {wrong}"
    return None


def check_case(build, op, inputs, outputs, attributes, constants):
    with tempfile.TemporaryDirectory(prefix="hpu-microsoft-") as folder:
        return check(folder, build, outputs, *model_of(op, inputs, outputs, attributes, constants))


def main():
    args = arguments(__doc__, runs_tools=True)
    if not has_onnx_runtime():
        return 77
    everything = list(cases())
    tested = {op if op in STANDARD + NEWER else f"com.microsoft.{op}" for _, op, *_ in everything}
    listed = subprocess.run([os.path.join(args.build, "bin", "hpu-compile"), "--list-ops"], capture_output=True, text=True, check=True).stdout
    missing = {line.split()[0] for line in listed.splitlines() if line.startswith("com.microsoft.")} - tested
    others = [f"{op} imports and is not tested" for op in sorted(missing)]
    with tempfile.TemporaryDirectory(prefix="hpu-microsoft-") as folder:
        wrong = check_free_boxes(folder, args.build)
    if wrong:
        others.append(f"NonMaxSuppression, {wrong}")
    return run_cases(args, everything, lambda *case: check_case(args.build, *case), others)


if __name__ == "__main__":
    sys.exit(main())
