"""Whether the internationalised labels of a host are valid. Here: what ada-url lets pass and the standard does not.

WHATWG URL §3.3 "domain to ASCII" runs UTS #46 ToASCII with CheckBidi, CheckJoiners and IgnoreInvalidPunycode=false, also over
labels that are written as `xn--` already (UTS #46 §4.1 "Validity Criteria"). Not here: mapping and Punycode (ada-url).
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import idna


@lru_cache(50_000)
def valid_labels(host: str) -> bool:
    """Whether every `xn--` label of an ASCII host decodes to what ToASCII accepts. Hosts without one are valid here."""
    decoded: list[str] = []
    for label in host.split("."):
        if not label.startswith("xn--"):
            continue
        try:
            text = label[4:].encode("ascii").decode("punycode")
        except (UnicodeError, OverflowError):
            return False
        if not _is_valid(text) or text.encode("punycode").decode("ascii").lower() != label[4:]:
            return False
        decoded.append(text)
    if any(unicodedata.bidirectional(char) in ("R", "AL", "AN") for text in decoded for char in text):
        return all(_bidi_ok(text) for text in decoded)
    return True


def _is_valid(text: str) -> bool:
    if not text or text.isascii() or text.startswith("xn--") or "." in text:
        return False
    if unicodedata.normalize("NFC", text) != text or unicodedata.category(text[0]).startswith("M"):
        return False
    try:
        if idna.uts46_remap(text, std3_rules=False, transitional=False) != text:
            return False
        return all(idna.core.valid_contextj(text, at) for at, char in enumerate(text) if char in "\u200c\u200d")
    except (idna.IDNAError, ValueError):
        return False


def _bidi_ok(text: str) -> bool:
    """RFC 5893 §2 for one label of a name that has a right-to-left label."""
    try:
        return bool(idna.check_bidi(text, check_ltr=True))
    except idna.IDNAError:
        return False
