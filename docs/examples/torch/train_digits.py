# SPDX-License-Identifier: Apache-2.0
"""Trains a classifier of handwritten digits on hpu, saves it, and checks the file on the CPU. Needs Debian's python3-sklearn for
the images, and build/python (or PREFIX/lib/python3/dist-packages) in PYTHONPATH."""
import os
import tempfile

import torch
from sklearn.datasets import load_digits
from torch import nn

import hpu_torch  # noqa: F401: makes "hpu" a device

torch.manual_seed(0)
digits = load_digits()
images = torch.tensor(digits.data, dtype=torch.float32) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(len(images))
train, test = order[:-360], order[-360:]


def network():
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Dropout(.1), nn.Linear(64, 10))


net = network().to("hpu")
optimiser = torch.optim.Adam(net.parameters(), lr=3e-3)
for epoch in range(15):
    total = torch.zeros((), device="hpu")
    for batch in train[torch.randperm(len(train))].split(64):
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(net(images[batch].to("hpu")), labels[batch].to("hpu"))
        loss.backward()
        optimiser.step()
        total += loss.detach()
    if epoch % 5 == 4:
        print(f"epoch {epoch + 1}: loss {total.item() / len(train.split(64)):.3f}")

with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "digits.pt")
    torch.save(net.state_dict(), path)
    copy = network()
    copy.load_state_dict(torch.load(path, map_location="cpu"))

net.eval(), copy.eval()
with torch.no_grad():
    answers = net(images[test].to("hpu")).argmax(1)
    accuracy = (answers == labels[test].to("hpu")).float().mean().item()
    same = torch.equal(answers.cpu(), copy(images[test]).argmax(1))
print(f"{accuracy:.1%} of the images that it has not seen are right; the file gives the same answers on the CPU: {same}")
assert accuracy > .95 and same
