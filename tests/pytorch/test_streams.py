# SPDX-License-Identifier: Apache-2.0
"""Devices, streams and events."""
import threading

import pytest
import torch


def test_the_current_device_is_the_threads():
    assert torch.hpu.current_device() == 0
    torch.hpu.set_device("hpu:3")
    assert torch.ones(1, device="hpu").device.index == 3
    seen = []
    thread = threading.Thread(target=lambda: seen.append(torch.hpu.current_device()))
    thread.start()
    thread.join()
    assert seen == [0]
    with torch.hpu.device(5):
        assert torch.hpu.current_device() == 5
        with torch.hpu.device(None), torch.hpu.device(-1):
            assert torch.hpu.current_device() == 5
        with pytest.raises(KeyError), torch.hpu.device("hpu:1"):
            raise KeyError
        with torch.hpu.device_of(torch.ones(1, device="hpu:2")):
            assert torch.hpu.current_device() == 2
        with torch.hpu.device_of(torch.ones(1)):
            assert torch.hpu.current_device() == 5
    assert torch.hpu.current_device() == 3
    for wrong in (8, -1, "cpu", "hpu:8", torch.device("cuda")):
        with pytest.raises((RuntimeError, ValueError)):
            torch.hpu.set_device(wrong)


def test_devices_are_described_without_being_opened(run_python):
    output = run_python("""
        import torch, hpu_torch
        print(torch.hpu.device_count(), torch.hpu.get_device_name(), torch.hpu.get_device_properties(7).module_id,
              torch.hpu.get_device_capability("hpu:1"), torch.hpu.memory_allocated(), torch.hpu.is_available(),
              torch.hpu.current_stream(), torch.hpu.is_bf16_supported())
        torch.manual_seed(3); torch.hpu.manual_seed_all(4); torch.hpu.empty_cache(); torch.hpu.synchronize()
        torch.hpu.current_stream().synchronize()
        assert not torch.hpu.is_initialized()
        torch.hpu.init()
        assert torch.hpu.is_initialized()
    """, HPU_NODE_TARGET="gaudi3")
    assert "8 GAUDI3" in output and " 0 gaudi3 0 True" in output


def test_events_order_streams():
    side, main = torch.hpu.Stream(), torch.hpu.current_stream()
    a = torch.zeros(200_000, device="hpu")
    for round in range(1, 6):
        a.fill_(round)
        event = main.record_event()
        with torch.hpu.stream(side):
            event.wait()
            assert torch.hpu.current_stream() == side
            b = a.clone()
            done = torch.hpu.Event()
            done.record()
        main.wait_event(done)
        a.zero_()
        done.synchronize()
        assert float(b.cpu().min()) == float(b.cpu().max()) == round
    assert side.query() and main.device == torch.device("hpu", 0)
    assert side != main and torch.hpu.default_stream() == main and hash(main) == hash(torch.hpu.default_stream())
    with side:
        assert torch.hpu.current_stream() == side
    assert torch.hpu.current_stream() == main
    assert torch.hpu.Stream(priority=-1).priority == -1 and side.priority == 0


def test_events_order_devices():
    far = torch.hpu.Stream("hpu:1")
    near = torch.full((100_000,), 2., device="hpu:0")
    with torch.hpu.stream(far):
        assert torch.hpu.current_device() == 1
        moved = near.to("hpu:1")
    far.synchronize()
    assert float(moved.cpu().sum()) == 200_000
    assert torch.hpu.current_device() == 0


def test_time_is_the_devices():
    start, end = torch.hpu.Event(enable_timing=True), torch.hpu.Event(enable_timing=True)
    a = torch.ones(1 << 22, device="hpu")
    torch.hpu.synchronize()
    times = []
    for _ in range(3):
        start.record()
        b = a.clone()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    assert b is not None and 0 < times[0] < 1, times
    assert times[1] == pytest.approx(times[2]), "the clock is modelled: the same work takes the same time"
    with pytest.raises(RuntimeError, match="enable_timing"):
        start.elapsed_time(torch.hpu.current_stream().record_event())
    with pytest.raises(RuntimeError, match="recorded"):
        start.elapsed_time(torch.hpu.Event(enable_timing=True))
    assert torch.hpu.Event().query()
    elsewhere = torch.hpu.Event(enable_timing=True)
    elsewhere.record(torch.hpu.current_stream("hpu:1"))
    elsewhere.synchronize()
    with pytest.raises(RuntimeError, match="clock of its own"):
        start.elapsed_time(elsewhere)
    with pytest.raises(RuntimeError, match="hpu:0.*hpu:1"):
        start.record(torch.hpu.current_stream("hpu:1"))


def test_all_streams_of_the_pool_work():
    streams = [torch.hpu.Stream() for _ in range(40)]
    results = []
    for i, stream in enumerate(streams):
        with torch.hpu.stream(stream):
            results.append(torch.full((100,), float(i), device="hpu"))
    torch.hpu.synchronize()
    assert len({stream.stream_id for stream in streams}) == 32
    for i, result in enumerate(results):
        assert float(result.cpu().sum()) == 100 * i


def test_a_failure_of_the_device_is_an_exception_and_passes(run_python):
    """A fault that the node injects: the next work that reads device memory fails."""
    pytest.importorskip("openhpu")
    output = run_python("""
        import openhpu, torch, hpu_torch
        a = torch.ones(1000, device="hpu")
        torch.hpu.synchronize()
        openhpu.Device(0).inject("uncorrected_ecc")
        try:
            a.cpu()
            raise SystemExit("no failure?")
        except RuntimeError as error:
            print(error)
        print(a.cpu().sum().item())
    """)
    assert "waiting for a stream" in output and "torch" in output and "1000.0" in output
