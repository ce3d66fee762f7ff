# SPDX-License-Identifier: Apache-2.0
"""Small networks of convolutions, batch norms, pools and slices, forward, and one step of training, against PyTorch: what
programs compile again and again."""

import struct

import torch.nn.functional as F

from api_params import axis_params, slice_params
from cases import *
from layer_params import params

suite = Suite()
F32, BF16 = torch.float32, torch.bfloat16


def conv_params(kernel, stride=1, pad=0):
    return struct.pack("<4I4i2I", kernel, kernel, stride, stride, pad, pad, pad, pad, 1, 1) + struct.pack("<??HIQQ", False, False, 0, 1, 0, 0) + struct.pack("<II", 1, 0)


def nhwc(x):
    return x.movedim(1, -1).contiguous()


def rsck(w):
    return w.movedim((0, 1), (-1, -2)).contiguous()


class Net:
    """Builds the graph and computes in double beside it; values are NCHW."""

    def __init__(self, name, dtype):
        self.c, self.dtype, self.t = suite.case(name), dtype, TYPE_NAMES[dtype]
        self.loose = 1e-4 if dtype == F32 else 4e-2

    def input(self, x):
        return self.c.input(nhwc(x)), x.double()

    def temp(self, value):
        return self.c.temp(nhwc(value).shape, self.dtype), value.to(self.dtype).double()

    def conv(self, x, channels, kernel=3, stride=1, pad=1):
        w = rand(channels, x[1].shape[1], kernel, kernel, dtype=self.dtype, low=-0.4, high=0.4)
        y = self.temp(F.conv2d(x[1], w.double(), None, stride, pad))
        self.c.node("spatial_convolution", [x[0], self.c.input(rsck(w))], [y[0]], conv_params(kernel, stride, pad))
        return y

    def norm(self, x):
        n = x[1].shape[1]
        gamma, beta, mean, var = rand(n, low=0.5, high=2), rand(n), rand(n), rand(n, low=0.5, high=2)
        y = self.temp(F.batch_norm(x[1], mean.double().clone(), var.double().clone(), gamma.double(), beta.double(), True, 0.1, 1e-3))
        saved = [self.c.temp((n,), F32) for _ in range(4)]
        self.c.node(f"batch_norm_fwd_{self.t}", [x[0], *(self.c.input(v) for v in (beta, gamma, mean, var))], [y[0], *saved],
                    params("ns_BatchNormKernel_ParamsV2", momentum=0.1, epsilon=1e-3, isTraining=True))
        return y

    def relu(self, x):
        y = self.temp(x[1].relu())
        self.c.node(f"relu_fwd_{self.t}", [x[0]], [y[0]])
        return y

    def add(self, a, b):
        y = self.temp(a[1] + b[1])
        self.c.node(f"add_fwd_{self.t}", [a[0], b[0]], [y[0]])
        return y

    def pool(self, x, mean=False):
        y = self.temp((F.avg_pool2d if mean else F.max_pool2d)(x[1], 2))
        window = dict(kernel_w=2, kernel_h=2, stride_w=2, stride_h=2, dilation_w=1, dilation_h=1)
        if mean:
            self.c.node(f"avg_pool_2d_fwd_{self.t}", [x[0]], [y[0]], params("ns_AveragePooling_Params", **window))
        else:
            self.c.node(f"maxpool_2d_fwd_{self.t}", [x[0]], [self.c.temp(nhwc(y[1]).shape, torch.uint8), y[0]], params("ns_SpatialReduction_Params", **window))
        return y

    def slice(self, x, first, last):
        """Of the channels, which are SynapseAI's axis 0."""
        y = self.temp(x[1][:, first:last])
        self.c.node("slice", [x[0]], [y[0]], slice_params([(0, first, last, 1)]))
        return y

    def crop(self, x, first, last):
        y = self.temp(x[1][:, :, first:last])
        self.c.node("slice", [x[0]], [y[0]], slice_params([(2, first, last, 1)]))
        return y

    def concat(self, *parts):
        y = self.temp(torch.cat([p[1] for p in parts], 1))
        self.c.node("concat", [p[0] for p in parts], [y[0]], axis_params(0))
        return y

    def end(self, x):
        self.c.node("identity", [x[0]], [self.c.output(nhwc(x[1]).to(self.dtype), tolerance=self.loose)])


def plain(net, x):
    return net.relu(net.norm(net.conv(x, 8)))


def residual(net, x):
    y = net.relu(net.norm(net.conv(x, x[1].shape[1])))
    return net.relu(net.add(net.norm(net.conv(y, x[1].shape[1])), x))


