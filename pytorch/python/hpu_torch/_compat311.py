# SPDX-License-Identifier: Apache-2.0
"""Repairs of Debian's PyTorch 1.13 on Python 3.11, each where it is needed and when it is needed: modules that are imported
later are repaired as they are imported."""
import dataclasses
import importlib.abc
import importlib.util
import re
import sys

import torch


def _version():
    """Debian's build calls itself 1.13.0a0 though it is 1.13.1, and every check for ">= 1.13" takes an alpha for less."""
    if torch.__version__.startswith("1.13.0a0"):
        torch.__version__ = torch.torch_version.TorchVersion("1.13.1")
        torch.version.__version__ = "1.13.1"


class _HashableDataclass:
    """Python 3.11 refuses a default value that has no hash; the sharded tensors' metadata has one. While that module is
    executed, dataclasses that compare get a hash, too."""

    def __enter__(self):
        self.original = dataclasses.dataclass

        def dataclass(cls=None, /, **options):
            def decorate(one):
                if not options.get("frozen") and options.get("eq", True) and "__hash__" not in one.__dict__:
                    options.setdefault("unsafe_hash", True)
                return self.original(one, **options)
            return decorate if cls is None else decorate(cls)

        dataclasses.dataclass = dataclass

    def __exit__(self, *error):
        dataclasses.dataclass = self.original


def _parse_std(module):
    """torchrun: since Python 3.11 iterating over a flag leaves out the value 0, and Std.from_str finds nothing for "0"."""
    def from_str(cls, text):
        if re.fullmatch("[0123]", text):
            return cls(int(text))
        if not re.fullmatch("[0-9]+:[0123](,[0-9]+:[0123])*", text):
            raise ValueError(f"{text} is not 0, 1, 2 or 3, nor such a number for each local rank, as in 0:1,1:3")
        return {int(rank): cls(int(value)) for rank, value in (part.split(":") for part in text.split(","))}

    if module.Std.from_str("0") is None:
        module.Std.from_str = classmethod(from_str)


_AROUND = {"torch.distributed._shard.sharded_tensor.metadata": _HashableDataclass}
_AFTER = {"torch.distributed.elastic.multiprocessing.api": _parse_std}


class _Loader(importlib.abc.Loader):
    def __init__(self, name, loader):
        self.name, self.loader = name, loader

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        if self.name in _AROUND:
            with _AROUND[self.name]():
                self.loader.exec_module(module)
        else:
            self.loader.exec_module(module)
            _AFTER[self.name](module)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self):
        self.within = False

    def find_spec(self, name, path, target=None):
        if self.within or (name not in _AROUND and name not in _AFTER):
            return None
        self.within = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.within = False
        if spec is not None:
            spec.loader = _Loader(name, spec.loader)
        return spec


def apply():
    """Once; for PyTorch 1.13 on Python 3.11 and later. Others need none of it."""
    if not torch.__version__.startswith("1.13") or sys.version_info < (3, 11):
        return
    _version()
    for name, repair in _AFTER.items():
        if name in sys.modules:
            repair(sys.modules[name])
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
