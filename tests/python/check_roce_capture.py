#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks packets that an endpoint sent, and those of Linux' rdma_rxe that are kept, by what is not ours: each ICRC by zlib, or all of
them by tshark.

    check_roce_capture.py build/tests/coll_roce_test [--tshark]

Without tshark (a Debian package) `--tshark` exits with 77, and says so.
The ICRC is computed as the InfiniBand Architecture Specification says (annex A17.3.3) from the capture's bytes alone.
"""
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

ONES = b"\xff"


def records(path):
    with open(path, "rb") as file:
        data = file.read()
    magic, _, _, _, _, _, link = struct.unpack_from("<IHHiIII", data)
    assert magic == 0xA1B23C4D and link == 101, "a pcap file of IP packets, with nanoseconds"
    at = 24
    while at < len(data):
        _, _, length, whole = struct.unpack_from("<IIII", data, at)
        assert length == whole
        yield data[at + 16:at + 16 + length]
        at += 16 + length


def icrc(packet):
    version = packet[0] >> 4
    ip = bytearray(packet[:40 if version == 6 else 20])
    if version == 6:
        ip[0:4] = bytes([0x60 | 0x0F]) + ONES * 3
        ip[7] = 0xFF
    else:
        ip[1] = ip[8] = 0xFF
        ip[10:12] = ONES * 2
    rest = bytearray(packet[len(ip):])
    rest[6:8] = ONES * 2
    rest[8 + 4] = 0xFF
    return zlib.crc32(ONES * 8 + bytes(ip) + bytes(rest[:-4])), struct.unpack("<I", packet[-4:])[0]


def check(path):
    opcodes = set()
    count = 0
    for packet in records(path):
        version = packet[0] >> 4
        at = 40 if version == 6 else 20
        udp = struct.unpack_from(">H", packet, at + 4)[0]
        assert at + udp == len(packet), "the lengths of IP and UDP"
        if version == 4:
            assert struct.unpack_from(">H", packet, 2)[0] == len(packet)
            assert struct.unpack_from(">HH", packet, 4) == (0, 0x4000), "identification 0, not to be fragmented"
        computed, there = icrc(packet)
        assert computed == there, f"packet {count}: ICRC {there:08x} where zlib computes {computed:08x}"
        opcodes.add(packet[at + 8])
        count += 1
    return count, opcodes


def with_known_port(path):
    """The same packets to port 4791, which is how tshark knows RoCE."""
    with open(path, "rb") as file:
        header = file.read(24)
    changed = path + ".4791"
    with open(changed, "wb") as file:
        file.write(header)
        for packet in records(path):
            packet = bytearray(packet)
            at = 40 if packet[0] >> 4 == 6 else 20
            struct.pack_into(">H", packet, at + 2, 4791)
            file.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
    return changed


def dissect(path):
    """What tshark says: all of it is RoCE, and nothing malformed."""
    command = ["tshark", "-r", with_known_port(path), "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed"]
    # Payloads are random numbers: what they might look like is of no interest.
    listed = subprocess.run(["tshark", "-G", "heuristic-decodes"], capture_output=True, text=True, timeout=120)
    for line in listed.stdout.splitlines():
        if line.startswith("infiniband"):
            command += ["--disable-protocol", line.split("\t")[1]]
    run = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[:1000]
    lines = [(line + "\t").split("\t") for line in run.stdout.splitlines()]
    for number, (opcode, malformed, *_) in enumerate(lines):
        assert opcode, f"tshark takes packet {number} for no RoCE"
        assert not malformed, f"tshark calls packet {number} malformed"
    return len(lines)


RXE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data", "roce", "rdma_rxe.pcap")


def main():
    by_tshark = "--tshark" in sys.argv[2:]
    if by_tshark and not shutil.which("tshark"):
        print("SKIPPED: tshark (Debian package tshark) is not installed: no other program has looked at the packets")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as directory:
        name = os.path.join(directory, "capture")
        subprocess.run([sys.argv[1], "--gtest_filter=Endpoint.CapturesWhatGoesAndComes", "--gtest_brief=1"], check=True,
                       env={**os.environ, "HPU_TEST_CAPTURE": name}, timeout=300)
        kept = shutil.copy(RXE, directory)
        if by_tshark:
            print(f"rdma_rxe: tshark dissects {dissect(kept)} packets, none malformed")
        else:
            print(f"rdma_rxe: zlib agrees with {check(kept)[0]} ICRCs")
        for kind in ("v6", "v4"):
            path = f"{name}.{kind}.pcap"
            if by_tshark:
                print(f"{kind}: tshark dissects {dissect(path)} packets, none malformed")
                continue
            count, opcodes = check(path)
            # WRITE with an immediate, SEND, READ request and responses, acknowledgement, atomics.
            wanted = {0x00, 0x01, 0x02, 0x06, 0x07, 0x09, 0x0C, 0x0D, 0x0E, 0x0F, 0x11, 0x12, 0x13, 0x14}
            assert wanted <= opcodes, f"not in the capture: {sorted(wanted - opcodes)}"
            print(f"{kind}: zlib agrees with {count} ICRCs")


if __name__ == "__main__":
    main()
