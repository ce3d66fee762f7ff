#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small conv net on scikit-learn's 8x8 digits and exports it with its hold-out set.

Needs no network: the images ship inside scikit-learn. Refuses to write anything when the
hold-out accuracy is below 98 %.
"""

import argparse
import copy
import os
import sys
import warnings

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import onnx_io  # noqa: E402

SEED = 20
HOLD_OUT = 360
MIN_ACCURACY = 0.98
OPSET = 13


class DigitsNet(nn.Module):
    """Three conv/bn/relu stages, max and average pooling, two linear layers; 1x8x8 to 10 logits."""

    def __init__(self):
        super().__init__()

        def stage(inputs, outputs, stride=1):
            return nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
                nn.BatchNorm2d(outputs), nn.ReLU())

        self.features = nn.Sequential(
            stage(1, 16), stage(16, 32), nn.MaxPool2d(2), stage(32, 64), nn.AvgPool2d(2))
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.3),
                                  nn.Linear(64, 10))

    def forward(self, image):
        return self.head(self.features(image))


def load_split():
    """Images as N x 1 x 8 x 8 f32 in 0..1, split by class with a fixed seed."""
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    return train_test_split(images, labels, test_size=HOLD_OUT, random_state=SEED, stratify=labels)


def train(images, labels, epochs):
    net = DigitsNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    for _ in range(epochs):
        net.train()
        for batch in torch.randperm(len(images)).split(64):
            loss = nn.functional.cross_entropy(net(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    return net.eval()


def export(net, images, path, dynamic):
    axes = {"image": {0: "batch"}, "logits": {0: "batch"}} if dynamic else None
    # PRESERVE leaves the eval-mode BatchNormalization nodes in the graph instead of folding them.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PRESERVE warns of training-mode exports; this is eval mode
        torch.onnx.export(net, images, path, opset_version=OPSET, input_names=["image"],
                          output_names=["logits"], dynamic_axes=axes,
                          training=torch.onnx.TrainingMode.PRESERVE)
    onnx.checker.check_model(onnx.load(path), full_check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=HERE, help="folder to write to (default: this one)")
    parser.add_argument("--epochs", type=int, default=40)
    args = parser.parse_args()

    torch.manual_seed(SEED)
    np.random.seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    train_images, test_images, train_labels, test_labels = load_split()
    net = train(train_images, train_labels, args.epochs)
    with torch.no_grad():
        batch = torch.from_numpy(test_images)
        logits = net(batch).numpy()
        rounded = copy.deepcopy(net).to(torch.bfloat16)(batch.to(torch.bfloat16)).float().numpy()
    correct = int((logits.argmax(1) == test_labels).sum())
    accuracy = correct / len(test_labels)
    print(f"hold-out accuracy {accuracy:.4f} ({correct} of {len(test_labels)})")
    if accuracy < MIN_ACCURACY:
        print(f"error: accuracy is below {MIN_ACCURACY}; nothing was written", file=sys.stderr)
        return 2

    os.makedirs(args.out, exist_ok=True)
    export(net, batch, os.path.join(args.out, "model.onnx"), dynamic=False)
    export(net, batch, os.path.join(args.out, "model_dynamic.onnx"), dynamic=True)
    onnx_io.save_data_set(os.path.join(args.out, "test_data_set_0"),
                          [("image", test_images)], [("logits", logits)])
    onnx_io.save_bf16_reference(args.out, ["logits"], [rounded], [logits],
                                f"PyTorch {torch.__version__} CPU, model.to(bfloat16)")
    onnx_io.save_tensor(os.path.join(args.out, "labels.pb"), test_labels, "labels")
    np.savetxt(os.path.join(args.out, "labels.txt"), test_labels, fmt="%d")
    return 0


if __name__ == "__main__":
    sys.exit(main())
