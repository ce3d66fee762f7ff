# SPDX-License-Identifier: Apache-2.0
"""Where a module has its tensors, and what some code puts there."""
import torch


_KINDS = frozenset((torch.Tensor, torch.nn.Parameter))


def _members(module):
    """Where a module has tensors: a dict (of parameters, of buffers, of other attributes), a name, and the tensor."""
    found = []
    for part in module.modules() if isinstance(module, torch.nn.Module) else ():
        attributes = part.__dict__
        for members in (attributes["_parameters"], attributes["_buffers"]):
            if members:
                found += [(members, name, tensor) for name, tensor in members.items() if tensor is not None]
        found += [(attributes, name, value) for name, value in attributes.items() if type(value) in _KINDS]
    return found


def _places(module, replaced):
    """Where a module's tensors lie: others in their places are another graph's. What each call replaces may lie anywhere."""
    if not replaced:
        return tuple([value.data_ptr() if value.device.type == "hpu" else id(value) for _, _, value in _members(module)])
    return tuple([(name, value.shape, value.stride(), value.dtype, value.device) if (id(members), name) in replaced
                  else value.data_ptr() if value.device.type == "hpu" else id(value) for members, name, value in _members(module)])


class _Replaced:
    """What some code puts into the places of a module's tensors (`self.count = self.count + 1`), or into new ones."""

    def __init__(self, module):
        self._module = module
        self._before = {id(members): (members, dict(members)) for part in (module.modules() if isinstance(module, torch.nn.Module) else ())
                        for members in (part._parameters, part._buffers, part.__dict__)}

    def changes(self):
        """(members, name, what was there, the tensor that is there)"""
        found = []
        for members, name, value in _members(self._module):
            before = self._before[id(members)][1].get(name) if id(members) in self._before else None
            if before is not value:
                found.append((members, name, before, value))
        return found

    def undo(self):
        for members, values in self._before.values():
            _put_back(members, values)


def _put_back(members, values):
    """What is a tensor, or was one, is as it was in `values`."""
    for name in [name for name, value in members.items() if isinstance(value, torch.Tensor) and name not in values]:
        del members[name]
    for name, value in values.items():
        if members.get(name) is not value and (isinstance(value, torch.Tensor) or isinstance(members.get(name), torch.Tensor)):
            members[name] = value
