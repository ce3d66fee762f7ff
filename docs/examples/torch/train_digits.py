# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of handwritten digits on hpu, saves it, and checks the file on the CPU. Needs Debian's python3-sklearn for
the images, and build/python (or PREFIX/lib/python3/dist-packages) in PYTHONPATH.

    train_digits.py [--lazy] [--dtype f32]"""
import argparse
import contextlib
import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

import hpu_torch  # makes "hpu" a device

COMPUTING_IN = {"f32": contextlib.nullcontext}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--lazy", action="store_true", help="a training step is one graph")
parser.add_argument("--dtype", choices=COMPUTING_IN, default="f32", help="what layers compute in")
args = parser.parse_args()
torch.hpu.set_lazy(args.lazy)

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:-360], order[-360:]


def network():
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Dropout(.2), nn.Linear(96, 10))


net = network().to("hpu")
optimiser = torch.optim.Adam(net.parameters(), lr=4e-3)
hpu_torch.metrics.reset()
for epoch in range(25):
    total = torch.zeros((), device="hpu")
    for batch in train[torch.randperm(len(train))].split(64):
        optimiser.zero_grad()
        with COMPUTING_IN[args.dtype]():
            loss = nn.functional.cross_entropy(net(images[batch].to("hpu")), labels[batch].to("hpu"))
        loss.backward()
        optimiser.step()
        total += loss.detach()
        hpu_torch.core.mark_step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: loss {total.item() / len(train.split(64)):.3f}")
counts = hpu_torch.metrics.counts()
print(f"{counts['graphs']} graphs, {counts['compiles']} of them compiled")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "digits.pt")
    torch.save(net.state_dict(), path)
    copy = network()
    copy.load_state_dict(torch.load(path, map_location="cpu"))

net.eval(), copy.eval()
with torch.no_grad(), COMPUTING_IN[args.dtype]():
    answers = net(images[test].to("hpu")).argmax(1)
    accuracy = (answers == labels[test].to("hpu")).float().mean().item()
same = (answers.cpu() == copy(images[test]).argmax(1)).float().mean().item()
print(f"{accuracy:.1%} of the images that it has not seen are right; the file gives {same:.1%} of the answers on the CPU")
assert accuracy >= .97 and same == 1 if args.dtype == "f32" else same > .98
