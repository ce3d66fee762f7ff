# SPDX-License-Identifier: Apache-2.0
"""Methods of tensors that PyTorch has for CUDA only."""
import torch


def _device(device):
    if device is None:
        return torch.device("hpu", torch.hpu.current_device())
    return torch.device("hpu", device) if isinstance(device, int) else torch.device(device)


def _to_hpu(self, device=None, non_blocking=False, memory_format=torch.preserve_format):
    """The tensor on an hpu device: the current one, or the one with the number."""
    return self.to(_device(device), non_blocking=non_blocking, memory_format=memory_format)


def _pinning_device(device):
    return "hpu" if device is None and not torch.cuda.is_available() else device


def install():
    torch.Tensor.hpu = _to_hpu
    torch.Tensor.is_hpu = property(lambda self: self.device.type == "hpu", doc="Whether the tensor is on an hpu device.")

    pin, is_pinned = torch.Tensor.pin_memory, torch.Tensor.is_pinned

    def pin_memory(self, device=None):
        return pin(self, _pinning_device(device))

    def is_pinned_(self, device=None):
        return is_pinned(self, _pinning_device(device))

    torch.Tensor.pin_memory, torch.Tensor.is_pinned = pin_memory, is_pinned_

    # Printing looks at the values in many small steps.
    to_text = torch._tensor_str._tensor_str
    torch._tensor_str._tensor_str = lambda self, indent: to_text(self.cpu() if self.device.type == "hpu" else self, indent)
