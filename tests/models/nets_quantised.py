# SPDX-License-Identifier: Apache-2.0
"""Quantised Transformers: trained-like in PyTorch with fake quantisation, then exported in QDQ form, or rewritten to the
operator forms of ONNX (QLinearMatMul) and of ONNX Runtime (QLinearAdd, MatMulNBits)."""

import math

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import nn

from nets_attention import WORDS, ids

BLOCK, LEVELS = 32, 15  # numbers that share a scale in 4 bits, and the greatest of them


class Quantised(nn.Module):
    """Rounds what passes to 8 bits of a fixed range. The ranges that meet in a sum have no common step: halves of a step would be
    frequent then, and turned by the last bit of any sum."""

    def __init__(self, reach):
        super().__init__()
        self.scale = reach / 127

    def forward(self, x):
        return torch.fake_quantize_per_tensor_affine(x, self.scale, 0, -128, 127)


class QuantisedLinear(nn.Module):
    """A product of 8-bit operands with an 8-bit result. The weights are on their grid from the beginning."""

    def __init__(self, inputs, outputs, reach=4.3):
        super().__init__()
        weight = torch.randn(outputs, inputs) / math.sqrt(inputs)
        self.scale = float(weight.abs().max() / 127)
        self.weight = nn.Parameter(weight)
        self.result = Quantised(reach)

    def forward(self, x):
        weight = torch.fake_quantize_per_tensor_affine(self.weight, self.scale, 0, -128, 127)
        return self.result(x @ weight.t())


class QuantisedBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.projection = (QuantisedLinear(width, width) for _ in range(4))
        self.up, self.down = QuantisedLinear(width, 4 * width), QuantisedLinear(4 * width, width)
        self.grids = nn.ModuleList(Quantised(reach) for reach in (4.1, 15.7, 1.03, 3.9, 4.1, 4.7, 7.7, 8.3))

    def forward(self, x):
        batch, length, width = x.shape
        normed, scores, weights, mixed, again, active, first, second = self.grids
        y = normed(self.norm1(x))
        def split(z):
            return z.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        query, key, value = split(self.query(y)), split(self.key(y)), split(self.value(y))
        heads = weights(torch.softmax(scores(query @ key.transpose(2, 3)) / math.sqrt(width // self.heads), -1))
        y = mixed(heads @ value).transpose(1, 2).reshape(batch, length, width)
        x = first(x + self.projection(y))
        y = active(torch.relu(self.up(again(self.norm2(x)))))
        return second(x + self.down(y))


class QuantisedTransformer(nn.Module):
    """An encoder whose products, and sums of residual branches, have 8-bit operands and results."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.words, self.grid = nn.Embedding(WORDS, width), Quantised(1.9)
        self.blocks = nn.Sequential(*(QuantisedBlock(width, heads) for _ in range(layers)))
        self.head = nn.Linear(width, 32)

    def forward(self, token_ids):
        return self.head(self.blocks(self.grid(self.words(token_ids))))


class Linear4(nn.Linear):
    """A product whose weights have sixteen levels, with a scale for each block of an output's inputs."""

    def __init__(self, inputs, outputs):
        super().__init__(inputs, outputs, bias=False)
        blocks = (torch.randn(outputs, inputs) / math.sqrt(inputs)).view(outputs, -1, BLOCK)
        scale = blocks.abs().amax(-1, keepdim=True) / 7
        self.weight.data = (torch.clamp(torch.round(blocks / scale), -8, 7) * scale).view(outputs, inputs)
        self.fixed = True

    def forward(self, x):
        return x @ self.weight.t()


class Block4(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = Linear4(width, 3 * width), Linear4(width, width)
        self.gate, self.up, self.down = Linear4(width, 2 * width), Linear4(width, 2 * width), Linear4(2 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(width // self.heads), -1)
        x = x + self.projection((weights @ value).transpose(1, 2).reshape(batch, length, width))
        y = self.norm2(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


class Transformer4(nn.Module):
    """An encoder with 4-bit weights and activations in floating point."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.words, self.norm, self.head = nn.Embedding(WORDS, width), nn.LayerNorm(width), Linear4(width, WORDS)
        self.blocks = nn.Sequential(*(Block4(width, heads) for _ in range(layers)))

    def forward(self, token_ids):
        return self.head(self.norm(self.blocks(self.words(token_ids))))


def _add_domain(model):
    if all(opset.domain != "com.microsoft" for opset in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))


def _replace_nodes(graph, nodes):
    """The graph with these nodes, without initialisers and nodes that nothing reads any more."""
    needed, kept = {value.name for value in graph.output}, []
    for node in reversed(nodes):
        if needed.intersection(node.output):
            kept.append(node)
            needed.update(node.input)
    tensors = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.node[:], graph.initializer[:], graph.value_info[:]
    graph.node.extend(reversed(kept))
    graph.initializer.extend(tensors)


def to_operators(model):
    """Products and sums between DequantizeLinear and QuantizeLinear as QLinearMatMul and QLinearAdd. A transposition or a
    reshape moves ahead of the DequantizeLinear, so that products inside of heads are found, too."""
    graph = model.graph
    nodes = list(graph.node)
    maker = {output: node for node in nodes for output in node.output}
    readers = {}
    for node in nodes:
        for value in node.input:
            readers.setdefault(value, []).append(node)

    changed, moved, count = {}, [], 0
    def quantised(value):
        """(8-bit tensor, scale, zero point) that a value is made of, or None."""
        nonlocal count
        node = maker.get(value)
        if node is None:
            return None
        if node.op_type == "DequantizeLinear":
            return list(node.input[:3])
        if node.op_type in ("Transpose", "Reshape"):
            source = quantised(node.input[0])
            if source is None:
                return None
            count += 1
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name, copy.input[0], copy.output[0] = f"{node.name}_quantised_{count}", source[0], f"{value}_quantised_{count}"
            moved[-1].append(copy)
            return [copy.output[0], *source[1:]]
        return None

    result = []
    for node in nodes:
        reader = readers.get(node.output[0], [])
        single = len(reader) == 1 and reader[0].op_type == "QuantizeLinear"
        if node.op_type in ("MatMul", "Add") and single:
            moved.append([])
            operands = [quantised(value) for value in node.input]
            if all(operands):
                a, b = operands
                after = list(reader[0].input[1:3])
                kind = "QLinearMatMul" if node.op_type == "MatMul" else "QLinearAdd"
                domain = "" if kind == "QLinearMatMul" else "com.microsoft"
                changed[id(reader[0])] = [*moved.pop(), helper.make_node(kind, [*a, *b, *after], list(reader[0].output),
                                                                       name=node.name, domain=domain)]
                continue
            moved.pop()
        result.extend(changed.get(id(node), [node]))
    _replace_nodes(graph, result)
    _add_domain(model)
    kinds = [node.op_type for node in graph.node]
    if kinds.count("QLinearMatMul") < 12 or kinds.count("QLinearAdd") < 4:
        raise RuntimeError(f"the exporter's form has changed: {kinds.count('QLinearMatMul')} products were found")
    return model


def to_4_bits(model):
    """Products with constants on a grid of sixteen levels a block as MatMulNBits."""
    graph = model.graph
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    maker = {output: node for node in graph.node for output in node.output}
    nodes, found = [], 0
    for node in graph.node:
        weight = tensors.get(node.input[1]) if node.op_type == "MatMul" else None
        transposed = False
        if node.op_type == "MatMul" and weight is None and maker.get(node.input[1]) is not None:
            made = maker[node.input[1]]
            if made.op_type == "Transpose" and made.input[0] in tensors:
                weight, transposed = tensors[made.input[0]], True
        if weight is None:
            nodes.append(node)
            continue
        values = numpy_helper.to_array(weight)
        values = values if transposed else values.T
        outputs, inputs = values.shape
        blocks = values.reshape(outputs, -1, BLOCK)
        scales = (np.abs(blocks).max(-1, keepdims=True) / 7).astype(np.float32)
        levels = np.clip(np.rint(blocks / scales) + 8, 0, LEVELS).astype(np.uint8)
        if np.abs((levels.astype(np.float32) - 8) * scales - blocks).max() > 1e-6:
            raise RuntimeError(f"{node.name}: its weights are not on a grid of {LEVELS + 1} levels")
        packed = levels[..., 0::2] | (levels[..., 1::2] << 4)
        name = f"{node.name}_4_bits"
        graph.initializer.extend((numpy_helper.from_array(packed, name), numpy_helper.from_array(scales.reshape(-1), f"{name}_scales")))
        nodes.append(helper.make_node("MatMulNBits", [node.input[0], name, f"{name}_scales"], list(node.output), name=node.name,
                                      domain="com.microsoft", K=inputs, N=outputs, bits=4, block_size=BLOCK))
        found += 1
    if found < 11:
        raise RuntimeError(f"the exporter's form has changed: {found} products were found")
    _replace_nodes(graph, nodes)
    _add_domain(model)
    return model


def _ids(batch, generator):
    return {"token_ids": ids(batch, generator, 32)}


# Name: builder, inputs (batch, generator) -> {name: tensor}, names of the outputs, what it shows, what is done to the export.
NETWORKS = {
    "int8_qdq_transformer": (QuantisedTransformer, _ids, ("scores",), "QuantizeLinear and DequantizeLinear around products", None),
    "int8_qlinear_transformer": (QuantisedTransformer, _ids, ("scores",), "QLinearMatMul and com.microsoft's QLinearAdd", to_operators),
    "int4_transformer": (Transformer4, _ids, ("logits",), "com.microsoft's MatMulNBits: 4-bit weights", to_4_bits),
}
