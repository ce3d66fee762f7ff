# SPDX-License-Identifier: Apache-2.0
"""Tensors, views and copies on hpu, compared with what the same calls give on the CPU."""
import random

import pytest
import torch

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32,
          torch.int64, torch.bool, torch.complex64, torch.complex128]


def values(shape, dtype):
    """Values of the type, its extremes and what is no number among them."""
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_complex:
        return torch.randn(shape, dtype=dtype)
    if dtype.is_floating_point:
        tensor = torch.randn(shape).to(dtype)
        odd = [float("nan"), float("inf"), -float("inf"), -0.0, torch.finfo(dtype).max, torch.finfo(dtype).tiny]
    else:
        tensor = torch.randint(0, 100, tuple(shape)).to(dtype)
        odd = [torch.iinfo(dtype).min, torch.iinfo(dtype).max]
    flat = tensor.view(-1)
    for i, value in enumerate(odd[:flat.numel()]):
        flat[i] = value
    return tensor


def same(hpu, cpu):
    assert hpu.device.type == "hpu"
    assert hpu.dtype == cpu.dtype and hpu.shape == cpu.shape
    # Bits, where numbers are compared: -0.0 is not 0.0, and NaN is NaN.
    there, here = hpu.cpu().contiguous(), cpu.contiguous()
    if cpu.dtype.is_complex:
        there, here = torch.view_as_real(there.resolve_conj().resolve_neg()), torch.view_as_real(here.resolve_conj().resolve_neg())
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[there.element_size()]
    assert torch.equal(there.view(integer) if there.dim() else there.view(1).view(integer),
                       here.view(integer) if here.dim() else here.view(1).view(integer))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_values_come_and_go(dtype):
    for shape in [(), (1,), (0,), (3, 0, 2), (7,), (5, 3), (2, 3, 4, 5), (40, 41)]:
        cpu = values(shape, dtype)
        hpu = cpu.to("hpu")
        same(hpu, cpu)
        same(hpu.clone(), cpu)
        assert hpu.stride() == cpu.stride()


