"""The encoding cases of html5lib-tests (`tests/fixtures/html5lib_encoding`, MIT licence beside them, as in html5lib 1.1's
source distribution): 83 pages and the encoding that the HTML standard's sniffing gives each.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from transforms.html.charset import encoding_named, sniff

DATA = Path(__file__).resolve().parents[2] / "fixtures" / "html5lib_encoding"

EXPLAINED = {
    # `charset="ISO-8859-' + '2"`: expects labels to be compared without their punctuation, as UTS #22 did. WHATWG
    # Encoding §4.2 compares them exactly, so this one names no encoding.
    ("tests1.dat", 54),
}


def cases() -> list[tuple[str, int, bytes, str]]:
    found = []
    for file in sorted(DATA.glob("*.dat")):
        for number, case in enumerate(file.read_bytes().split(b"#data\n")[1:]):
            data, _, encoding = case.partition(b"\n#encoding\n")
            found.append((file.name, number, data, encoding.split(b"\n")[0].decode("ascii")))
    return found


CASES = cases()


def test_the_set_is_whole() -> None:
    assert len(CASES) == 83


@pytest.mark.parametrize(("file", "number", "data", "encoding"), CASES, ids=[f"{one[0]}-{one[1]}" for one in CASES])
def test_encoding(file: str, number: int, data: bytes, encoding: str) -> None:
    is_right = sniff(data, None).name == encoding_named(encoding)
    assert is_right is ((file, number) not in EXPLAINED)
