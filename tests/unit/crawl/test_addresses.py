"""Which addresses are public: every special range, its edges and its disguises."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawl.egress import refusal_of

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "9.255.255.255",
    "11.0.0.0",
    "100.63.255.255",
    "100.128.0.0",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "172.15.255.255",
    "172.32.0.0",
    "192.0.1.0",
    "192.167.255.255",
    "192.169.0.0",
    "198.17.255.255",
    "198.20.0.0",
    "223.255.255.255",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "2001:200::1",
    "3ffe:ffff::1",
]
REFUSED = [
    # IPv4: first and last address of each special block
    "0.0.0.0", "0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "100.100.100.200",
    "127.0.0.1", "127.255.255.255", "168.63.129.16", "169.254.0.0", "169.254.169.254", "169.254.170.2",
    "172.16.0.0", "172.31.255.255", "192.0.0.0", "192.0.0.8", "192.0.0.170", "192.0.0.255", "192.0.2.1",
    "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.168.0.0", "192.168.255.255", "192.175.48.1",
    "198.18.0.0", "198.19.255.255", "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    # IPv6
    "::", "::1", "::7f00:1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.5", "::ffff:8.8.8.8", "::ffff:100.64.0.1",
    "::ffff:0:8.8.8.8", "64:ff9b::8.8.8.8", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "64:ff9b:1:ffff::1", "100::1",
    "100:0:0:1::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:2::1", "2001:10::1", "2001:20::1",
    "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "2620:4f:8000::1", "3fff::1", "4000::1",
    "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fe80::1%eth0", "fec0::1", "feff::1", "ff02::1",
    "2606:4700::5efe:10.0.0.1", "2606:4700::200:5efe:10.0.0.1",
    # not addresses
    "", "localhost", "1.2.3", "0x7f.0.0.1", "1.2.3.4:80", "[::1]", "127.1",
]  # fmt: skip


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert refusal_of(address) is None


@pytest.mark.parametrize("address", REFUSED)
def test_refused(address: str) -> None:
    assert refusal_of(address)


@given(st.integers(0, 2**32 - 1))
def test_no_ipv4_passes_in_an_ipv6_disguise(value: int) -> None:
    ip = IPv4Address(value)
    packed = int(ip)
    disguises = [
        f"::ffff:{ip}",
        f"::{ip}",
        f"64:ff9b::{ip}",
        str(IPv6Address((0x2002 << 112) | (packed << 80))),
        str(IPv6Address((0x20010000 << 96) | (packed ^ 0xFFFFFFFF))),
    ]
    assert all(refusal_of(disguise) for disguise in disguises)


@given(st.ip_addresses())
def test_nothing_passes_that_the_standard_library_knows_to_be_special(ip: IPv4Address | IPv6Address) -> None:
    if refusal_of(str(ip)) is None:
        assert ip_address(str(ip)).is_global
        assert not ip.is_multicast
