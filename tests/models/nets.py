# SPDX-License-Identifier: Apache-2.0
"""The networks of export_models.py: builders, fixed-seed weights and inputs, no downloads.

`MODELS[name]` says how to build a network and its inputs; `build(name)` returns it ready for
inference with activations of ordinary size and non-trivial normalisation statistics.
"""

import dataclasses
import math
import zlib

import numpy as np
import torch
import torchvision
from torch import nn

import nets_attention
import nets_images
import nets_quantised
import nets_recurrent
import nets_sequence
import nets_vision


@dataclasses.dataclass(frozen=True)
class Model:
    """How to make a network and its inputs."""

    build: object  # () -> nn.Module
    inputs: object  # (batch, generator, **sizes) -> {input name: tensor} in the order of forward()
    outputs: tuple  # names
    keep_bn: bool  # export the BatchNormalization nodes instead of letting the exporter fold them
    note: str
    length: int = 0  # tokens of a sequence model with one input, whose second dimension may be free
    opsets: tuple = (13, 17)  # that it can be exported to
    rewrite: object = None  # ModelProto -> ModelProto, what is done to the export
    any_batch: bool = True  # False: batch 1 only


def _image(size):
    return lambda batch, generator: {"image": nets_vision.images(batch, size, generator)}


def _tokens(batch, generator, length=128):
    return {"tokens": torch.randn(batch, length, 256, generator=generator)}


def _token_ids(batch, generator, length=128):
    return {"token_ids": torch.randint(0, 8000, (batch, length), generator=generator)}


def _llama_prefill(batch, generator, length=128):
    return {"hidden": torch.randn(batch, length, 1024, generator=generator),
            "positions": torch.arange(length)[None].repeat(batch, 1)}


def _llama_decode(batch, generator, past=255):
    inputs = {"hidden": torch.randn(batch, 1, 1024, generator=generator),
              "positions": torch.full((batch, 1), past)}
    for layer in range(2):
        for kind in ("key", "value"):
            inputs[f"past_{kind}_{layer}"] = torch.randn(batch, 4, past, 64, generator=generator)
    return inputs


def _torchvision(name, size, keep_bn, note):
    return Model(lambda: getattr(torchvision.models, name)(weights=None), _image(size), ("logits",),
                 keep_bn, f"torchvision, {note}")


_CACHES = tuple(f"present_{kind}_{layer}" for layer in range(2) for kind in ("key", "value"))

MODELS = {
    "resnet18": _torchvision("resnet18", 224, True, "BatchNormalization kept"),
    "resnet50": _torchvision("resnet50", 224, False, "BN folded by the exporter"),
    "mobilenet_v2": _torchvision("mobilenet_v2", 224, True,
                                 "BatchNormalization kept, depthwise convolutions"),
    "transformer_encoder": Model(
        nets_sequence.Encoder, _tokens, ("encoded",), False,
        "nn.TransformerEncoder, 4 layers, post-LN, erf-GELU", 128),
    "gpt2_like": Model(
        nets_sequence.Decoder, _token_ids, ("logits",), False,
        "4 layers, pre-LN, causal, tanh-GELU, tied embedding", 128),
    "unet": Model(nets_vision.UNet, _image(128), ("mask_logits",), True,
                  "ConvTranspose (two kinds), nearest and bilinear Resize, Concat"),
    "vit_tiny": Model(nets_vision.vit_tiny, _image(224), ("logits",), False,
                      "torchvision VisionTransformer, 12 layers, 192 wide"),
    "efficientnet_b0": _torchvision("efficientnet_b0", 224, True,
                                    "BatchNormalization kept, squeeze-excitation, SiLU"),
    "convnext_tiny": _torchvision("convnext_tiny", 224, False,
                                  "7x7 depthwise convolutions, LayerNorm over channels"),
    "densenet121": _torchvision("densenet121", 224, True,
                                "BatchNormalization before convolutions, dense concatenation"),
    "swin_t": _torchvision("swin_t", 224, False, "shifted windows, relative position bias"),
    "vit_b_16": _torchvision("vit_b_16", 224, False, "12 layers, 768 wide"),
    "deeplabv3_mobilenet_v3": Model(
        nets_vision.deeplabv3, _image(256), ("mask_logits",), False,
        "torchvision, MobileNetV3-Large backbone, dilated convolutions, BN folded"),
    "llama_prefill": Model(
        nets_sequence.Llama, _llama_prefill, ("normed", *_CACHES), False,
        "2 layers, 1024 wide, RMSNorm, RoPE, 16 heads on 4 of keys and values, SwiGLU; gives caches"),
    "llama_decode": Model(
        nets_sequence.Llama, _llama_decode, ("normed", *_CACHES), False,
        "the same blocks, one token after 255 cached ones"),
}

# They round to 8 bits or order numbers, which the last bit of a sum can turn: of batch 1's inputs it does not.
_TURNING = {"int8_qdq_transformer", "int8_qlinear_transformer", "mixture_of_experts", "detector"}


def _narrow(name, make, inputs, outputs, note, rewrite=None):
    return Model(make, inputs, outputs, True, note, opsets=(17,), rewrite=rewrite, any_batch=name not in _TURNING)