def bottleneck(net, x):
    y = net.relu(net.norm(net.conv(x, 4, 1, 1, 0)))
    y = net.relu(net.norm(net.conv(y, 4, 3, 2, 1)))
    short = net.conv(x, 12, 1, 2, 0)
    return net.relu(net.add(net.conv(y, 12, 1, 1, 0), short))


def inception(net, x):
    return net.concat(net.conv(x, 4, 1, 1, 0), net.relu(net.conv(x, 6, 3, 1, 1)), net.conv(net.relu(net.conv(x, 3, 1, 1, 0)), 5, 3, 1, 1))


def shuffle(net, x):
    y = net.conv(x, 8)
    left, right = net.slice(y, 0, 3), net.slice(y, 3, 8)
    return net.concat(net.relu(right), net.norm(left))


def pyramid(net, x):
    y = net.pool(net.relu(net.conv(x, 6)))
    z = net.pool(net.norm(net.conv(y, 8)), mean=True)
    return net.relu(z)


def crops(net, x):
    y = net.conv(x, 5)
    return net.add(net.crop(y, 0, 4), net.crop(y, 2, 6))


def deep(net, x):
    for channels in (6, 6, 8, 8):
        x = net.relu(net.norm(net.conv(x, channels)))
    return x


for dtype in (F32, BF16):
    for build in (plain, residual, bottleneck, inception, shuffle, pyramid, crops, deep):
        for batch, channels, height, width in ((2, 4, 8, 8), (1, 3, 9, 14)):
            if build is pyramid and (height, width) != (8, 8):
                continue
            net = Net(f"{build.__name__}_{TYPE_NAMES[dtype]}_{height}x{width}", dtype)
            net.end(build(net, net.input(rand(batch, channels, height, width, dtype=dtype))))


def training_step(name, dtype, channels, kernel, size, stride=1):
    """conv, relu, mean pool of everything, product, and the gradients of both weights."""
    c, t = suite.case(name), TYPE_NAMES[dtype]
    loose = 1e-4 if dtype == F32 else 4e-2
    pad = kernel // 2
    x, w, v = rand(3, channels, size, size, dtype=dtype), rand(6, channels, kernel, kernel, dtype=dtype), rand(6, 5, dtype=dtype)
    dy = rand(3, 5, dtype=dtype)
    wl, vl = w.double().requires_grad_(), v.double().requires_grad_()
    y = F.conv2d(x.double(), wl, None, stride, pad)
    p = y.relu().sum((2, 3))
    (p @ vl).backward(dy.double())
    out = y.shape[-1]
    xt, wt, vt, dt = c.input(nhwc(x)), c.input(rsck(w)), c.input(v), c.input(dy)
    yt, rt, dr, dq = (c.temp((3, out, out, 6), dtype) for _ in range(4))
    c.node("spatial_convolution", [xt, wt], [yt], conv_params(kernel, stride, pad))
    c.node(f"relu_fwd_{t}", [yt], [rt])
    flat, summed, two = c.temp((3, out * out, 6), dtype), c.temp((3, 1, 6), dtype), c.temp((3, 6), dtype)
    c.node("reshape", [rt], [flat])
    c.node(f"reduce_sum_fwd_{t}", [flat], [summed], params("ns_Reduction_Params", reductionDimension=1))
    c.node("reshape", [summed], [two])
    c.node("gemm", [two, vt], [c.output((p @ vl).detach().to(dtype), tolerance=loose)])
    c.node("gemm_dedw", [dt, two], [c.output(vl.grad.to(dtype), tolerance=loose)])
    dp, dp4 = c.temp((3, 6), dtype), c.temp((3, 1, 1, 6), dtype)
    c.node("gemm_dedx", [dt, vt], [dp])
    c.node("reshape", [dp], [dp4])
    c.node("broadcast", [dp4], [dr])
    c.node(f"relu_bwd_{t}", [dr, rt], [dq])
    c.node("dedw", [dq, xt], [c.output(rsck(wl.grad).to(dtype), tolerance=loose)], conv_params(kernel, stride, pad))


for dtype in (F32, BF16):
    training_step(f"step_{TYPE_NAMES[dtype]}", dtype, 3, 3, 6)
    training_step(f"step_{TYPE_NAMES[dtype]}_strided", dtype, 4, 3, 9, 2)
    training_step(f"step_{TYPE_NAMES[dtype]}_points", dtype, 5, 1, 7)

if __name__ == "__main__":
    sys.exit(suite.main())
