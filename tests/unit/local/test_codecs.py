"""Content encodings: whatever is encoded and however it is cut, the same bytes come back in bounded pieces."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warehouse.local.front.codecs import PREFERRED, BadEncoding, Decoder, encoder


def _encoded(name: str, pieces: list[bytes]) -> bytes:
    codec = encoder(name)
    return b"".join([codec.add(piece) for piece in pieces] + [codec.finish()])


@given(st.sampled_from(PREFERRED), st.lists(st.binary(max_size=2000), max_size=5), st.integers(1, 700))
def test_round_trip_in_any_pieces(name: str, pieces: list[bytes], step: int) -> None:
    body = _encoded(name, pieces)
    decoder = Decoder(name)
    out = b"".join(part for i in range(0, len(body), step) for part in decoder.add(body[i : i + step]))
    decoder.finish()
    assert out == b"".join(pieces)


@pytest.mark.parametrize("name", PREFERRED)
def test_a_highly_compressed_body_comes_out_in_bounded_pieces(name: str) -> None:
    body = _encoded(name, [bytes(64 << 20)])
    decoder = Decoder(name)
    sizes = [len(piece) for start in range(0, len(body), 65536) for piece in decoder.add(body[start : start + 65536])]
    assert sum(sizes) == 64 << 20
    if name in ("gzip", "deflate", "lz4"):
        assert max(sizes) <= 1 << 20  # zstd and brotli bind their output only to their window


@pytest.mark.parametrize("name", ["gzip", "lz4", "zstd"])
def test_several_members_are_one_body(name: str) -> None:
    body = _encoded(name, [b"first "]) + _encoded(name, [b"second"])
    decoder = Decoder(name)
    assert b"".join(decoder.add(body)) == b"first second"
    decoder.finish()


@pytest.mark.parametrize("name", PREFERRED)
def test_rubbish_and_a_cut_body_are_refused(name: str) -> None:
    with pytest.raises(BadEncoding):
        list(Decoder(name).add(b"this is not compressed at all, in no encoding" * 3))
    whole = _encoded(name, [gzip.compress(bytes(range(256)) * 40)])
    decoder = Decoder(name)
    list(decoder.add(whole[: len(whole) // 2]))
    with pytest.raises(BadEncoding, match="middle"):
        decoder.finish()