VIEWS = {
    "transposed": lambda t: t.t(),
    "every other": lambda t: t[1::2],
    "columns": lambda t: t[:, 1:4],
    "every third column": lambda t: t[:, ::3],
    "one column": lambda t: t[:, 2],
    "one element": lambda t: t[3, 2],
    "reshaped": lambda t: t.view(4, 3, -1),
    "view of a view of a view": lambda t: t.t()[1:5].t()[::2].unsqueeze(1).transpose(0, 2),
    "diagonal": lambda t: t.diagonal(),
    "strided by hand": lambda t: t.as_strided((3, 2), (7, 1), 2),
    "nothing": lambda t: t[:, 4:4],
    "split": lambda t: t.split(5)[1],
    "flipped back": lambda t: t.permute(1, 0).narrow(0, 1, 3),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_views_are_read_and_written_both_ways(view, dtype):
    see = VIEWS[view]
    cpu = values((12, 9), dtype)
    hpu = cpu.to("hpu")
    same(see(hpu), see(cpu))
    assert see(hpu).data_ptr() - hpu.data_ptr() == see(cpu).data_ptr() - cpu.data_ptr() or see(cpu).numel() == 0
    other = values(see(cpu).shape, dtype)
    see(hpu).copy_(other)  # From the host,
    see(cpu).copy_(other)
    same(hpu, cpu)
    other = values(see(cpu).shape, dtype)
    see(hpu).copy_(other.to("hpu"))  # on the device,
    see(cpu).copy_(other)
    same(hpu, cpu)
    back = values((12, 9), dtype)
    expected = back.clone()
    see(back).copy_(see(hpu))  # to the host,
    see(expected).copy_(see(cpu))
    assert torch.equal(back.view(torch.uint8) if dtype == torch.bool else torch.nan_to_num(torch.view_as_real(back) if dtype.is_complex else back),
                       expected.view(torch.uint8) if dtype == torch.bool else torch.nan_to_num(torch.view_as_real(expected) if dtype.is_complex else expected))
    see(hpu).fill_(1)  # and by filling.
    see(cpu).fill_(1)
    same(hpu, cpu)
    see(hpu).zero_()
    see(cpu).zero_()
    same(hpu, cpu)


def test_unfold_and_expand():
    cpu = torch.arange(24.)
    hpu = cpu.to("hpu")
    same(hpu.unfold(0, 5, 3), cpu.unfold(0, 5, 3))
    same(hpu[:4].expand(6, 4), cpu[:4].expand(6, 4))
    target = torch.zeros(6, 4, device="hpu")
    target.copy_(hpu[:4])
    same(target, cpu[:4].expand(6, 4).contiguous())
    target.copy_(torch.tensor(3.))
    same(target, torch.full((6, 4), 3.))
    with pytest.raises(RuntimeError, match="single memory location"):
        hpu[:4].expand(6, 4).copy_(torch.ones(6, 4))


def test_random_strided_copies_are_the_cpus():
    chance = random.Random(5)

    def view(tensor, dims, slices):
        return tensor.permute(dims)[slices]

    for _ in range(150):
        rank = chance.randint(1, 4)
        shape = [chance.randint(1, 9) for _ in range(rank)]
        slices = tuple(slice(chance.randint(0, 1), None, chance.randint(1, 3)) for _ in range(rank))
        dims = chance.sample(range(rank), rank)
        dtype = chance.choice(DTYPES)
        cpu = values(shape, dtype)
        hpu = cpu.to("hpu")
        seen = view(cpu, dims, slices)
        same(view(hpu, dims, slices), seen)
        same(view(hpu, dims, slices).contiguous(), seen.contiguous())
        order = chance.sample(range(rank), rank)
        into_cpu = values([seen.shape[order.index(i)] * 2 for i in range(rank)], dtype)
        into_hpu = into_cpu.to("hpu")
        cut = tuple(slice(0, None, 2) for _ in range(rank))
        view(into_cpu, order, cut).copy_(seen)
        view(into_hpu, order, cut).copy_(view(hpu, dims, slices))
        same(into_hpu, into_cpu)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_types_convert_as_on_the_cpu(source):
    for target in DTYPES:
        if source.is_complex and not target.is_complex:
            continue  # PyTorch warns of the lost part.
        cpu = torch.randint(0, 100, (4, 5)).to(source)
        same(cpu.to("hpu", target), cpu.to(target))
        same(cpu.to("hpu").to(target), cpu.to(target))
        same(cpu.to("hpu").t().to(target), cpu.t().to(target))
        assert torch.equal(cpu.to("hpu").to("cpu", target), cpu.to(target))


def test_channels_last_is_kept():
    cpu = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    hpu = cpu.to("hpu")
    assert hpu.stride() == cpu.stride() and hpu.is_contiguous(memory_format=torch.channels_last)
    same(hpu, cpu)
    assert (hpu + 1).stride() == (cpu + 1).stride()
    assert torch.empty(2, 3, 4, 5, device="hpu", memory_format=torch.channels_last).stride() == cpu.stride()
    same(hpu.contiguous(), cpu.contiguous())
    conv = torch.nn.Conv2d(3, 6, 3)
    expected = conv(cpu)
    result = conv.to("hpu")(hpu)
    assert result.stride() == expected.stride()
    assert torch.allclose(result.cpu(), expected, atol=1e-5)


def test_lazily_conjugated_and_negated_views():
    cpu = torch.randn(4, 3, dtype=torch.complex64)
    hpu = cpu.to("hpu")
    same(hpu.conj(), cpu.conj())
    same(hpu.conj().imag, cpu.conj().imag)
    assert torch.equal(hpu.conj().cpu().resolve_conj(), cpu.conj().resolve_conj())
    hpu.conj().copy_(torch.full((4, 3), 1 + 2j))
    cpu.conj().copy_(torch.full((4, 3), 1 + 2j))
    same(hpu, cpu)
    hpu.conj().copy_(torch.full((4, 3), 3 + 4j, device="hpu"))
    cpu.conj().copy_(torch.full((4, 3), 3 + 4j))
    same(hpu, cpu)
    hpu.conj().mul_(2 + 1j)
    cpu.conj().mul_(2 + 1j)
    same(hpu, cpu)
    hpu.real.add_(5)
    cpu.real.add_(5)
    same(hpu, cpu)
    torch.view_as_real(hpu)[..., 1] = 7
    torch.view_as_real(cpu)[..., 1] = 7
    same(hpu, cpu)


def test_writes_through_views_are_seen():
    cpu = torch.arange(30.).view(5, 6)
    hpu = cpu.to("hpu")
    for tensor in (cpu, hpu):
        tensor.t().mul_(2)
        tensor[::2] = 5
        tensor.view(-1)[3] = 1
        tensor[:, 1:3].t().add_(1)
        tensor.diagonal().fill_(-1)
        tensor[tensor > 50] = 0
        tensor.as_strided((2, 2), (6, 2), 1).neg_()
        tensor[[0, 4]] += 1
        tensor.index_put_((torch.tensor([1, 1]), torch.tensor([0, 0])), torch.tensor(3., device=tensor.device), accumulate=True)
    same(hpu, cpu)


def test_overlapping_copies():
    for shift in (1, 3):
        cpu = torch.arange(40.).view(8, 5)
        hpu = cpu.to("hpu")
        for tensor in (cpu, hpu):
            with pytest.raises(RuntimeError, match="memory location"):
                tensor.view(-1)[shift:].copy_(tensor.view(-1)[:-shift])
        same(hpu, cpu)
    for square in (torch.ones(4, 4), torch.ones(4, 4, device="hpu")):
        with pytest.raises(RuntimeError, match="memory location"):
            square.copy_(square.t())
    # Where PyTorch cannot tell, the source is read as a whole before anything is written.
    cpu = torch.arange(40.)
    hpu = cpu.to("hpu")
    hpu[0:20:2].copy_(hpu[2:22:2])
    same(hpu[0:20:2], cpu[2:22:2])


def test_resize_and_set():
    cpu, hpu = torch.arange(6.), torch.arange(6.).to("hpu")
    for tensor in (cpu, hpu):
        tensor.resize_(2, 2)
    same(hpu, cpu)
    hpu.resize_(50)
    assert torch.equal(hpu.cpu()[:6], torch.arange(6.))
    empty = torch.empty(0, device="hpu")
    empty.resize_(3, 2).fill_(4)
    same(empty, torch.full((3, 2), 4.))
    other = torch.empty(0, device="hpu").set_(hpu)
    assert other.is_set_to(hpu) and other.data_ptr() == hpu.data_ptr()
    other.fill_(8)
    assert hpu.cpu()[0] == 8
    part = torch.empty(0, device="hpu").set_(hpu, 2, (2, 2), (1, 2))
    same(part, torch.full((2, 2), 8.))
    other.set_()
    assert other.numel() == 0 and other.device.type == "hpu"
    nothing = torch.empty(0, device="hpu")
    nothing.resize_(0)
    nothing.data = hpu
    assert nothing.data_ptr() == hpu.data_ptr()


def test_scalars():
    assert torch.tensor(3, device="hpu").item() == 3
    assert torch.tensor(2.5, device="hpu", dtype=torch.bfloat16).item() == 2.5
    assert torch.tensor(1 + 2j, device="hpu").item() == 1 + 2j
    assert torch.tensor([[2**62 + 1]], device="hpu").item() == 2**62 + 1
    assert bool(torch.tensor(True, device="hpu"))
    assert torch.tensor([1, 2, 3], device="hpu").tolist() == [1, 2, 3]
    assert torch.tensor([5, 6], device="hpu")[torch.tensor(1)].item() == 6
    with pytest.raises((RuntimeError, ValueError)):
        torch.ones(2, device="hpu").item()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fills_are_the_cpus(dtype):
    for value in (0, 1, 100) + ((-3,) if dtype.is_signed and dtype != torch.bool else ()) + \
            ((2**40 + 5,) if dtype in (torch.int64, torch.float64) else ()):
        same(torch.full((3, 5), value, dtype=dtype, device="hpu"), torch.full((3, 5), value, dtype=dtype))
        cpu, hpu = torch.zeros(6, 6, dtype=dtype), torch.zeros(6, 6, dtype=dtype, device="hpu")
        cpu[1:5:2, ::3].fill_(value)
        hpu[1:5:2, ::3].fill_(value)
        same(hpu, cpu)
    if not dtype.is_floating_point and dtype not in (torch.bool, torch.complex64, torch.complex128, torch.int64):
        with pytest.raises(RuntimeError, match="overflow"):
            torch.zeros(2, dtype=dtype, device="hpu").fill_(2**40)


def test_copies_between_devices():
    cpu = torch.randn(6, 8)
    first = cpu.to("hpu:0")
    for index in (1, 7):
        other = first.to(f"hpu:{index}")
        assert other.device == torch.device("hpu", index)
        same(other, cpu)
        same(other.t().to("hpu:0"), cpu.t())
        same(first[:, ::2].to(f"hpu:{index}"), cpu[:, ::2])
        target = torch.zeros(8, 6, device=f"hpu:{index}")
        target.t().copy_(first)
        same(target, cpu.t().contiguous())
        same(first.to(f"hpu:{index}", torch.int64), cpu.to(torch.int64))
    with pytest.raises(RuntimeError, match="same device"):
        first + first.to("hpu:1")
    assert first.data_ptr() != first.to("hpu:1").data_ptr()
    same(first.hpu(7).hpu(), cpu)


def test_a_large_copy_is_whole():
    cpu = torch.randint(0, 255, (5 << 20,), dtype=torch.uint8)
    hpu = cpu.to("hpu")
    cpu_copy = cpu.clone()
    cpu.zero_()  # The copy has been made.
    same(hpu, cpu_copy)
    same(hpu[1:].clone(), cpu_copy[1:])


def test_what_is_refused_says_why():
    with pytest.raises(RuntimeError, match="pinned"):
        torch.empty(3, device="hpu", pin_memory=True)
    with pytest.raises(RuntimeError, match="hpu:9 does not exist.*8 hpu"):
        torch.empty(3, device="hpu:9")
    with pytest.raises((TypeError, RuntimeError)):
        torch.ones(3, device="hpu").numpy()
    with pytest.raises(RuntimeError):
        torch.ones(3, device="hpu").copy_(torch.ones(4))
    with pytest.raises(RuntimeError):
        torch.ones(2, 2, device="hpu").to_sparse().to("hpu").coalesce().values().fill_(torch.ones(3, device="meta"))


def test_tensors_print():
    assert "device='hpu:0'" in repr(torch.arange(3, device="hpu")) and "[0, 1, 2]" in repr(torch.arange(3, device="hpu"))
    repr(torch.ones(0, device="hpu"))
    repr(torch.randn(3, 3, dtype=torch.complex64, device="hpu"))
    assert torch.ones(1, device="hpu").is_hpu and not torch.ones(1).is_hpu
