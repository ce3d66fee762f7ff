# SPDX-License-Identifier: Apache-2.0
"""Random numbers and dropout: the bits against Threefry-2x32 written down again here, distributions by their moments and
by Kolmogorov and Smirnov's distance; fp8 conversions."""

import math

from cases import *
from layer_params import params

suite = Suite()
I32 = torch.int32
MASK = numpy.uint64(0xFFFFFFFF)


def threefry(counter, key):
    """20 rounds on pairs of 32-bit words (numpy arrays of uint64 that hold 32 bits)."""
    rotations = (13, 15, 26, 6, 17, 29, 16, 24)
    keys = [numpy.uint64(k) for k in (*key, key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = (counter[0] + keys[0]) & MASK, (counter[1] + keys[1]) & MASK
    for i in range(20):
        x = (x + y) & MASK
        r = numpy.uint64(rotations[i % 8])
        y = (((y << r) | (y >> (numpy.uint64(32) - r))) & MASK) ^ x
        if i % 4 == 3:
            n = i // 4 + 1
            x = (x + keys[n % 3]) & MASK
            y = (y + keys[(n + 1) % 3] + numpy.uint64(n)) & MASK
    return x, y


def words(count, seed, stream=0):
    counter = numpy.arange(count, dtype=numpy.uint64)
    return threefry((counter, numpy.zeros_like(counter)), (seed, stream))


# The published answers of the algorithm (zeros, and all ones).
zero = numpy.zeros(1, dtype=numpy.uint64)
assert [int(w[0]) for w in threefry((zero, zero), (0, 0))] == [0x6B200159, 0x99BA4EFE]
assert [int(w[0]) for w in threefry((zero + MASK, zero + MASK), (0xFFFFFFFF, 0xFFFFFFFF))] == [0x1CB996FC, 0xBB002BE7]


def uniform(shape, seed):
    count = math.prod(shape)
    return torch.from_numpy((words(count, seed)[0] >> numpy.uint64(8)).astype(numpy.float64) / 2 ** 24).reshape(shape)


def case(name, guid, inputs, outputs, p=b""):
    """outputs: (a value of the result's sizes and type, None or what to check)."""
    c = suite.case(name)
    c.node(guid, [None if v is None else c.input(v) for v in inputs],
           [None if v is None else c.output(v, check=check) for v, check in outputs], p)
    return c


def distribution(cdf, critical=1.95):
    """The largest distance of the sample's distribution from the wanted one; 1.95 / sqrt(n) is a chance of 1 in 1000."""
    def check(got):
        x = numpy.sort(got.double().flatten().numpy())
        n = len(x)
        at = numpy.array([cdf(v) for v in x])
        distance = max(numpy.max(numpy.arange(1, n + 1) / n - at), numpy.max(at - numpy.arange(n) / n))
        return None if distance < critical / math.sqrt(n) else f"distance {distance} from the distribution for {n} numbers"
    return check


SHAPE = (9, 11, 41)
seed7 = torch.tensor([7], dtype=I32)
p = params("ns_RandomUniform_Params", low=-2.0, high=3.0, seed=7)
expected = (uniform(SHAPE, 7) * 5 - 2).float()
case("uniform", "random_uniform_fwd_f32", [], [(expected, None)], p)
case("uniform_seed_tensor", "random_uniform_fwd_f32", [seed7], [(expected, None)], params("ns_RandomUniform_Params", low=-2.0, high=3.0, seed=1))
case("uniform_seed_second", "random_uniform_fwd_f32", [None, seed7], [(expected, None)], params("ns_RandomUniform_ParamsV2", low=-2.0, high=3.0))
case("uniform_negative_seed", "random_uniform_fwd_f32", [torch.tensor([-5], dtype=I32)], [((uniform(SHAPE, 2 ** 32 - 5) * 5 - 2).float(), None)],
     params("ns_RandomUniform_ParamsV3", low=-2.0, high=3.0))
case("uniform_bf16", "random_uniform_fwd_bf16", [], [(expected.bfloat16(), None)], p)
case("uniform_distribution", "random_uniform_fwd_f32", [], [(expected, distribution(lambda v: (v + 2) / 5))], p)
case("uniform_i32", "random_uniform_fwd_i32", [], [((uniform(SHAPE, 7) * 10 - 3).floor().to(I32), None)], params("ns_RandomUniform_ParamsV2", low=-3, high=7, seed=7))
case("philox", "philox_random_uniform_f32", [seed7], [(expected, None)], params("ns_PhiloxRandomUniform_ParamsV3", low=-2.0, high=3.0))
c = suite.case("uniform_shape_tensor")
c.node("random_uniform_fwd_f32", [c.shape(SHAPE), c.input(seed7)], [c.output(expected, declare=False)], params("ns_RandomUniform_Params", low=-2.0, high=3.0))

u, v = (torch.from_numpy((w >> numpy.uint64(8)).astype(numpy.float64) / 2 ** 24).reshape(SHAPE) for w in words(math.prod(SHAPE), 11))
normal = (0.5 + 2 * (-2 * torch.log(1 - u)).sqrt() * torch.cos(2 * math.pi * v)).float()
p = params("ns_RandomNormal_Params", mean=0.5, stddev=2.0, seed=11)
case("normal", "random_normal_fwd_f32", [], [(normal, None)], p)
case("normal_distribution", "random_normal_fwd_f32", [], [(normal, distribution(lambda x: 0.5 * (1 + math.erf((x - 0.5) / 2 / math.sqrt(2)))))], p)
case("normal_v2", "random_normal_fwd_bf16", [None, torch.tensor([11], dtype=I32)], [(normal.bfloat16(), None)], params("ns_RandomNormal_ParamsV2", mean=0.5, stddev=2.0))

chances = rand(*SHAPE, low=0, high=1)
case("bernoulli_tensor", "random_bernoulli_fwd_f32", [chances], [((uniform(SHAPE, 3) < chances).float(), None)], params("ns_RandomBernoulli_Params", seed=3))
case("bernoulli", "pt_bernoulli_f32", [], [((uniform(SHAPE, 3) < 0.25).float(), None)], params("ns_RandomBernoulli_ParamsV2", seed=3, probability=0.25))
case("bernoulli_i8", "random_bernoulli_fwd_i8", [], [((uniform(SHAPE, 3) < 0.25), None)], params("ns_RandomBernoulli_ParamsV2", seed=3, probability=0.25))
seeds = torch.from_numpy(words(6, 7, 1)[0].astype(numpy.uint32).view(numpy.int32).copy())
case("seeds", "random_seed_i32", [seed7], [(seeds, None)])

for dtype in FLOATS:
    t = TYPE_NAMES[dtype]
    x = rand(*SHAPE, dtype=dtype)
    kept = uniform(SHAPE, 5) < 1 - 0.3
    rate = kept.double().mean().item()
    assert abs(rate - 0.7) < 0.03, rate
    y = torch.where(kept, x.double() / 0.7, 0).to(dtype)
    p = params("ns_DropoutKernel_Params", ratio=0.3, seed=5)
    case(f"dropout_{t}", f"dropout_fwd_{t}", [x], [(y, None), (kept, None)], p)
    case(f"dropout_{t}_seed_tensor", f"dropout_fwd_{t}", [x, torch.tensor([5], dtype=I32)], [(y, None), (kept, None)],
         params("ns_DropoutKernel_ParamsOptionalMaskOut", ratio=0.3, seed=1))
    case(f"dropout_{t}_inference", f"dropout_fwd_{t}", [x], [(x, None)], params("ns_DropoutKernel_ParamsOptionalTrain", ratio=0.3, isTraining=0))
    dy = rand(*SHAPE, dtype=dtype)
    case(f"dropout_bwd_{t}", f"dropout_bwd_{t}", [dy, kept], [(torch.where(kept, dy.double() / 0.7, 0).to(dtype), None)], p)

# Attention drops probabilities as its dropout's seed says; the gradient without stored ones drops the same.
q, k, v, dy = rand(2, 5, 8), rand(2, 6, 8), rand(2, 6, 4), rand(2, 5, 4)
leaves = [z.double().requires_grad_() for z in (q, k, v)]
s = leaves[0] @ leaves[1].mT * 0.5
probabilities = torch.softmax(s, -1)
kept = uniform((2, 5, 6), 5) < 1 - 0.25
out = torch.where(kept, probabilities / 0.75, 0) @ leaves[2]
out.backward(dy.double())
grads = [(z.grad.float(), None) for z in leaves]
dropout = dict(ratio=0.25, seed=5)
p = params("ns_Sdpa_ParamsV3", scale=0.5, dropout=dropout)
largest = s.amax(-1, keepdim=True)
m, linv = largest.detach().float(), (1 / (s - largest).exp().sum(-1, keepdim=True)).detach().float()
case("sdpa_dropout", "sdpa_fwd_f32", [q, k, v], [(out.detach().float(), None), (probabilities.detach().float(), None), (kept, None)], p)
case("sdpa_dropout_bwd", "sdpa_bwd_f32", [dy, q, k, v, probabilities.detach().float(), kept], grads, p)
case("sdpa_dropout_recomp", "sdpa_recomp_fwd_f32", [q, k, v, None, torch.tensor([5], dtype=I32)],
     [(out.detach().float(), None), (m, None), (linv, None), (torch.tensor([5], dtype=I32), None)], params("ns_Sdpa_ParamsV3", scale=0.5, dropout=dict(ratio=0.25)))
case("sdpa_dropout_recomp_bwd", "sdpa_recomp_bwd_f32", [dy, q, k, v, None, m, linv], grads, p)

# fp8: values that both formats hold exactly, and some that must round to their neighbours.
F8_143, F8_152 = 1 << 13, 1 << 14
exact = torch.tensor([[0.0, 1.0, -1.5, 2.5, 0.125], [-0.5, 3.0, 7.0, -12.0, 48.0]], dtype=torch.bfloat16)
for name, syn in (("hf8", F8_143), ("f8", F8_152)):
    scale, back = torch.tensor([0.5]), torch.tensor([2.0])
    c = suite.case(f"fp8_{name}")
    narrow, amax = c.temp(exact.shape, syn), torch.tensor([48.0])
    c.node("convert_to_fp8_bf16", [c.input(exact), c.input(scale)], [narrow, c.output(amax)])
    value = exact if name == "hf8" else torch.where(exact == 0, exact, (exact.float().frexp()[0] * 8).round().ldexp(exact.float().frexp()[1] - 3)).bfloat16()
    c.node("convert_from_fp8_bf16", [narrow, c.input(back)], [c.output(value)])
a, b = rand(5, 6, dtype=torch.int8, low=-7, high=8).bfloat16(), rand(6, 7, dtype=torch.int8, low=-7, high=8).bfloat16()
c = suite.case("fp8_gemm")
left, right = c.temp(a.shape, F8_143), c.temp(b.shape, F8_143)
c.node("convert_to_fp8_bf16", [c.input(a)], [left]).node("convert_to_fp8_bf16", [c.input(b)], [right])
c.node("fp8_gemm_bf16", [left, right, c.input(torch.tensor([0.5])), c.input(torch.tensor([0.25]))], [c.output((a.double() @ b.double() * 0.125).bfloat16())])

x = rand(3, 5)
case("bad_ratio", "dropout_fwd_f32", [x], [(x, None)], params("ns_DropoutKernel_Params", ratio=1.5)).fails("ratio 1.5")
case("bad_bounds", "random_uniform_fwd_f32", [], [(x, None)], params("ns_RandomUniform_Params", low=1.0, high=-1.0)).fails("a range from 1")
case("bad_seed", "random_normal_fwd_f32", [None, rand(2)], [(x, None)], params("ns_RandomNormal_Params")).fails("must be one integer")
c = suite.case("bad_fp8")
c.node("convert_to_fp8_f32", [c.input(x)], [c.output(x)]).fails("must be an fp8 tensor")
c = suite.case("bad_sizes")
c.node("random_uniform_fwd_f32", [], [c.output(x, declare=False)], params("ns_RandomUniform_Params", high=1.0)).fails("needs its sizes")

sys.exit(suite.main())
