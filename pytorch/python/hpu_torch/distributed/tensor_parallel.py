# SPDX-License-Identifier: Apache-2.0
"""Linear layers whose weight is spread over ranks. A pair needs one all-reduce forward, and one backward:

    up = ColumnParallelLinear.of(net.up)         # each rank computes some of the outputs,
    down = RowParallelLinear.of(net.down)        # which are the inputs that this one takes; it sums over the ranks
    y = down(torch.relu(up(x)))                  # x and y are the same on all ranks

`of` takes this rank's share of a layer that is the same on all ranks."""
import torch
import torch.distributed as dist


class _SumBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.contiguous().clone()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class _SumForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        total = x.contiguous().clone()
        dist.all_reduce(total, group=group)
        return total

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class _GatherLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, grad):
        return grad.chunk(dist.get_world_size(ctx.group), -1)[dist.get_rank(ctx.group)].contiguous(), None


class _TakeLast(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.chunk(dist.get_world_size(group), -1)[dist.get_rank(group)].contiguous()

    @staticmethod
    def backward(ctx, grad):
        return _GatherLast.apply(grad, ctx.group), None


def _share(features, group, what):
    size = dist.get_world_size(group)
    if features % size:
        raise ValueError(f"{size} ranks do not divide {features} {what}")
    return features // size


class _Parallel(torch.nn.Module):
    def __init__(self, rows, columns, bias_rows, group, device, dtype):
        super().__init__()
        self.group = group
        self.weight = torch.nn.Parameter(torch.empty(rows, columns, device=device, dtype=dtype))
        self.bias = torch.nn.Parameter(torch.empty(bias_rows, device=device, dtype=dtype)) if bias_rows else None

    @torch.no_grad()
    def _take(self, linear):
        rank = dist.get_rank(self.group)
        for mine, whole in ((self.weight, linear.weight), (self.bias, linear.bias)):
            if mine is None:
                continue
            for dim in range(whole.dim()):
                if mine.shape[dim] != whole.shape[dim]:
                    whole = whole.narrow(dim, rank * mine.shape[dim], mine.shape[dim])
            mine.copy_(whole)
        return self

    @classmethod
    def of(cls, linear, group=None, **options):
        """This rank's share of a torch.nn.Linear, on its device."""
        return cls(linear.in_features, linear.out_features, linear.bias is not None, group=group, device=linear.weight.device,
                   dtype=linear.weight.dtype, **options)._take(linear)

    def _fill(self, in_features, out_features):
        whole = torch.nn.Linear(in_features, out_features, self.bias is not None)  # The same on ranks of the same seed.
        self._take(whole.to(self.weight.dtype))


class ColumnParallelLinear(_Parallel):
    """[..., in_features], the same on all ranks -> [..., out_features / ranks], or all of them with gather_output. Ranks have the
    same seed when it is made: the layer is then that of one device."""

    def __init__(self, in_features, out_features, bias=True, gather_output=False, group=None, device="hpu", dtype=None):
        share = _share(out_features, group, "output features")
        super().__init__(share, in_features, share if bias else 0, group, device, dtype)
        self.gather_output = gather_output
        self._fill(in_features, out_features)

    def forward(self, x):
        y = torch.nn.functional.linear(_SumBackward.apply(x, self.group), self.weight, self.bias)
        return _GatherLast.apply(y, self.group) if self.gather_output else y


class RowParallelLinear(_Parallel):
    """[..., in_features / ranks] (all of them, the same on all ranks, without input_is_parallel) -> [..., out_features], the same
    on all ranks."""

    def __init__(self, in_features, out_features, bias=True, input_is_parallel=True, group=None, device="hpu", dtype=None):
        share = _share(in_features, group, "input features")
        super().__init__(out_features, share, out_features if bias else 0, group, device, dtype)
        self.input_is_parallel = input_is_parallel
        self._fill(in_features, out_features)

    def forward(self, x):
        if not self.input_is_parallel:
            x = _TakeLast.apply(x, self.group)
        y = _SumForward.apply(torch.nn.functional.linear(x, self.weight), self.group)
        return y if self.bias is None else y + self.bias
