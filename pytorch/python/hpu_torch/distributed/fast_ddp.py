# SPDX-License-Identifier: Apache-2.0
"""Data parallel training without a wrapper: one all-reduce over all gradients, between backward and the optimiser's step.

    from hpu_torch.distributed.fast_ddp import all_reduce_gradients, broadcast_parameters
    broadcast_parameters(net)
    loss.backward()
    all_reduce_gradients(net)
    optimiser.step()

DistributedDataParallel hides its all-reduces behind the backward; this costs less on the host, and is one exchange for small models."""
import torch
import torch.distributed as dist


def broadcast_parameters(model, src=0, group=None):
    """Parameters and buffers of all ranks become those of rank `src`."""
    with torch.no_grad():
        tensors = [t.detach() for t in [*model.parameters(), *model.buffers()]]
        for flat, parts in _flattened(tensors, None):
            dist.broadcast(flat, src, group=group)
            _unflatten(flat, parts)


def all_reduce_gradients(model, fusion_buffer_dtype=None, use_hpu_graph=False, group=None):
    """Gradients of the model's parameters become their averages over the ranks, which have gradients for the same parameters
    (else a CollectiveError says in what the ranks differ). `fusion_buffer_dtype`: what they travel as; None: as they are, one
    all-reduce for each type. `use_hpu_graph` is taken for programs that give it; packing is recorded as any other work."""
    with torch.no_grad():
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        for flat, parts in _flattened(gradients, fusion_buffer_dtype):
            dist.all_reduce(flat, op=dist.ReduceOp.AVG, group=group)
            _unflatten(flat, parts)


def _flattened(tensors, dtype):
    kinds = {}
    for tensor in tensors:
        kinds.setdefault(dtype or tensor.dtype, []).append(tensor)
    for kind, parts in kinds.items():
        yield torch.cat([part.reshape(-1).to(kind) for part in parts]), parts


def _unflatten(flat, parts):
    for values, part in zip(flat.split([part.numel() for part in parts]), parts):
        part.copy_(values.view(part.shape))
