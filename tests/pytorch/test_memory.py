# SPDX-License-Identifier: Apache-2.0
"""The caching allocator, its statistics, out of memory, and pinned host memory."""
import random
import threading

import pytest
import torch

MIB = 1 << 20


def test_statistics_count_what_happens():
    torch.hpu.init()
    torch.hpu.empty_cache()
    before = torch.hpu.memory_stats()
    kept = torch.empty(1000, dtype=torch.uint8, device="hpu")
    stats = torch.hpu.memory_stats()
    assert stats["InUse"] - before["InUse"] == 1024
    assert stats["NumAllocs"] - before["NumAllocs"] == 1
    assert stats["ActiveAllocs"] - before["ActiveAllocs"] == 1
    assert stats["TotalSystemAllocs"] - before["TotalSystemAllocs"] <= 1
    torch.hpu.reset_peak_memory_stats()
    big = torch.empty(50 * MIB, dtype=torch.uint8, device="hpu")
    assert torch.hpu.max_memory_allocated() - stats["InUse"] == 50 * MIB
    assert torch.hpu.memory_stats()["MaxAllocSize"] == 50 * MIB
    del big
    assert torch.hpu.memory_allocated() == stats["InUse"]
    assert torch.hpu.memory_reserved() >= 50 * MIB
    assert torch.hpu.max_memory_allocated() - stats["InUse"] == 50 * MIB
    torch.hpu.empty_cache()
    assert torch.hpu.memory_reserved() < 50 * MIB
    torch.hpu.reset_peak_memory_stats()
    assert torch.hpu.max_memory_allocated() == torch.hpu.memory_allocated()
    free, total = torch.hpu.mem_get_info()
    assert 0 < free < total == torch.hpu.get_device_properties().total_memory
    assert "InUse" in torch.hpu.memory_summary()
    del kept


def test_a_freed_block_is_used_again_at_once_on_its_stream():
    first = torch.empty(3 * MIB, device="hpu")
    address = first.data_ptr()
    del first
    again = torch.empty(3 * MIB, device="hpu")
    assert again.data_ptr() == address
    del again
    with torch.hpu.stream(torch.hpu.Stream()):
        assert torch.empty(3 * MIB, device="hpu").data_ptr() != address


def test_blocks_are_split_and_merged():
    torch.hpu.empty_cache()
    parts = [torch.empty(100_000, dtype=torch.uint8, device="hpu") for _ in range(10)]
    for part in parts[1::2]:
        part.resize_(0)
    del parts, part
    torch.hpu.empty_cache()
    small = [s for s in torch.hpu.memory_snapshot() if s["segment_type"] == "small"]
    for segment in small:
        states = [block["state"] for block in segment["blocks"]]
        assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        assert all(not (a == b == "free") for a, b in zip(states, states[1:])), "free neighbours are one block"
        assert "used" in states, "a segment without tensors was given back"


def test_a_block_that_another_stream_uses_waits_for_it():
    side = torch.hpu.Stream()
    tensor = torch.full((4 * MIB,), 3, dtype=torch.uint8, device="hpu")
    address = tensor.data_ptr()
    torch.hpu.synchronize()
    side.wait_stream(torch.hpu.current_stream())
    with torch.hpu.stream(side):
        for _ in range(20):
            result = tensor.clone()
    tensor.record_stream(side)
    del tensor
    assert torch.hpu.memory_stats()["Waiting"] in (0, 4 * MIB)
    other = torch.zeros(4 * MIB, dtype=torch.uint8, device="hpu")  # Must not write where `side` reads.
    side.synchronize()
    assert int(result.cpu().min()) == 3
    del other
    again = torch.empty(4 * MIB, dtype=torch.uint8, device="hpu")
    torch.empty(4 * MIB, dtype=torch.uint8, device="hpu")
    assert torch.hpu.memory_stats()["Waiting"] == 0
    assert address is not None and again is not None
    with pytest.raises(RuntimeError, match="cannot be recorded"):
        again.record_stream(torch.hpu.Stream("hpu:1"))


