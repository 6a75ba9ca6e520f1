"""What is odd about a host name. Here: flags for people and rules. Not here: whether it may be contacted (`crawl`)."""

from __future__ import annotations

import unicodedata

_ALLOWED_TOGETHER = (
    frozenset({"LATIN", "CJK", "HIRAGANA", "KATAKANA"}),
    frozenset({"LATIN", "CJK", "BOPOMOFO"}),
    frozenset({"LATIN", "CJK", "HANGUL"}),
)
"""Scripts that one label may mix: UTS #39 §5.2, "Highly Restrictive"."""

_COMMON_NAMES = frozenset({"DIGIT", "HYPHEN-MINUS", "LOW", "MIDDLE", "ZERO"})


def host_flags(host: str, *, is_suffix: bool) -> tuple[str, ...]:
    """Flags of a DNS host (ASCII): idn, mixed_script, emoji, underscore, single_label, public_suffix_host."""
    flags = []
    if "xn--" in host:
        labels = [_unicode(label) for label in host.split(".") if label.startswith("xn--")]
        flags.append("idn")
        if any(_mixes_scripts(label) for label in labels):
            flags.append("mixed_script")
        if any(unicodedata.category(char) in ("So", "Sk") for label in labels for char in label):
            flags.append("emoji")
    if "_" in host:
        flags.append("underscore")
    if "." not in host:
        flags.append("single_label")
    elif is_suffix:
        flags.append("public_suffix_host")
    return tuple(flags)


def _unicode(label: str) -> str:
    try:
        return label[4:].encode("ascii").decode("punycode")
    except UnicodeError:
        return label


def _mixes_scripts(label: str) -> bool:
    """Whether a label mixes scripts beyond UTS #39's "Highly Restrictive" level (by the first word of their names)."""
    scripts = {_script(char) for char in label} - {None}
    return len(scripts) > 1 and not any(scripts <= together for together in _ALLOWED_TOGETHER)


def _script(char: str) -> str | None:
    if char.isascii():
        return "LATIN" if char.isalpha() else None
    if not unicodedata.category(char).startswith("L"):
        return None  # digits, marks, symbols: common or inherited
    name = unicodedata.name(char, "")
    if char in "々〆〇" or name.startswith(("CJK", "IDEOGRAPHIC")):
        return "CJK"
    if char == "ー":
        return None  # the prolonged sound mark belongs to both kana
    first = name.split(" ", 1)[0]
    return None if first in _COMMON_NAMES or not first else first.removesuffix("-HIRAGANA")
