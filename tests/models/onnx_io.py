# SPDX-License-Identifier: Apache-2.0
"""ONNX test data on disk and the error metrics, shared by the model scripts and the verifiers.

A data set folder has the ONNX backend-test layout: input_k.pb and output_k.pb, one TensorProto
each, where input k is the k-th graph input that has no initializer.
"""

import collections
import glob
import json
import os

import numpy as np
import onnx
from onnx import numpy_helper


def save_tensor(path, array, name=""):
    """Writes one array as a serialized TensorProto."""
    proto = numpy_helper.from_array(np.asarray(array, order="C"), name)
    with open(path, "wb") as file:
        file.write(proto.SerializeToString())


def load_tensor(path):
    """Reads one serialized TensorProto as a numpy array."""
    proto = onnx.TensorProto()
    with open(path, "rb") as file:
        proto.ParseFromString(file.read())
    return numpy_helper.to_array(proto)


def save_data_set(folder, inputs, outputs):
    """Writes a data set folder; inputs and outputs are lists of (name, array) in graph order."""
    os.makedirs(folder, exist_ok=True)
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for index, (name, array) in enumerate(tensors):
            save_tensor(os.path.join(folder, f"{kind}_{index}.pb"), array, name)


def load_data_set(folder, kind):
    """Reads all `kind` ("input" or "output") tensors of a data set folder in index order."""
    count = len(glob.glob(os.path.join(folder, f"{kind}_*.pb")))
    return [load_tensor(os.path.join(folder, f"{kind}_{k}.pb")) for k in range(count)]


def save_json(path, value):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=1, sort_keys=True)
        file.write("\n")


def load_json(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def error_metrics(actual, expected):
    """Error of a list of arrays against the expected list, over all their elements together.

    max_abs: largest |a-b|; rms: sqrt(mean((a-b)^2)); rel_rms: sqrt(sum((a-b)^2) / sum(b^2)), the
    number that the bf16 comparison uses. A count or shape mismatch raises ValueError; a NaN or
    infinity anywhere makes every metric infinite.
    """
    if len(actual) != len(expected):
        raise ValueError(f"{len(actual)} outputs, expected {len(expected)}")
    worst, square_error, square_expected, count = 0.0, 0.0, 0.0, 0
    for index, (a, b) in enumerate(zip(actual, expected)):
        if a.shape != b.shape:
            raise ValueError(f"output {index} has shape {a.shape}, expected {b.shape}")
        a, b = a.astype(np.float64), b.astype(np.float64)
        if not (np.isfinite(a).all() and np.isfinite(b).all()):
            return {"max_abs": float("inf"), "rms": float("inf"), "rel_rms": float("inf")}
        difference = np.abs(a - b)
        worst = max(worst, float(difference.max(initial=0.0)))
        square_error += float((difference**2).sum())
        square_expected += float((b**2).sum())
        count += b.size
    rel_rms = 0.0 if square_error == 0 else float("inf")
    if square_expected > 0:
        rel_rms = (square_error / square_expected) ** 0.5
    return {"max_abs": worst, "rms": (square_error / max(count, 1)) ** 0.5, "rel_rms": rel_rms}


BF16_METRIC = "rel_rms = sqrt(sum((a-b)^2) / sum(b^2)) over all outputs; a bf16 upcast, b f32"


def save_bf16_reference(folder, names, rounded, outputs, made_by):
    """Writes output_k_bf16.pb (bf16 results upcast to f32) and bf16.json, their error against the
    f32 outputs of test_data_set_0, together and each (None of integers); returns the error together. The folder is the model's: data set loaders
    count the output_*.pb files of theirs."""
    files = [f"output_{index}_bf16.pb" for index in range(len(rounded))]
    for name, file, array in zip(names, files, rounded):
        save_tensor(os.path.join(folder, file), array, name)
    floats = [(a, b) for a, b in zip(rounded, outputs) if b.dtype.kind == "f"]
    metrics = error_metrics(*zip(*floats))
    each = [error_metrics([a], [b])["rel_rms"] if b.dtype.kind == "f" else None for a, b in zip(rounded, outputs)]
    save_json(os.path.join(folder, "bf16.json"), dict(
        metrics, metric=BF16_METRIC, output_rel_rms=each, data_set="test_data_set_0", outputs=files, made_by=made_by))
    return metrics


def op_counts(model):
    """Counter of op types of a ModelProto, subgraphs included."""
    counts = collections.Counter()

    def visit(graph):
        for node in graph.node:
            counts[node.op_type] += 1
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    visit(attribute.g)

    visit(model.graph)
    return counts
