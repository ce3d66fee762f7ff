# SPDX-License-Identifier: Apache-2.0
"""torch.save and torch.load of tensors on hpu: by storages, as for CUDA, so that views and ties stay what they are and
map_location works; loading on the CPU needs nothing of this package. PyTorch's own way for hpu copies each tensor into an array."""
import collections
import functools
import re
import threading

import torch

from . import _C

_loading = threading.local()


def _reduce(original):
    @functools.wraps(original)
    def _reduce_ex_internal(self, proto):
        if self.device.type != "hpu" or self.layout != torch.strided:
            return original(self, proto)
        torch._tensor.check_serializing_named_tensor(self)
        torch.utils.hooks.warn_if_has_hooks(self)
        storage = torch.storage.TypedStorage(wrap_storage=self._storage(), dtype=self.dtype)
        # Views that are conjugated or negated lazily are marked, as those of the CPU are.
        metadata = torch._utils.get_tensor_metadata(self) if hasattr(torch._utils, "get_tensor_metadata") else None
        if metadata is None and (self.is_conj() or self.is_neg()):
            return _reduce_ex_internal(self.resolve_conj().resolve_neg(), proto)
        args = (storage, self.storage_offset(), tuple(self.size()), self.stride(), self.requires_grad, collections.OrderedDict())
        return torch._utils._rebuild_tensor_v2, args + ((metadata,) if metadata else ())
    return _reduce_ex_internal


def _tag(storage):
    return f"hpu:{storage.device.index}" if storage.device.type == "hpu" else None


def _restore(storage, location):
    if not re.fullmatch(r"hpu(:\d+)?", location):
        return None
    index = int(location[4:]) if ":" in location else torch.hpu.current_device()
    if index >= torch.hpu.device_count():
        raise RuntimeError(f"the file has tensors of hpu:{index}, and this process has {torch.hpu.device_count()} hpu device(s): "
                           "give torch.load a map_location, such as 'cpu' or {'hpu:%d': 'hpu:0'}" % index)
    return _C.bytes_of(storage).to(f"hpu:{index}")._storage()


def _rebuild(original):
    @functools.wraps(original)
    def _rebuild_tensor(storage, storage_offset, size, stride):
        if storage.device.type != "hpu":
            return original(storage, storage_offset, size, stride)
        tensor = torch.empty(0, dtype=storage.dtype, device=storage.device)
        return tensor.set_(_C.bytes_of(storage.untyped()), storage_offset, size, stride)
    return _rebuild_tensor


def _location(device):
    """Where torch.load's map_location sends what was on `device`."""
    mapped = getattr(_loading, "map_location", None)
    if isinstance(mapped, dict):
        return mapped.get(device, device)
    return device if mapped is None or callable(mapped) else mapped


def _rebuild_from_array(array, dtype, device, requires_grad):
    """Of files that PyTorch wrote by itself, or with Gaudi's bridge: it forgets map_location."""
    tensor = torch.from_numpy(array).to(dtype).to(_location(device))
    tensor.requires_grad = requires_grad
    return tensor


def _install_storages():
    """Storages' own copies, writes and reads (of the old format, which pickle uses as well) do not know hpu; tensors' do."""
    original = torch.UntypedStorage
    to_cpu, write_file, set_from_file = original.cpu, original._write_file, original._set_from_file

    def cpu(self):
        return _C.bytes_of(self).cpu()._storage() if self.device.type == "hpu" else to_cpu(self)

    def _write_file(self, *args):
        return write_file(self.cpu(), *args)

    def _set_from_file(self, *args):
        if self.device.type != "hpu":
            return set_from_file(self, *args)
        host = original(self.nbytes())
        set_from_file(host, *args)
        _C.bytes_of(self).copy_(_C.bytes_of(host))
        return self

    original.cpu, original._write_file, original._set_from_file = cpu, _write_file, _set_from_file


def install():
    torch.Tensor._reduce_ex_internal = _reduce(torch.Tensor._reduce_ex_internal)
    torch.serialization.register_package(15, _tag, _restore)
    torch._utils._rebuild_tensor = _rebuild(torch._utils._rebuild_tensor)
    torch._utils._rebuild_device_tensor_from_numpy = _rebuild_from_array
    _install_storages()
    load = torch.serialization.load

    @functools.wraps(load)
    def load_(f, map_location=None, *args, **options):
        outer = getattr(_loading, "map_location", None)
        _loading.map_location = map_location
        try:
            return load(f, map_location, *args, **options)
        finally:
            _loading.map_location = outer

    torch.load = torch.serialization.load = load_
