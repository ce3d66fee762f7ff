#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Quantises the digits model to 8 bits, in the forms that ONNX tools export; no download.

Writes OUT/digits-{qdq,qlinear,dynamic}/model.onnx with test_data_set_0 (inputs, and the outputs by this script's own
arithmetic in double) and labels.pb:

  qdq      QuantizeLinear and DequantizeLinear around float ops: u8 activations, i8 weights with a scale a channel
  qlinear  QLinearConv and QLinearMatMul on the same numbers
  dynamic  DynamicQuantizeLinear, ConvInteger and MatMulInteger
"""

import argparse
import os
import shutil

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

import onnx_io

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "digits")
functional = torch.nn.functional


def folded_layers():
    """[(kind, weight, bias)] of the digits model in f32, batch norms folded."""
    model = onnx.load(os.path.join(DIGITS, "model.onnx"))
    tensors = {t.name: numpy_helper.to_array(t).astype(np.float64) for t in model.graph.initializer}
    layers = []
    for index in (0, 1, 3):
        name = f"features.{index}."
        weight = tensors[name + "0.weight"]
        factor = tensors[name + "1.weight"] / np.sqrt(tensors[name + "1.running_var"] + 1e-5)
        bias = tensors[name + "1.bias"] - tensors[name + "1.running_mean"] * factor
        layers.append(("conv", (weight * factor[:, None, None, None]).astype(np.float32),
                       bias.astype(np.float32)))
    for index in (1, 4):
        layers.append(("gemm", tensors[f"head.{index}.weight"].astype(np.float32),
                       tensors[f"head.{index}.bias"].astype(np.float32)))
    return layers


def pool(index, x):
    """What stands between layer `index` and the next one."""
    if index == 1:
        return functional.max_pool2d(x, 2)
    if index == 2:
        return functional.avg_pool2d(x, 2).flatten(1)
    return x


def apply(kind, x, weight, bias=None):
    if kind == "conv":
        return functional.conv2d(x, weight, bias, padding=1)
    return functional.linear(x, weight, bias)


def u8_parameters(x):
    """Scale and zero point of u8 numbers that hold 0 and every element of x."""
    low, high = min(x.min().item(), 0.0), max(x.max().item(), 0.0)
    scale = np.float32(max(high - low, 1e-6) / 255)
    return scale, np.uint8(np.clip(np.rint(-low / scale), 0, 255))


def i8_weights(weight):
    """i8 numbers and a scale for each output channel."""
    scale = np.abs(weight).reshape(len(weight), -1).max(axis=1) / 127
    scale = np.maximum(scale, 1e-9).astype(np.float32)
    shape = (-1,) + (1,) * (weight.ndim - 1)
    return np.clip(np.rint(weight / scale.reshape(shape)), -127, 127).astype(np.int8), scale


def quantise(x, scale, zero, low=0, high=255):
    """As QuantizeLinear computes: a division in f32, halves to even."""
    steps = torch.round((x.float() / float(scale)).float()) + float(zero)
    return steps.clamp(low, high).double()


class Writer:
    """An ONNX graph under construction."""

    def __init__(self):
        self.nodes, self.initializers = [], []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, output, **attributes):
        outputs = output if isinstance(output, list) else [output]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"{outputs[0]}/{op}", **attributes))
        return outputs[0]

    def save(self, folder, images, expected):
        batch, classes = expected.shape
        graph = helper.make_graph(
            self.nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, list(images.shape))],
            [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, classes])], self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], producer_name="quantise_digits")
        model.ir_version = 8
        onnx.checker.check_model(model, full_check=True)
        shutil.rmtree(folder, ignore_errors=True)
        onnx_io.save_data_set(os.path.join(folder, "test_data_set_0"), [("image", images)], [("logits", expected)])
        onnx.save(model, os.path.join(folder, "model.onnx"))
        shutil.copy(os.path.join(DIGITS, "labels.pb"), folder)

    def between(self, index, value, tag=""):
        """pool() in ONNX."""
        if index == 1:
            return self.node("MaxPool", [value], f"pooled{tag}", kernel_shape=[2, 2], strides=[2, 2])
        if index == 2:
            value = self.node("AveragePool", [value], f"averaged{tag}", kernel_shape=[2, 2], strides=[2, 2])
            return self.node("Flatten", [value], f"flat{tag}", axis=1)
        return value


def calibrate(layers, images):
    """u8 parameters of the input of each layer, from the f32 network."""
    x, parameters = torch.from_numpy(images), []
    for index, (kind, weight, bias) in enumerate(layers):
        parameters.append(u8_parameters(x))
        x = apply(kind, x, torch.from_numpy(weight), torch.from_numpy(bias))
        if index + 1 < len(layers):
            x = pool(index, functional.relu(x))
    return parameters + [u8_parameters(x)]


def make_qdq(layers, parameters, images, folder):
    writer, value, x = Writer(), "image", torch.from_numpy(images).double()
    for index, (kind, weight, bias) in enumerate(layers):
        scale, zero = parameters[index]
        codes, scales = i8_weights(weight)
        s, z = writer.constant(f"x{index}_scale", scale), writer.constant(f"x{index}_zero", zero)
        value = writer.node("QuantizeLinear", [value, s, z], f"x{index}_q")
        value = writer.node("DequantizeLinear", [value, s, z], f"x{index}")
        w = writer.node("DequantizeLinear", [writer.constant(f"w{index}_q", codes),
                                             writer.constant(f"w{index}_scale", scales),
                                             writer.constant(f"w{index}_zero", np.zeros(len(scales), np.int8))],
                        f"w{index}", axis=0)
        b = writer.constant(f"b{index}", bias)
        last = index + 1 == len(layers)
        if kind == "conv":
            value = writer.node("Conv", [value, w, b], f"y{index}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            value = writer.node("Gemm", [value, w, b], "logits" if last else f"y{index}", transB=1)
        shape = (-1,) + (1,) * (weight.ndim - 1)
        x = (quantise(x, scale, zero) - float(zero)) * float(scale)
        x = apply(kind, x, torch.from_numpy(codes.astype(np.float64) * scales.reshape(shape).astype(np.float64)),
                  torch.from_numpy(bias).double())
        if not last:
            value = writer.between(index, writer.node("Relu", [value], f"r{index}"))
            x = pool(index, functional.relu(x))
    writer.save(folder, images, x.float().numpy())


def make_qlinear(layers, parameters, images, folder):
    """Activations stay u8 from layer to layer; relu is the saturation at the zero point of 0."""
    writer, x = Writer(), torch.from_numpy(images).double()
    scale, zero = parameters[0]
    value = writer.node("QuantizeLinear", ["image", writer.constant("x0_scale", scale),
                                           writer.constant("x0_zero", zero)], "x0_q")
    codes_x = quantise(x, scale, zero)
    for index, (kind, weight, bias) in enumerate(layers):
        last = index + 1 == len(layers)
        scale, zero = parameters[index]
        codes, scales = i8_weights(weight)
        if kind == "gemm":  # QLinearMatMul: the bias comes behind; one scale.
            scales = np.full_like(scales, scales.max())
            codes = np.clip(np.rint(weight / scales[0]), -127, 127).astype(np.int8)
        inputs = [value, f"x{index}_scale", f"x{index}_zero"]
        bias_codes = np.rint(bias / (float(scale) * scales.astype(np.float64))).astype(np.int32)
        centred = codes_x - float(zero)
        if kind == "conv":
            out_scale, out_zero = parameters[index + 1]
            total = apply("conv", centred, torch.from_numpy(codes.astype(np.float64)),
                          torch.from_numpy(bias_codes.astype(np.float64)))
            factor = (np.float32(scale) * scales / np.float32(out_scale)).astype(np.float32)
            codes_x = torch.round(total.float() * torch.from_numpy(factor).reshape(-1, 1, 1)).double() + float(out_zero)
            codes_x = codes_x.clamp(0, 255)
            value = writer.node("QLinearConv", inputs + [
                writer.constant(f"w{index}_q", codes), writer.constant(f"w{index}_scale", scales),
                writer.constant(f"w{index}_zero", np.zeros(len(scales), np.int8)),
                writer.constant(f"x{index + 1}_scale", out_scale), writer.constant(f"x{index + 1}_zero", out_zero),
                writer.constant(f"b{index}_q", bias_codes)], f"y{index}_q", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            value, codes_x = writer_pool(writer, index, value, codes_x)
            continue
        # A layer of the head: the product to u8, back to f32, then bias and relu in f32.
        product = apply("gemm", centred, torch.from_numpy(codes.astype(np.float64)))
        out_scale, out_zero = u8_parameters(product * float(scale) * float(scales[0]))
        factor = np.float32(np.float32(scale) * scales[0] / out_scale)
        out = (torch.round(product.float() * float(factor)).double() + float(out_zero)).clamp(0, 255)
        value = writer.node("QLinearMatMul", inputs + [
            writer.constant(f"w{index}_q", np.ascontiguousarray(codes.T)), writer.constant(f"w{index}_scale", scales[0]),
            writer.constant(f"w{index}_zero", np.int8(0)), writer.constant(f"p{index}_scale", out_scale),
            writer.constant(f"p{index}_zero", out_zero)], f"p{index}_q")
        value = writer.node("DequantizeLinear", [value, f"p{index}_scale", f"p{index}_zero"], f"p{index}")
        value = writer.node("Add", [value, writer.constant(f"b{index}", bias)], "logits" if last else f"y{index}")
        x = (out - float(out_zero)) * float(out_scale) + torch.from_numpy(bias).double()
        if not last:
            value = writer.node("Relu", [value], f"r{index}")
            next_scale, next_zero = parameters[index + 1]
            value = writer.node("QuantizeLinear", [value, writer.constant(f"x{index + 1}_scale", next_scale),
                                                   writer.constant(f"x{index + 1}_zero", next_zero)], f"x{index + 1}_q")
            codes_x = quantise(functional.relu(x), next_scale, next_zero)
    writer.save(folder, images, x.float().numpy())


def writer_pool(writer, index, value, codes):
    """Pooling of u8 codes: maxima as they are, averages through f32."""
    if index == 1:
        return writer.node("MaxPool", [value], "pooled_q", kernel_shape=[2, 2], strides=[2, 2]), functional.max_pool2d(codes, 2)
    if index != 2:
        return value, codes
    scale, zero = "x3_scale", "x3_zero"
    value = writer.node("DequantizeLinear", [value, scale, zero], "x3_real")
    value = writer.between(2, value)
    value = writer.node("QuantizeLinear", [value, scale, zero], "x3_flat_q")
    tensors = {t.name: numpy_helper.to_array(t) for t in writer.initializers}
    s, z = float(tensors[scale]), float(tensors[zero])
    real = functional.avg_pool2d((codes - z) * s, 2).flatten(1)
    return value, quantise(real, s, z)


def make_dynamic(layers, images, folder):
    writer, value, x = Writer(), "image", torch.from_numpy(images).double()
    for index, (kind, weight, bias) in enumerate(layers):
        last = index + 1 == len(layers)
        per_tensor = np.float32(np.abs(weight).max() / 127)
        codes = np.clip(np.rint(weight / per_tensor), -127, 127).astype(np.int8)
        scale, zero = u8_parameters(x)
        q, s, z = f"x{index}_q", f"x{index}_scale", f"x{index}_zero"
        writer.node("DynamicQuantizeLinear", [value], [q, s, z])
        w = writer.constant(f"w{index}_q", codes if kind == "conv" else np.ascontiguousarray(codes.T))
        w_zero = writer.constant(f"w{index}_zero", np.int8(0))
        if kind == "conv":
            value = writer.node("ConvInteger", [q, w, z, w_zero], f"i{index}", kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        else:
            value = writer.node("MatMulInteger", [q, w, z, w_zero], f"i{index}")
        value = writer.node("Cast", [value], f"f{index}", to=TensorProto.FLOAT)
        both = writer.node("Mul", [s, writer.constant(f"w{index}_scale", per_tensor)], f"scale{index}")
        value = writer.node("Mul", [value, both], f"p{index}")
        b = writer.constant(f"b{index}", bias.reshape((-1, 1, 1) if kind == "conv" else (-1,)))
        value = writer.node("Add", [value, b], "logits" if last else f"y{index}")
        total = apply(kind, quantise(x, scale, zero) - float(zero), torch.from_numpy(codes.astype(np.float64)))
        x = total * float(np.float32(scale * per_tensor)) + torch.from_numpy(bias.reshape((-1, 1, 1) if kind == "conv" else (-1,))).double()
        if not last:
            value = writer.between(index, writer.node("Relu", [value], f"r{index}"))
            x = pool(index, functional.relu(x))
    writer.save(folder, images, x.float().numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, help="folder for the model folders")
    arguments = parser.parse_args()
    images = onnx_io.load_tensor(os.path.join(DIGITS, "test_data_set_0", "input_0.pb"))
    labels = onnx_io.load_tensor(os.path.join(DIGITS, "labels.pb"))
    layers = folded_layers()
    parameters = calibrate(layers, images)
    for form, make in (("qdq", lambda f: make_qdq(layers, parameters, images, f)),
                       ("qlinear", lambda f: make_qlinear(layers, parameters, images, f)),
                       ("dynamic", lambda f: make_dynamic(layers, images, f))):
        folder = os.path.join(arguments.out, f"digits-{form}")
        make(folder)
        logits = onnx_io.load_tensor(os.path.join(folder, "test_data_set_0", "output_0.pb"))
        print(f"{folder}: {np.count_nonzero(logits.argmax(1) == labels)} of {len(labels)} right")


if __name__ == "__main__":
    main()