for _family in (nets_recurrent, nets_attention, nets_images, nets_quantised):
    MODELS.update((name, _narrow(name, *network)) for name, network in _family.NETWORKS.items())

_BATCH_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)
_INVERTED_RESIDUALS = (torchvision.models.mobilenetv3.InvertedResidual,
                       torchvision.models.efficientnet.MBConv)


def _last_norm_of_residual_branch(layer):
    if isinstance(layer, torchvision.models.resnet.BasicBlock):
        return layer.bn2
    if isinstance(layer, torchvision.models.resnet.Bottleneck):
        return layer.bn3
    if isinstance(layer, torchvision.models.mobilenetv2.InvertedResidual) and layer.use_res_connect:
        return layer.conv[-1]
    if isinstance(layer, _INVERTED_RESIDUALS) and layer.use_res_connect:
        return layer.block[-1][1]
    return None


def _initialize(module, generator):
    """Variance-preserving weights, small biases, normalisation scales away from one."""
    def normal(tensor, std):
        tensor.normal_(0.0, std, generator=generator)

    for layer in module.modules():
        if isinstance(layer, nn.modules.conv._ConvNd):
            fan_in = layer.weight[0].numel()
            if isinstance(layer, nn.modules.conv._ConvTransposeNd):  # weight is I x O x the kernel
                overlap = math.prod(layer.kernel_size) / math.prod(layer.stride)
                fan_in = layer.in_channels * overlap
            normal(layer.weight, math.sqrt(2.0 / fan_in))
            if layer.bias is not None:
                normal(layer.bias, 0.1)
        elif isinstance(layer, nn.Linear):
            if isinstance(layer, nets_quantised.Linear4):
                continue
            normal(layer.weight, 1.0 / math.sqrt(layer.in_features))
            if layer.bias is not None:
                normal(layer.bias, 0.1)
        elif isinstance(layer, nn.MultiheadAttention):
            normal(layer.in_proj_weight, 1.0 / math.sqrt(layer.embed_dim))
            normal(layer.in_proj_bias, 0.1)
        elif isinstance(layer, nn.Embedding):
            normal(layer.weight, 0.25)
        elif isinstance(layer, (*_BATCH_NORMS, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d, nn.InstanceNorm3d)):
            layer.weight.uniform_(0.6, 1.4, generator=generator)
            normal(layer.bias, 0.2)
            if isinstance(layer, _BATCH_NORMS):
                layer.bias += 0.5
        elif isinstance(layer, (nets_sequence.RMSNorm, nets_attention.T5Norm)):
            layer.weight.uniform_(0.6, 1.4, generator=generator)
        elif isinstance(layer, torchvision.models.convnext.CNBlock):
            layer.layer_scale.uniform_(0.2, 0.6, generator=generator)
        elif isinstance(layer, torchvision.models.swin_transformer.ShiftedWindowAttention):
            normal(layer.relative_position_bias_table, 0.5)
    # Positive batch-norm shifts (relu mostly passes) and short residual branches keep a deep
    # random net from amplifying rounding errors, as training does.
    for layer in module.modules():
        last_norm = _last_norm_of_residual_branch(layer)
        if last_norm is not None:
            last_norm.weight *= 0.4
    for name, parameter in module.named_parameters():
        if name in ("class_token", "encoder.pos_embedding"):
            normal(parameter, 0.25)


def _calibrate(module, inputs):
    """Gives BatchNorm layers the statistics that they really see, so that depth does not matter."""
    norms = [layer for layer in module.modules() if isinstance(layer, _BATCH_NORMS)]
    if not norms:
        return
    for layer in norms:
        layer.reset_running_stats()
        layer.momentum = None  # cumulative average
        layer.train()
    module(*inputs.values())
    for layer in norms:
        layer.momentum = 0.1
        layer.eval()


def seed_of(name):
    return zlib.crc32(name.encode())


def prepared(make, name, inputs):
    """make()'s network in inference mode; its weights depend on the name alone, its statistics on inputs(generator)."""
    generator = torch.Generator().manual_seed(seed_of(name))
    torch.manual_seed(seed_of(name))
    module = make().eval()
    with torch.no_grad():
        _initialize(module, generator)
        _calibrate(module, inputs(generator))
    return module


def build(name):
    """The network in inference mode with its fixed-seed weights."""
    model = MODELS[name]
    return prepared(model.build, name, lambda generator: model.inputs(8, generator))


def example(name, batch, index=0, **sizes):
    """Inputs number `index` of a model by name; `sizes` may give the length of a sequence."""
    generator = torch.Generator().manual_seed(seed_of(name) + 1000 * batch + index + 1)
    return MODELS[name].inputs(batch, generator, **sizes)


def activation_spread(module, inputs):
    """Smallest and largest standard deviation of any leaf layer's output: the health check."""
    spread = []

    def record(_layer, _inputs, output):
        if isinstance(output, torch.Tensor) and output.is_floating_point():
            spread.append(float(output.float().std()))

    hooks = [layer.register_forward_hook(record) for layer in module.modules()
             if not list(layer.children())]
    with torch.no_grad():
        module(*inputs.values())
    for hook in hooks:
        hook.remove()
    return float(np.min(spread)), float(np.max(spread))