def test_four_threads_with_forty_tensors_of_random_sizes():
    failures = []

    def work(seed):
        try:
            chance = random.Random(seed)
            with torch.hpu.stream(torch.hpu.Stream() if seed % 2 else torch.hpu.default_stream()):
                kept = {}
                for step in range(120):
                    if len(kept) < 40 and (not kept or chance.random() < 0.6):
                        size = chance.choice([0, 1, 255, 256, 257, chance.randint(1, 5000), chance.randint(1, 300_000),
                                              chance.randint(1, 3 * MIB)])
                        value = chance.randint(1, 250)
                        kept[step] = (torch.full((size,), value, dtype=torch.uint8, device="hpu"), value)
                    else:
                        tensor, value = kept.pop(chance.choice(list(kept)))
                        if tensor.numel():
                            host = tensor.cpu()
                            assert int(host.min()) == int(host.max()) == value
                for tensor, value in kept.values():
                    if tensor.numel():
                        host = tensor.cpu()
                        assert int(host.min()) == int(host.max()) == value
        except BaseException as error:  # noqa: B902: told to the main thread
            failures.append(error)

    before = torch.hpu.memory_allocated()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures
    assert torch.hpu.memory_allocated() == before


def test_out_of_memory_says_how_much_and_passes(run_python):
    output = run_python("""
        import torch, hpu_torch
        kept = [torch.empty(20 << 20, dtype=torch.uint8, device="hpu") for _ in range(4)]
        try:
            torch.empty(40 << 20, dtype=torch.uint8, device="hpu")
            raise SystemExit("fits?")
        except torch.hpu.OutOfMemoryError as error:
            assert isinstance(error, RuntimeError)
            print(error)
        assert torch.hpu.memory_stats()["NumOOMs"] == 1
        # What was cached is given back before an allocation fails: 80 MiB in pieces of 20 become one of 60.
        del kept[1:]
        assert torch.hpu.memory_reserved() == 80 << 20
        big = torch.full((60 << 20,), 7, dtype=torch.uint8, device="hpu")
        assert int(big.cpu().min()) == 7
        assert torch.hpu.memory_stats()["NumRetries"] == 1
        # A small one finds the rest, though no whole segment fits.
        rest = [torch.empty(1 << 20, dtype=torch.uint8, device="hpu") for _ in range(8)]
        del big, kept, rest
        # Also what another stream has freed.
        with torch.hpu.stream(torch.hpu.Stream()):
            a = torch.ones(20 << 20, dtype=torch.uint8, device="hpu"); b = a.clone(); a.record_stream(torch.hpu.default_stream()); del a, b
        print(int(torch.ones(80 << 20, dtype=torch.uint8, device="hpu").cpu().min()))
    """, HPU_SIM_HBM_BYTES="96M")
    assert "tried to allocate 40.00 MiB" in output and "80.00 MiB are in tensors" in output and "96.00 MiB of HBM" in output


def test_absurd_sizes_are_refused():
    with pytest.raises(RuntimeError):
        torch.empty(2**62, dtype=torch.uint8, device="hpu")
    with pytest.raises(torch.hpu.OutOfMemoryError, match="PiB|TiB"):
        torch.empty(2**50, dtype=torch.uint8, device="hpu")
    assert torch.ones(3, device="hpu").sum().item() == 3


def test_pinned_memory():
    plain = torch.arange(1000.)
    pinned = plain.pin_memory()
    assert pinned.is_pinned() and pinned.is_pinned("hpu") and not plain.is_pinned() and torch.equal(pinned, plain)
    assert plain.pin_memory("hpu").is_pinned() and pinned[3:].is_pinned() and pinned.pin_memory() is pinned
    hpu = pinned.to("hpu", non_blocking=True)
    target = torch.empty(1000).pin_memory()
    target.copy_(hpu, non_blocking=True)
    torch.hpu.synchronize()
    assert torch.equal(target, plain)
    for _ in range(20):  # Gone before it is copied, as far as the program can tell.
        hpu = torch.full((300_000,), 5.).pin_memory().to("hpu", non_blocking=True)
        assert float(hpu.cpu().min()) == 5
    with pytest.raises(RuntimeError, match="only dense CPU tensors"):
        hpu.pin_memory()
    from hpu_torch import _C
    del pinned, target
    torch.hpu.synchronize()
    assert _C.pinned_bytes() == 0 or _C.pinned_bytes() < 10 * MIB


def test_a_pageable_source_may_change_after_the_call():
    for size in (10, 100_000, 3_000_000):
        for non_blocking in (False, True):
            source = torch.ones(size)
            hpu = source.to("hpu", non_blocking=non_blocking)
            source.zero_()
            assert float(hpu.cpu().min()) == 1
