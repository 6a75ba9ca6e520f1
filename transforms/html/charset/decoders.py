"""Decoders and query encoders exactly as WHATWG Encoding defines them. Here: bytes → text, text → bytes.

Python's codecs are close but not equal: they differ in undefined bytes, in a few mappings and in how much a bad sequence
swallows. A strict run of the Python codec plus the known differences is the quick way; only ill-formed text goes through
the slow, literal state machine. Not here: which encoding it is (`sniff`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from functools import lru_cache

from transforms.html.charset.big5_additions import BIG5_ADDITIONS

REPLACEMENT = "\ufffd"

_PYTHON_SINGLE = {
    "IBM866": "cp866",
    "macintosh": "mac_roman",
    "x-mac-cyrillic": "mac_cyrillic",
    "windows-874": "cp874",
    "KOI8-R": "koi8_r",
    "KOI8-U": "koi8_u",
    "ISO-8859-8-I": "iso8859-8",
}
_SINGLE_OVERRIDES = {
    "KOI8-U": {0xAE: "\u045e", 0xBE: "\u040e"},
    "windows-1255": {0xCA: "\u05ba"},
}
_SINGLE_BYTE = re.compile(r"IBM866|ISO-8859-.*|KOI8-.|macintosh|windows-.*|x-mac-cyrillic|x-user-defined")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ASCII_RUN = re.compile(rb"[\x00-\x7f]+")


@lru_cache
def single_byte_table(name: str) -> str:
    """256 characters: what each byte of a single-byte encoding means (Encoding §9 and §14.5)."""
    if name == "x-user-defined":
        return "".join(chr(byte if byte < 0x80 else 0xF700 + byte) for byte in range(256))
    codec = _PYTHON_SINGLE.get(name) or name.lower().replace("windows-", "cp").replace("iso-8859-", "iso8859-")
    chars = [bytes([byte]).decode(codec, "replace") for byte in range(256)]
    if name.startswith("windows-"):  # their undefined bytes below 0xA0 are the C1 controls
        chars[0x80:0xA0] = [chr(0x80 + at) if char == REPLACEMENT else char for at, char in enumerate(chars[0x80:0xA0])]
    for byte, char in _SINGLE_OVERRIDES.get(name, {}).items():
        chars[byte] = char
    return "".join(chars)


def decode(body: bytes, name: str) -> str:
    """Text of a body in a named encoding (`labels`), every ill-formed sequence replaced as the standard says.

    A byte order mark is *not* removed here (`sniff.strip_bom` does that). Never raises for a known name.
    """
    if name == "UTF-8":
        return body.decode("utf-8", "replace")
    if name in ("UTF-16LE", "UTF-16BE"):
        return _utf16(body, name)
    if name == "replacement":
        return REPLACEMENT if body else ""
    if name == "ISO-2022-JP":
        return _iso_2022_jp(body)
    if _SINGLE_BYTE.fullmatch(name):
        return codecs.charmap_decode(body, "strict", single_byte_table(name))[0]  # type: ignore[arg-type]
    codec, changes, suspects = _QUICK[name]
    if name == "EUC-JP":
        body = body.replace(
            b"\x8f\xa2\xb7", b"\xa1\xc1"
        )  # JIS X 0212's tilde: the same character; 0x8F is never a trail
        suspects = None
    try:
        text = body.decode(codec)
    except UnicodeDecodeError:
        return _multi_byte(body, name)
    if suspects is not None and suspects.search(text):
        return _multi_byte(body, name)
    return text.translate(changes) if changes and not text.isascii() else text


def _utf16(body: bytes, name: str) -> str:
    order = "little" if name == "UTF-16LE" else "big"
    text = body[: len(body) // 2 * 2].decode(f"utf-16-{order[0]}e", "surrogatepass")
    # One error at the end, though both half a character and half a pair are left over (§14.2.1, end-of-queue).
    tail = REPLACEMENT if len(body) % 2 and not "\ud800" <= text[-1:] <= "\udbff" else ""
    return _SURROGATE.sub(REPLACEMENT, text) + tail


_QUICK: dict[str, tuple[str, dict[int, str], re.Pattern[str] | None]] = {
    # name: (Python codec, characters that it maps otherwise, characters that need the slow way)
    "GBK": ("gbk", {}, None),
    "gb18030": ("gb18030", {}, re.compile("[\ue5e5\ue78d-\ue796\ue7c7\u1e3f\ue81e-\ue864]")),
    "Big5": ("big5hkscs", {}, re.compile("[\u2022\uff64\u203e\u223c\u2641\u2609\uff0f\uff3c\xa5\xa2\xa3]")),
    "EUC-KR": ("cp949", {}, None),
    "Shift_JIS": ("cp932", {}, re.compile("[\uf8f0-\uf8f3]")),
    "EUC-JP": (
        "euc_jp",
        {0x301C: "\uff5e", 0x2016: "\u2225", 0x2212: "\uff0d", 0xA2: "\uffe0", 0xA3: "\uffe1", 0xAC: "\uffe2"},
        None,
    ),
}

_GB_CHANGES = {
    b"\xa3\xa0": "\u3000", b"\xa8\xbc": "\u1e3f", b"\xfe\x59": "\u9fb4", b"\xfe\x61": "\u9fb5", b"\xfe\x66": "\u9fb6",
    b"\xfe\x67": "\u9fb7", b"\xfe\x6d": "\u9fb8", b"\xfe\x7e": "\u9fb9", b"\xfe\x90": "\u9fba", b"\xfe\xa0": "\u9fbb",
    b"\xa6\xd9": "\ufe10", b"\xa6\xda": "\ufe12", b"\xa6\xdb": "\ufe11", b"\xa6\xdc": "\ufe13", b"\xa6\xdd": "\ufe14",
    b"\xa6\xde": "\ufe15", b"\xa6\xdf": "\ufe16", b"\xa6\xec": "\ufe17", b"\xa6\xed": "\ufe18", b"\xa6\xf3": "\ufe19",
    b"\x81\x35\xf4\x37": "\ue7c7",
}  # fmt: skip
_BIG5_CHANGES = {
    b"\xa1\x45": "\u2027", b"\xa1\x4e": "\ufe51", b"\xa1\xc2": "\xaf", b"\xa1\xe3": "\uff5e", b"\xa1\xf2": "\u2295",
    b"\xa1\xf3": "\u2299", b"\xa2\x41": "\u2215", b"\xa2\x42": "\ufe68", b"\xa2\x44": "\uffe5", b"\xa2\x46": "\uffe0",
    b"\xa2\x47": "\uffe1",
}  # fmt: skip


def _char(sequence: bytes, codec: str) -> str | None:
    try:
        return sequence.decode(codec)
    except UnicodeDecodeError:
        return None


def _jis0208(row: int, cell: int) -> str | None:
    """WHATWG index-jis0208 at a row and cell (both 1 to 94): what Windows' Shift_JIS holds there."""
    lead = (row - 1) // 2 + 0x81
    trail = cell + (0x3F if row % 2 else 0x9E)
    if row % 2 and trail >= 0x7F:
        trail += 1
    return _char(bytes([lead + (0x40 if lead > 0x9F else 0), trail]), "cp932")


