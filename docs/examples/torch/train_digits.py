# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of handwritten digits on hpu, saves it, and checks the file on the CPU. Needs Debian's python3-sklearn for
the images, and build/python (or PREFIX/lib/python3/dist-packages) in PYTHONPATH.

    train_digits.py --dtype bf16 --lazy      f32, bf16, f16 (with a scaler of gradients) or fp8; each op at once, a step at a
                                             time (--lazy), or forward, backward and update as compiled graphs (--compiled)"""
import argparse
import contextlib
import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

import hpu_torch  # makes "hpu" a device
import hpu_torch.fp8

parser = argparse.ArgumentParser()
parser.add_argument("--dtype", choices=["f32", "bf16", "f16", "fp8"], default="f32")
parser.add_argument("--lazy", action="store_true")
parser.add_argument("--compiled", action="store_true")
options = parser.parse_args()
torch.hpu.set_lazy(options.lazy)

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:-360], order[-360:]
Linear = hpu_torch.fp8.Linear if options.dtype == "fp8" else nn.Linear


def network():
    return nn.Sequential(Linear(64, 128), nn.ReLU(), nn.Dropout(.3), Linear(128, 10))


def precision():
    if options.dtype == "fp8":
        return hpu_torch.fp8.fp8_autocast(fp8_recipe=hpu_torch.fp8.DelayedScaling(amax_history_len=4, amax_compute_algo="max"))
    if options.dtype == "f32":
        return contextlib.nullcontext()
    return torch.autocast("hpu", dtype=torch.bfloat16 if options.dtype == "bf16" else torch.float16)


net = network().to("hpu")
optimiser = torch.optim.Adam(net.parameters())
schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 2e-2, total_steps=20 * len(train.split(64)))
if options.compiled:
    hpu_torch.compile(net)
    hpu_torch.compile(optimiser)
scaler = torch.hpu.amp.GradScaler(enabled=options.dtype == "f16")
for epoch in range(20):
    total = torch.zeros((), device="hpu")
    for batch in train[torch.randperm(len(train))].split(64):
        optimiser.zero_grad()
        with precision():
            loss = nn.functional.cross_entropy(net(images[batch].to("hpu")).float(), labels[batch].to("hpu"))
        scaler.scale(loss).backward()
        scaler.step(optimiser)
        scaler.update()
        schedule.step()
        total += loss.detach()
        hpu_torch.core.mark_step()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: loss {total.item() / len(train.split(64)):.3f}")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "digits.pt")
    torch.save(net.state_dict(), path)
    copy = network()
    copy.load_state_dict(torch.load(path, map_location="cpu"))

net.eval(), copy.eval()
with torch.no_grad():
    with precision():
        answers = net(images[test].to("hpu")).argmax(1)
    accuracy = (answers == labels[test].to("hpu")).float().mean().item()
    same = (answers.cpu() == copy(images[test]).argmax(1)).float().mean().item()
print(f"{accuracy:.1%} of the images that it has not seen are right; the file gives the same answers on the CPU: {same:.1%}")
assert accuracy > .97 and same >= (1 if options.dtype == "f32" else .99)
