# SPDX-License-Identifier: Apache-2.0
"""Which ONNX op types, attributes and element types a set of models uses."""

import collections

import onnx
from onnx import numpy_helper

import onnx_io

# Attributes whose values say nothing about coverage: every layer has others.
_SIZES = {"kernel_shape", "value", "split"}
_MAX_VALUES = 6


def _attribute_text(attribute):
    if attribute.type == onnx.AttributeProto.TENSOR:
        tensor = numpy_helper.to_array(attribute.t)
        return f"tensor {tensor.dtype}"
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(list(value)).replace(" ", "") if hasattr(value, "__len__") else str(value)


def _element_types(model):
    """Value name -> element type name, as far as shape inference knows."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {tensor.name: tensor.data_type for tensor in graph.initializer}
    for value in list(graph.value_info) + list(graph.input) + list(graph.output):
        types[value.name] = value.type.tensor_type.elem_type
    for node in graph.node:
        if node.op_type == "Constant":
            for attribute in node.attribute:
                if attribute.name == "value":
                    types[node.output[0]] = attribute.t.data_type
    names = onnx.TensorProto.DataType
    return {name: names.Name(kind).lower() for name, kind in types.items() if kind}


class _Usage:
    """What was seen of one op type."""

    def __init__(self):
        self.attributes = collections.defaultdict(set)
        self.inputs, self.types, self.models = set(), set(), set()


def _collect(models):
    usage = collections.defaultdict(_Usage)
    for name, model in models.items():
        types = _element_types(model)
        for node in model.graph.node:
            seen = usage[node.op_type]
            seen.models.add(name.split("-opset")[0])
            seen.inputs.add(sum(1 for value in node.input if value))
            operands = [types.get(value, "?") for value in node.input if value]
            results = [types.get(value, "?") for value in node.output[:1]]
            seen.types.add(",".join(operands[:3]) + "->" + ",".join(results))
            for attribute in node.attribute:
                text = "any" if attribute.name in _SIZES and attribute.type != \
                    onnx.AttributeProto.TENSOR else _attribute_text(attribute)
                seen.attributes[attribute.name].add(text)
    return usage


def count_lines(models):
    """One line a model: op types with counts, most frequent first."""
    lines = []
    for name, model in models.items():
        counts = onnx_io.op_counts(model).most_common()
        lines.append(f"{name}: " + ", ".join(f"{op} {count}" for op, count in counts))
    return "\n".join(lines)


def _values(texts):
    shown = sorted(texts)[:_MAX_VALUES]
    return " ".join(shown) + (" ..." if len(texts) > _MAX_VALUES else "")


def markdown(models):
    """The union of op types with their attributes and types, then the counts per model."""
    usage = _collect(models)
    lines = ["# ONNX ops of the reference models", "",
             "Written by `export_models.py --coverage`; attributes show the values that occur.", "",
             "| op | inputs | element types (first three in, first out) | attributes | models |",
             "|---|---|---|---|---|"]
    for op in sorted(usage):
        seen = usage[op]
        attributes = "; ".join(f"{name}={_values(values)}"
                               for name, values in sorted(seen.attributes.items()))
        lines.append(f"| {op} | {','.join(map(str, sorted(seen.inputs)))} | "
                     f"{' '.join(sorted(seen.types))} | {attributes} | "
                     f"{' '.join(sorted(seen.models))} |")
    lines += ["", "## Counts", ""]
    lines += [f"- {line}" for line in count_lines(models).splitlines()]
    return "\n".join(lines) + "\n"
