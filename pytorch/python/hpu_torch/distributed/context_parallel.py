# SPDX-License-Identifier: Apache-2.0
"""Attention whose sequence is spread over ranks: each has [batch, heads, sequence / ranks, dim] of queries, keys and values, in the
order of the ranks, and gets that part of the result. Forward and backward; no rank ever has scores of the whole sequence.

    out = ring_attention(q, k, v, is_causal=True)       # any number of heads; memory falls with the square of the ranks
    out = ulysses_attention(q, k, v, is_causal=True)    # heads that the ranks divide; two exchanges, one attention of the usual kind

`ring_attention` passes keys and values around while it computes with those it has."""
import torch
import torch.distributed as dist


def _rank_and_size(group):
    return dist.get_rank(group), dist.get_world_size(group)


class _Rotation:
    """Tensors on their way to the next rank, while those of the one before come."""

    def __init__(self, tensors, group):
        rank, size = _rank_and_size(group)
        world = group or dist.group.WORLD
        to, source = (_global_rank(world, (rank + step) % size) for step in (1, -1))
        self.flat = [t.contiguous() for t in tensors]
        self.arrived = [torch.empty_like(t) for t in self.flat]
        self.works = []
        for tag, (out, into) in enumerate(zip(self.flat, self.arrived)):
            self.works += [dist.isend(out, to, group=group, tag=tag), dist.irecv(into, source, group=group, tag=tag)]

    def finish(self):
        for work in self.works:
            work.wait()
        return self.arrived


def _global_rank(group, rank):
    return rank if group is dist.group.WORLD else dist.get_global_rank(group, rank)


def _scores(q, k, scale, is_causal, mine, other):
    """Of this rank's queries and another one's keys, in f32; None: the mask leaves nothing."""
    if is_causal and other > mine:
        return None
    scores = torch.matmul(q, k.transpose(-2, -1)).float() * scale
    if is_causal and other == mine:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, is_causal, scale, group):
        rank, size = _rank_and_size(group)
        own_k, own_v = k, v
        result = total = largest = None
        for step in range(size):
            rotation = _Rotation((k, v), group) if step + 1 < size else None
            scores = _scores(q, k, scale, is_causal, rank, (rank - step) % size)
            if scores is not None:
                above = scores.amax(-1, keepdim=True)
                if largest is not None:
                    above = torch.maximum(largest, above)
                weights = torch.exp(scores - above)
                part = torch.matmul(weights.to(v.dtype), v).float()
                if largest is None:
                    result, total = part, weights.sum(-1, keepdim=True)
                else:
                    shrink = torch.exp(largest - above)
                    result, total = result * shrink + part, total * shrink + weights.sum(-1, keepdim=True)
                largest = above
            if rotation:
                k, v = rotation.finish()
        out = (result / total).to(q.dtype)
        ctx.save_for_backward(q, own_k, own_v, out, largest + torch.log(total))
        ctx.rest = is_causal, scale, group
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, log_total = ctx.saved_tensors
        is_causal, scale, group = ctx.rest
        rank, size = _rank_and_size(group)
        row = (grad.float() * out.float()).sum(-1, keepdim=True)
        grad_q = torch.zeros_like(q, dtype=torch.float32)
        grad_k, grad_v = torch.zeros_like(k, dtype=torch.float32), torch.zeros_like(v, dtype=torch.float32)
        for step in range(size):
            rotation = _Rotation((k, v), group) if step + 1 < size else None
            scores = _scores(q, k, scale, is_causal, rank, (rank - step) % size)
            if scores is not None:
                weights = torch.exp(scores - log_total)
                grad_v = grad_v + torch.matmul(weights.to(grad.dtype).transpose(-2, -1), grad).float()
                of_scores = (weights * (torch.matmul(grad, v.transpose(-2, -1)).float() - row) * scale).to(q.dtype)
                grad_q = grad_q + torch.matmul(of_scores, k).float()
                grad_k = grad_k + torch.matmul(of_scores.transpose(-2, -1), q).float()
            # Gradients of keys and values go with them, once more at the end: then they are at home.
            gradients = _Rotation((grad_k, grad_v), group) if size > 1 else None
            if rotation:
                k, v = rotation.finish()
            if gradients:
                grad_k, grad_v = gradients.finish()
        return grad_q.to(q.dtype), grad_k.to(k.dtype), grad_v.to(v.dtype), None, None, None


def _check(q, k, v):
    if not (q.dim() == 4 and k.shape == v.shape and q.shape == k.shape):
        raise ValueError(f"queries, keys and values are [batch, heads, sequence / ranks, dim], alike; these are {list(q.shape)}, "
                         f"{list(k.shape)}, {list(v.shape)}")


def ring_attention(q, k, v, is_causal=False, scale=None, group=None):
    """Each rank has a part of the sequence, all of the same length."""
    _check(q, k, v)
    return _Ring.apply(q, k, v, is_causal, q.shape[-1] ** -.5 if scale is None else scale, group)


class _Exchange(torch.autograd.Function):
    """[batch, heads, part of the sequence, dim] <-> [batch, part of the heads, sequence, dim]."""

    @staticmethod
    def forward(ctx, x, gather_sequence, group):
        ctx.rest = gather_sequence, group
        size = dist.get_world_size(group)
        if size == 1:
            return x.clone()
        # Rank r's share of the dim that is given up comes first, so that the shares are pieces of memory.
        share, whole = (1, 2) if gather_sequence else (2, 1)
        out = torch.stack(x.chunk(size, share))
        into = torch.empty_like(out)
        dist.all_to_all_single(into, out, group=group)
        return torch.cat(into.unbind(0), whole)

    @staticmethod
    def backward(ctx, grad):
        gather_sequence, group = ctx.rest
        return _Exchange.apply(grad, not gather_sequence, group), None, None


def attention(q, k, v, is_causal=False, scale=None):
    """What each rank computes of its heads; on one device of everything."""
    scores = torch.matmul(q, k.transpose(-2, -1)) * (q.shape[-1] ** -.5 if scale is None else scale)
    if is_causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return torch.matmul(torch.softmax(scores.float(), -1).to(v.dtype), v)


def ulysses_attention(q, k, v, is_causal=False, scale=None, group=None):
    """Exchanges so that each rank has the whole sequence of some heads, and back."""
    _check(q, k, v)
    size = dist.get_world_size(group)
    if q.shape[1] % size:
        raise ValueError(f"{size} ranks do not divide {q.shape[1]} heads: ring_attention takes any number")
    q, k, v = (_Exchange.apply(t, True, group) for t in (q, k, v))
    return _Exchange.apply(attention(q, k, v, is_causal, scale), False, group)
