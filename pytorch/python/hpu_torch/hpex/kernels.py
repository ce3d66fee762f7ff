# SPDX-License-Identifier: Apache-2.0
"""Attention, rotary embeddings and softmax under the names of Gaudi's kernels: compositions that the compiler fuses. Gradients are autograd's."""
import enum
import math

import torch
from torch.nn import functional as F


def _repeated(x, times, dim):
    """Each element of a dim (negative) so many times, one behind the other: a view that is expanded, and flattened."""
    dim += x.dim()
    return x.unsqueeze(dim + 1).expand(*x.shape[:dim + 1], times, *x.shape[dim + 1:]).flatten(dim, dim + 1)


class FusedSDPA:
    """FusedSDPA.apply(query [.., heads, L, D], key, value [.., kv heads, S, D], attn_mask, dropout_p, is_causal, scale, softmax_mode, recompute_mode, valid_seq_len
    [batch], seq_padding_type "left" or "right"): softmax(scale * q k^T + mask) v. Scores are f32 between the products. A mask of bools says which are seen, one of
    numbers is added; valid_seq_len leaves out the padding of the keys. Modes of the softmax and recomputing choose among Gaudi's kernels and change no result here."""

    @staticmethod
    def apply(query, key, value, attn_mask=None, dropout_p=0., is_causal=False, scale=None, softmax_mode="None", recompute_mode=None, valid_seq_len=None,
              seq_padding_type="left"):
        if is_causal and attn_mask is not None:
            raise ValueError("FusedSDPA: is_causal and attn_mask exclude each other")
        if query.dim() > 2 and query.shape[-3] != key.shape[-3]:  # Queries in groups that share keys.
            groups, rest = divmod(query.shape[-3], key.shape[-3])
            if rest:
                raise ValueError(f"FusedSDPA: {query.shape[-3]} heads of queries are no multiple of {key.shape[-3]} heads of keys")
            key, value = _repeated(key, groups, -3), _repeated(value, groups, -3)
        rows, columns = query.shape[-2], key.shape[-2]
        scores = (query @ key.transpose(-1, -2)).float() * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
        hidden = None
        if is_causal:
            hidden = torch.ones(rows, columns, dtype=torch.bool, device=query.device).tril().logical_not()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            hidden = attn_mask.logical_not()
        elif attn_mask is not None:
            scores = scores + attn_mask.float()
        if valid_seq_len is not None:
            if seq_padding_type not in ("left", "right"):
                raise ValueError(f"FusedSDPA: seq_padding_type is 'left' or 'right', not {seq_padding_type!r}")
            at = torch.arange(columns, device=query.device)
            lengths = valid_seq_len.to(query.device).reshape(-1, *[1] * (scores.dim() - 1))
            padding = at >= lengths if seq_padding_type == "right" else at < columns - lengths
            hidden = padding if hidden is None else hidden | padding
        if hidden is not None:
            scores = scores.masked_fill(hidden, -1e30)  # A row that sees nothing is the mean of all, not NaN.
        weights = scores.softmax(-1).to(value.dtype)
        return (F.dropout(weights, dropout_p) if dropout_p > 0 else weights) @ value


class CustomSoftmax:
    """CustomSoftmax.apply(x, flavor): softmax over the last dim. (The flavours are Gaudi's approximations; this is exact.)"""

    @staticmethod
    def apply(x, flavor=0):
        return x.softmax(-1)


class RotaryPosEmbeddingMode(enum.Enum):
    BLOCKWISE = 0  # Halves of the last dim are the pairs' members.
    PAIRWISE = 1   # Neighbours are pairs.


def _turned(x, mode):
    if mode == RotaryPosEmbeddingMode.BLOCKWISE:
        first, second = x.chunk(2, -1)
        return torch.cat((-second, first), -1)
    return torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)


def apply_rotary_pos_emb(p, cos, sin=None, position_ids=None, offset=0, mode=RotaryPosEmbeddingMode.BLOCKWISE):
    """p * cos + turned(p) * sin. BLOCKWISE with position_ids [batch, L]: cos and sin are tables [.., positions, D] of which rows are taken for p [batch, heads, L,
    D]; without: cos and sin fit p, their last dim from `offset` on. With cos alone it is a cache of ChatGLM's (see RotaryPosEmbeddingHelperV3)."""
    if sin is None:
        return RotaryPosEmbeddingHelperV3.apply(p, cos)
    if mode == RotaryPosEmbeddingMode.BLOCKWISE and position_ids is not None:
        cos, sin = (table.reshape(table.shape[-2:])[position_ids].unsqueeze(1) for table in (cos, sin))
    elif offset:
        cos, sin = cos[..., offset:p.shape[0] + offset], sin[..., offset:p.shape[0] + offset]
    kind = torch.float32 if torch.float32 in (p.dtype, cos.dtype, sin.dtype) else p.dtype
    p, cos, sin = p.to(kind), cos.to(kind), sin.to(kind)
    return p * cos + _turned(p, mode) * sin


class RotaryPosEmbeddingHelperV1:
    """apply(p, cos, sin, offset)"""

    @staticmethod
    def apply(p, cos, sin, offset=0):
        return apply_rotary_pos_emb(p, cos, sin, None, offset)


class RotaryPosEmbeddingHelperV2:
    """apply(p, cos, sin, position_ids)"""

    @staticmethod
    def apply(p, cos, sin, position_ids):
        return apply_rotary_pos_emb(p, cos, sin, position_ids)


class RotaryPosEmbeddingHelperV3:
    """apply(p [L, batch, heads, D], cache [L.., pairs, 2]): turns the first 2 * pairs elements, neighbours being pairs."""

    @staticmethod
    def apply(p, cache):
        pairs = cache.shape[-2]
        turned, rest = p[..., :2 * pairs], p[..., 2 * pairs:]
        cache = cache[:p.shape[0]].reshape(p.shape[0], -1, 1, pairs, 2)
        cos, sin = (_repeated(cache[..., i], 2, -1).to(p.dtype) for i in (0, 1))
        return torch.cat((turned * cos + _turned(turned, RotaryPosEmbeddingMode.PAIRWISE) * sin, rest), -1)


__all__ = ["CustomSoftmax", "FusedSDPA", "RotaryPosEmbeddingHelperV1", "RotaryPosEmbeddingHelperV2", "RotaryPosEmbeddingHelperV3", "RotaryPosEmbeddingMode",
           "apply_rotary_pos_emb"]
