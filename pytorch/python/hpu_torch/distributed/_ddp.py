# SPDX-License-Identifier: Apache-2.0
"""What DistributedDataParallel of PyTorch 1.13 does for CUDA only."""
import functools

from torch.nn.parallel import DistributedDataParallel

from .._tracing import is_tracing


class _Logger:
    """The Logger but for one method, which warns that it shows times of CPU and CUDA only, whatever timer there is."""

    def __init__(self, logger):
        self._logger = logger

    def __getattr__(self, name):
        return getattr(self._logger, name)

    def set_runtime_stats_and_log(self):
        pass


def install():
    original = DistributedDataParallel.__init__
    if hasattr(original, "_hpu"):
        return

    @functools.wraps(original)
    def init(self, module, device_ids=None, output_device=None, *arguments, **options):
        is_hpu = any(p.device.type == "hpu" for p in module.parameters())
        if is_hpu and device_ids:
            # PyTorch takes them for devices of CUDA, to which inputs are moved.
            if len(device_ids) > 1:
                raise ValueError(f"device_ids={list(device_ids)}: a process has one device of a module on hpu; start one for each")
            device_ids = output_device = None
        original(self, module, device_ids, output_device, *arguments, **options)
        if is_hpu:
            self.logger = _Logger(self.logger)
    init._hpu = True
    DistributedDataParallel.__init__ = init

    original_forward = DistributedDataParallel.forward

    @functools.wraps(original_forward)
    def forward(self, *inputs, **options):
        if is_tracing():
            raise RuntimeError("DistributedDataParallel cannot be a part of what is compiled, as its exchanges belong to each backward: compile it by itself "
                               "(hpu_torch.compile(DistributedDataParallel(module))), and leave uncompiled what calls it")
        return original_forward(self, *inputs, **options)
    DistributedDataParallel.forward = forward
