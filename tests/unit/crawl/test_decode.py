"""Content-Encoding: every coding, cut anywhere, and every bomb, in bounded pieces."""

from __future__ import annotations

import gzip
import random
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from crawl.http.decode import BodyDecoder, BodyProblem
from transforms.reasons import Reason

TEXT = b"".join(b"<p>line %d of a page</p>\n" % n for n in range(3000))
MIB = 1024 * 1024


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-15)
    return deflater.compress(data) + deflater.flush()


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "Deflate": raw_deflate,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


def decode(data: bytes, *encodings: str, piece: int = 1000, cap: int = 10 * MIB, ratio: float = 1e9) -> BodyDecoder:
    decoder = BodyDecoder(list(encodings), cap, ratio)
    for at in range(0, len(data), piece):
        decoder.feed(data[at : at + piece])
        if decoder.truncated:
            break
    return decoder


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("piece", [1, 7, 1000, 10**9])
def test_every_coding_in_pieces_of_any_size(coding: str, piece: int) -> None:
    decoder = decode(CODINGS[coding](TEXT), coding, piece=piece)
    assert decoder.finish() == TEXT
    assert not decoder.truncated


@given(
    body=st.binary(max_size=5000),
    codings=st.lists(st.sampled_from(sorted(CODINGS)), max_size=3),
    piece=st.integers(1, 6000),
)
@settings(max_examples=60, deadline=None)
def test_stacked_codings_undo_in_reverse(body: bytes, codings: list[str], piece: int) -> None:
    data = body
    for coding in codings:
        data = CODINGS[coding](data)
    assert decode(data, ", ".join(codings), piece=piece).finish() == body


def test_identity_and_mislabels_are_plain_bytes() -> None:
    for label in ("identity", "", "utf-8", "none", "identity, identity"):
        assert decode(TEXT, label).finish() == TEXT


@pytest.mark.parametrize("label", ["compress", "exi", "sdch", "gzip;q=1", "gzip gzip", "aes128gcm"])
def test_an_unknown_coding_is_refused_not_read_as_text(label: str) -> None:
    with pytest.raises(BodyProblem) as problem:
        BodyDecoder([label], MIB, 200)
    assert problem.value.reason is Reason.BAD_ENCODING


def test_four_layers_are_too_many() -> None:
    with pytest.raises(BodyProblem) as problem:
        BodyDecoder(["gzip, gzip", "gzip, gzip"], MIB, 200)
    assert problem.value.reason is Reason.BAD_ENCODING


@pytest.mark.parametrize("coding", CODINGS)
def test_a_stream_that_ends_early_is_incomplete(coding: str) -> None:
    decoder = decode(CODINGS[coding](TEXT)[:-9], coding)
    with pytest.raises(BodyProblem) as problem:
        decoder.finish()
    assert problem.value.reason is Reason.INCOMPLETE_BODY


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate"])
def test_text_under_a_coding_is_bad_encoding(coding: str) -> None:
    with pytest.raises(BodyProblem) as problem:
        decode(b"<html>plain text, not compressed</html>" * 40, coding).finish()
    assert problem.value.reason in (Reason.BAD_ENCODING, Reason.INCOMPLETE_BODY)


def test_gzip_members_are_joined_and_padding_is_ignored() -> None:
    data = gzip.compress(TEXT[:100]) + gzip.compress(TEXT[100:]) + b"\0\0trailing"
    assert decode(data, "gzip", piece=13).finish() == TEXT


def test_zstd_frames_are_joined() -> None:
    compress = zstandard.ZstdCompressor().compress
    assert decode(compress(TEXT[:100]) + compress(TEXT[100:]), "zstd", piece=11).finish() == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_stops_at_the_ratio_in_bounded_memory(coding: str) -> None:
    bomb = CODINGS[coding](b"\0" * (40 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(BodyProblem) as problem:
            decode(bomb, coding, piece=4096, ratio=200.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert problem.value.reason is Reason.EXPANSION_RATIO
    assert peak < 16 * MIB


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
def test_a_bomb_under_the_ratio_stops_at_the_size(coding: str) -> None:
    bomb = CODINGS[coding](b"\0" * (20 * MIB))
    decoder = decode(bomb, coding, piece=65536, cap=MIB)
    assert decoder.truncated
    assert decoder.decoded_bytes == MIB


def test_a_bomb_in_a_bomb() -> None:
    bomb = gzip.compress(gzip.compress(b"\0" * (60 * MIB)))
    assert len(bomb) < 10_000
    with pytest.raises(BodyProblem) as problem:
        decode(bomb, "gzip, gzip", ratio=200.0)
    assert problem.value.reason is Reason.EXPANSION_RATIO


def test_an_honest_page_that_compresses_well_passes() -> None:
    page = b"<tr><td>0</td></tr>" * 50_000
    assert decode(gzip.compress(page), "gzip", ratio=200.0, piece=10**6).finish() == page


def test_the_cap_keeps_exactly_what_fits() -> None:
    decoder = decode(TEXT, cap=1234, piece=100)
    assert decoder.truncated
    assert decoder.finish() == TEXT[:1234]


def test_random_bytes_never_raise_anything_else() -> None:
    rng = random.Random(1)
    for coding in CODINGS:
        for _ in range(200):
            data = bytearray(CODINGS[coding](TEXT[: rng.randrange(2000)]))
            for _ in range(rng.randrange(1, 6)):
                if data:
                    data[rng.randrange(len(data))] = rng.randrange(256)
            with suppress(BodyProblem):
                decode(bytes(data), coding, piece=rng.randrange(1, 500), ratio=200.0).finish()