@lru_cache
def index(name: str) -> dict[bytes, str]:
    """Every two-byte sequence of a multi-byte encoding (and EUC-JP's three-byte ones), by the standard's indexes (§5)."""
    if name == "EUC-JP":
        found = {bytes([0xA0 + row, 0xA0 + cell]): _jis0208(row, cell) for row in range(1, 95) for cell in range(1, 95)}
        found |= {bytes([0x8E, byte]): chr(0xFF61 + byte - 0xA1) for byte in range(0xA1, 0xE0)}
        for lead in range(0xA1, 0xFF):
            for trail in range(0xA1, 0xFF):
                found[bytes([0x8F, lead, trail])] = _char(bytes([0x8F, lead, trail]), "euc_jp")
        found[b"\x8f\xa2\xb7"] = "\uff5e"
        return {sequence: char for sequence, char in found.items() if char is not None}
    codec, leads, trails = {
        "gb18030": ("gb18030", range(0x81, 0xFF), range(0x40, 0xFF)),
        "Big5": ("big5hkscs", range(0x81, 0xFF), range(0x40, 0xFF)),
        "EUC-KR": ("cp949", range(0x81, 0xFF), range(0x41, 0xFF)),
        "Shift_JIS": ("cp932", (*range(0x81, 0xA0), *range(0xE0, 0xFD)), range(0x40, 0xFD)),
    }[name]
    pairs = {bytes([lead, trail]): _char(bytes([lead, trail]), codec) for lead in leads for trail in trails}
    result = {pair: char for pair, char in pairs.items() if char is not None}
    if name == "gb18030":
        result |= {sequence: char for sequence, char in _GB_CHANGES.items() if len(sequence) == 2}
    if name == "Big5":
        result |= _BIG5_CHANGES
        for first, run in BIG5_ADDITIONS.items():
            for pointer, char in enumerate(run, first):
                trail = pointer % 157
                result[bytes([pointer // 157 + 0x81, trail + (0x40 if trail < 0x3F else 0x62)])] = char
    return result


def _multi_byte(body: bytes, name: str) -> str:
    """The standard's state machine (§10 to §13), with ASCII runs copied whole."""
    if name == "GBK":
        name = "gb18030"
    if name == "EUC-JP":
        return _euc_jp(body)
    known = index(name)
    chunks: list[str] = []
    at, end = 0, len(body)
    while at < end:
        byte = body[at]
        if byte < 0x80:
            run = _ASCII_RUN.match(body, at)
            assert run is not None
            chunks.append(run.group().decode("ascii"))
            at = run.end()
            continue
        if name == "Shift_JIS" and (byte == 0x80 or 0xA0 <= byte <= 0xDF or byte > 0xFC):
            chunks.append(
                "\x80" if byte == 0x80 else chr(0xFF61 + byte - 0xA1) if 0xA1 <= byte <= 0xDF else REPLACEMENT
            )
            at += 1
            continue
        if byte in (0x80, 0xFF):
            chunks.append("\u20ac" if name == "gb18030" and byte == 0x80 else REPLACEMENT)
            at += 1
            continue
        if name == "gb18030" and at + 1 < end and 0x30 <= body[at + 1] <= 0x39:
            at = _gb_four(body, at, chunks)
            continue
        pair = body[at : at + 2]
        char = known.get(pair)
        chunks.append(REPLACEMENT if char is None else char)
        # An ASCII byte in the trail's place of an unknown pair is given back to the stream.
        at += 1 if char is None and len(pair) == 2 and pair[1] < 0x80 else 2
    return "".join(chunks)


def _gb_four(body: bytes, at: int, chunks: list[str]) -> int:
    """gb18030's four bytes at `at` (the first two fit); returns where to go on (§10.2.1)."""
    four = body[at : at + 4]
    if len(four) >= 3 and not 0x81 <= four[2] <= 0xFE:
        chunks.append(REPLACEMENT)
        return at + 1
    if len(four) < 4:
        chunks.append(REPLACEMENT)
        return at + len(four)
    if not 0x30 <= four[3] <= 0x39:
        chunks.append(REPLACEMENT)
        return at + 1
    chunks.append(_GB_CHANGES.get(four) or _char(four, "gb18030") or REPLACEMENT)
    return at + 4


def _euc_jp(body: bytes) -> str:
    known = index("EUC-JP")
    chunks: list[str] = []
    at, end = 0, len(body)
    while at < end:
        byte = body[at]
        if byte < 0x80:
            run = _ASCII_RUN.match(body, at)
            assert run is not None
            chunks.append(run.group().decode("ascii"))
            at = run.end()
            continue
        if byte not in (0x8E, 0x8F) and not 0xA1 <= byte <= 0xFE:
            chunks.append(REPLACEMENT)
            at += 1
            continue
        length = 3 if byte == 0x8F and at + 1 < end and 0xA1 <= body[at + 1] <= 0xFE else 2
        sequence = body[at : at + length]
        char = known.get(sequence)
        chunks.append(REPLACEMENT if char is None else char)
        at += length - 1 if char is None and len(sequence) == length and sequence[-1] < 0x80 else length
    return "".join(chunks)


def _iso_2022_jp(body: bytes) -> str:
    """§13.2.1. States: ASCII, Roman, katakana, lead byte; two escapes in a row without output are an error."""
    chunks: list[str] = []
    state, output = "ascii", False
    escapes = {b"(B": "ascii", b"(J": "roman", b"(I": "katakana", b"$@": "lead", b"$B": "lead"}
    at, end = 0, len(body)
    while at < end:
        byte = body[at]
        if byte == 0x1B:
            target = escapes.get(body[at + 1 : at + 3])
            if target is None:
                chunks.append(REPLACEMENT)
                output = False
                at += 1
                continue
            if output is False and at > 0 and chunks and chunks[-1] == "":
                chunks.append(REPLACEMENT)
            chunks.append("")  # marks an escape without output since
            state, output = target, False
            at += 3
            continue
        output = True
        at += 1
        if state == "lead":
            if not 0x21 <= byte <= 0x7E or at >= end or body[at] == 0x1B:
                chunks.append(REPLACEMENT)
            elif 0x21 <= body[at] <= 0x7E:
                chunks.append(_jis0208(byte - 0x20, body[at] - 0x20) or REPLACEMENT)
                at += 1
            else:
                chunks.append(REPLACEMENT)
                at += 1
        elif state == "katakana":
            chunks.append(chr(0xFF61 - 0x21 + byte) if 0x21 <= byte <= 0x5F else REPLACEMENT)
        elif byte > 0x7F or byte in (0x0E, 0x0F):
            chunks.append(REPLACEMENT)
        elif state == "roman" and byte in (0x5C, 0x7E):
            chunks.append("\u00a5" if byte == 0x5C else "\u203e")
        else:
            chunks.append(chr(byte))
    return "".join(chunks)


# -- encoding, for the query of a URL only ----------------------------------------------------------------------------

_BIG5_LAST = frozenset("\u2550\u255e\u2561\u256a\u5341\u5345")


@lru_cache
def _encoder_table(name: str) -> dict[str, bytes]:
    if _SINGLE_BYTE.fullmatch(name):
        table: dict[str, bytes] = {}
        for byte, char in enumerate(single_byte_table(name)):
            if byte >= 0x80 and char != REPLACEMENT:
                table.setdefault(char, bytes([byte]))
        return table
    table = {}
    for sequence, char in index("gb18030" if name == "GBK" else name).items():
        if name == "Big5" and sequence[0] < 0xA1:
            continue  # §12.1.2: the HKSCS rows are decoded only
        if name == "Shift_JIS" and 0xED <= sequence[0] <= 0xEE:
            continue  # index Shift_JIS pointer: without 8272 to 8835
        if name == "EUC-JP" and (len(sequence) == 3 or sequence[0] == 0x8E):
            continue  # JIS X 0212 is decoded only
        if name == "Big5" and char in _BIG5_LAST:
            table[char] = sequence
        else:
            table.setdefault(char, sequence)
    if name in ("GBK", "gb18030"):
        table.pop("\ue5e5", None)
        table["\u3000"] = b"\xa1\xa1"
    if name == "GBK":
        table["\u20ac"] = b"\x80"
    if name == "Shift_JIS":
        table |= {chr(0xFF61 + byte - 0xA1): bytes([byte]) for byte in range(0xA1, 0xE0)} | {"\x80": b"\x80"}
    if name in ("Shift_JIS", "EUC-JP"):
        table |= {"\xa5": b"\\", "\u203e": b"~", "\u2212": table["\uff0d"]}
    if name == "EUC-JP":
        table |= {chr(0xFF61 + byte - 0xA1): bytes([0x8E, byte]) for byte in range(0xA1, 0xE0)}
    return table


_NON_ASCII = re.compile("[^\x00-\x7f]+")
_QUERY_PERCENT = frozenset(b" \"#<>'") | frozenset(range(0x21)) | frozenset(range(0x7F, 0x100))
_KATAKANA = str.maketrans(
    "".join(map(chr, range(0xFF61, 0xFFA0))),
    "。「」、・ヲァィゥェォャュョッーアイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワン゛゜",
)


def query_encoder(name: str) -> Callable[[str], str] | None:
    """How non-ASCII text in a URL's query is spelled on a page of that encoding (URL §1.3 "percent-encode after encoding").

    A function from the raw query to one whose non-ASCII characters are percent-encoded in that encoding; a character that
    it lacks becomes `%26%23<code point>%3B`. None where the encoding's output encoding is UTF-8 (Encoding §4.3).
    """
    if name in ("UTF-8", "UTF-16LE", "UTF-16BE", "replacement"):
        return None
    if name == "ISO-2022-JP":
        return lambda query: _NON_ASCII.sub(_iso_2022_jp_run, query)
    table = _encoder_table(name)

    def run(match: re.Match[str]) -> str:
        parts = []
        for char in match.group():
            known = table.get(char)
            if known is None and name == "gb18030" and char != "\ue5e5":
                known = b"\x81\x35\xf4\x37" if char == "\ue7c7" else char.encode("gb18030")
            parts.append(f"%26%23{ord(char)}%3B" if known is None else _percent(known))
        return "".join(parts)

    return lambda query: _NON_ASCII.sub(run, query)


def _percent(sequence: bytes) -> str:
    return "".join(f"%{byte:02X}" if byte in _QUERY_PERCENT else chr(byte) for byte in sequence)


def _iso_2022_jp_run(match: re.Match[str]) -> str:
    """§13.2.2 for one run of non-ASCII characters between ASCII ones."""
    table = _encoder_table("EUC-JP")
    parts: list[str] = []
    state = "ascii"

    def switch(to: str, escape: bytes) -> None:
        nonlocal state
        if state != to:
            parts.append(_percent(escape))
            state = to

    for char in match.group().translate(_KATAKANA):
        known = table.get(char)
        if char in "\xa5\u203e":
            switch("roman", b"\x1b(J")
            parts.append("\\" if char == "\xa5" else "~")
        elif known is None or len(known) != 2:
            switch("ascii", b"\x1b(B")
            parts.append(f"%26%23{ord(char)}%3B")
        else:
            switch("lead", b"\x1b$B")
            parts.append(_percent(bytes(byte & 0x7F for byte in known)))
    switch("ascii", b"\x1b(B")
    return "".join(parts)
