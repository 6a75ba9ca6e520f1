"""Which encoding a page is in. Here: BOM → HTTP header → meta → fallback, with the method that decided.

Sources: WHATWG HTML §13.2.3.2 "Determining the character encoding", MIME Sniffing §4.4 "Parsing a MIME type".
No statistical guess: it would make the same bytes mean different links to different versions. Not here: decoding.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from transforms.html.charset.labels import encoding_named

FALLBACK = "windows-1252"
PRESCAN_BYTES = 1024

_BOMS = ((b"\xef\xbb\xbf", "UTF-8"), (b"\xfe\xff", "UTF-16BE"), (b"\xff\xfe", "UTF-16LE"))
_HTTP_SPACE = "\t\n\r "
_HEADER_VALUE = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+', re.DOTALL)
_HEADER_PARAMETER = re.compile(r';[ \t\r\n]*([^;="]*)(?:=(?:"((?:[^"\\]|\\.)*)"?[^;]*|([^;]*)))?', re.DOTALL)


class Charset(NamedTuple):
    name: str
    """WHATWG name, as `document.characterSet` spells it."""
    method: str
    """bom | header | meta | fallback"""


def sniff(body: bytes, content_type: str | None) -> Charset:
    """The encoding of a page. `content_type`: the Content-Type header as received."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return Charset(name, "bom")
    label = header_charset(content_type)
    if label is not None:
        named = encoding_named(label)
        if named is not None:
            return Charset(named, "header")
    named = prescan(body)
    if named is not None:
        return Charset(named, "meta")
    return Charset(FALLBACK, "fallback")


def sniff_xml(body: bytes, content_type: str | None) -> Charset:
    """The encoding of a page served as XML (XML §4.3.3, RFC 7303 §3): no meta element has a say, and the fallback is UTF-8."""
    found = sniff(body, content_type)
    if found.method in ("bom", "header"):
        return found
    named = _declared(body)
    return Charset("UTF-8", "fallback") if named is None else Charset(named, "meta")


def essence(content_type: str | None) -> str:
    """Type and subtype of a Content-Type value, lower case: of the last valid one (Fetch §2.2.2); empty without one."""
    kinds = [value.partition(";")[0].strip(_HTTP_SPACE).lower() for value in _HEADER_VALUE.findall(content_type or "")]
    return next((kind for kind in reversed(kinds) if "/" in kind and kind != "*/*"), "")


def strip_bom(body: bytes, name: str) -> bytes:
    """The body without the byte order mark of its encoding, if it starts with one ("decode", Encoding §6)."""
    for mark, of in _BOMS:
        if of == name and body.startswith(mark):
            return body[len(mark) :]
    return body


def header_charset(content_type: str | None) -> str | None:
    """The charset of a Content-Type value; None without one.

    Several values (a repeated header arrives joined by commas) are read as Fetch §2.2.2 "extract a MIME type" does: the last
    valid one wins, and its missing charset is taken from an earlier one of the same type.
    """
    if not content_type or "charset" not in content_type.lower():
        return None
    essence = charset = None
    for value in _HEADER_VALUE.findall(content_type):
        kind, _, parameters = value.partition(";")
        kind = kind.strip(_HTTP_SPACE).lower()
        if "/" not in kind or kind == "*/*":
            continue
        own = _charset_parameter(";" + parameters)
        if kind != essence or own is not None:
            essence, charset = kind, own
    return charset


def _charset_parameter(parameters: str) -> str | None:
    for match in _HEADER_PARAMETER.finditer(parameters):
        name, quoted, plain = match.groups()
        if name.lower() != "charset":
            continue
        value = re.sub(r"\\(.)", r"\1", quoted) if quoted is not None else (plain or "").rstrip(_HTTP_SPACE)
        if value or quoted is not None:
            return value
    return None


# -- the prescan ------------------------------------------------------------------------------------------------------------------

_TAG_NAME = re.compile(rb"[^\t\n\f\r />]+")
_ATTRIBUTE = re.compile(
    rb"""[\t\n\f\r /]*(?:(?P<end>>)|(?P<name>[^\t\n\f\r />][^\t\n\f\r /=>]*)"""
    rb"""(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<plain>[^\t\n\f\r >"'][^\t\n\f\r >]*|(?=>))))?)"""
)
_XML_DECLARATION = re.compile(rb"""<\?xml[^>]*?encoding[\x00-\x20]*=[\x00-\x20]*(["'])([^"'>\x00-\x20]+)\1[^>]*>""")
_COMMENT_END = re.compile(rb"--!?>")
_CONTENT_CHARSET = re.compile(
    r"charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:(?P<mark>[\"'])|(?P<plain>[^\t\n\f\r ;]+))", re.IGNORECASE
)
_RAW_TEXT = frozenset(
    {b"script", b"style", b"title", b"textarea", b"xmp", b"iframe", b"noembed", b"noframes", b"plaintext"}
)
_HEAD_TAGS = frozenset({b"script", b"noscript", b"style", b"link", b"meta", b"object", b"title", b"base"})


def prescan(body: bytes) -> str | None:
    """The encoding that a meta element declares (HTML §13.2.3.2 "prescan a byte stream"); None when there is none.

    First as Chromium looks for it: comments, scripts, styles and titles are skipped, and beyond the first 1,024 bytes the
    search goes on for as long as only elements of the head were met (other browsers reparse instead, with the same
    result). If that finds none, as the standard is written: it knows no raw text, so a declaration inside a script counts.
    An XML declaration counts, too. UTF-16 in a meta means UTF-8, x-user-defined windows-1252.
    """
    return _prescan(body, knows_raw_text=True) or _prescan(body[:PRESCAN_BYTES], knows_raw_text=False)


def _prescan(body: bytes, *, knows_raw_text: bool) -> str | None:
    at, in_head = 0, knows_raw_text
    declared = _declared(body)
    if declared is not None:
        return declared
    while in_head or at < PRESCAN_BYTES:
        start = body.find(b"<", at)
        if start < 0 or (not in_head and start >= PRESCAN_BYTES):
            return None  # a run of text that crosses the mark ends the search, too
        after = body[start + 1 : start + 4]
        if after == b"!--":
            at = _after_comment(body, start + 4)
        elif after[:1].isalpha() or (after[:1] == b"/" and after[1:2].isalpha()):
            closing = after[:1] == b"/"
            name_match = _TAG_NAME.match(body, start + 1 + closing)
            assert name_match is not None
            name = name_match.group().lower()
            attributes, at = _attributes(body, name_match.end())
            if at < 0:
                return None
            if not closing and name == b"meta":
                named = _meta_encoding(attributes)
                if named is not None:
                    return named
            if not closing and knows_raw_text and name in _RAW_TEXT:
                at = _raw_text_end(body, name, at)
            if name not in _HEAD_TAGS and (closing or name not in (b"html", b"head")):
                in_head = False
        elif after[:1] in (b"!", b"?", b"/"):
            at = body.find(b">", start + 1) + 1 or -1
        else:
            at = start + 1
        if at < 0:
            return None
    return None


def _declared(body: bytes) -> str | None:
    """The encoding that an XML declaration names."""
    match = _XML_DECLARATION.match(body, 0, PRESCAN_BYTES)
    named = None if match is None else encoding_named(match.group(2).decode("latin-1"))
    return "UTF-8" if named in ("UTF-16LE", "UTF-16BE") else named


def _after_comment(body: bytes, at: int) -> int:
    if body.startswith(b">", at):
        return at + 1
    if body.startswith(b"->", at):
        return at + 2
    end = _COMMENT_END.search(body, at)
    return -1 if end is None else end.end()


def _raw_text_end(body: bytes, name: bytes, at: int) -> int:
    """Where the end tag of a raw text element starts; -1 when it never ends."""
    if name == b"plaintext":
        return -1
    end = re.compile(rb"</" + name + rb"[\t\n\f\r />]", re.IGNORECASE).search(body, at)
    return -1 if end is None else end.start()


def _attributes(body: bytes, at: int) -> tuple[dict[bytes, bytes], int]:
    """Attributes of a tag from `at`, first of each name, and the position after `>`; position -1 when the tag never ends."""
    found: dict[bytes, bytes] = {}
    while True:
        match = _ATTRIBUTE.match(body, at)
        if match is None:
            return found, -1
        if match.group("end"):
            return found, match.end()
        at = match.end()
        value = next((text for text in match.group("double", "single", "plain") if text is not None), b"")
        if match.group("double") is None and match.group("single") is None and match.group("plain") is None:
            rest = body[at : at + 64].lstrip(b"\t\n\f\r ")
            if rest[:1] == b"=":  # an unterminated quoted value
                return found, -1
        found.setdefault(match.group("name").lower(), value)


def _meta_encoding(attributes: dict[bytes, bytes]) -> str | None:
    label: str | None = None
    if b"charset" in attributes:
        label = attributes[b"charset"].decode("latin-1")
    elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
        label = content_charset(attributes.get(b"content", b"").decode("latin-1"))
    named = None if label is None else encoding_named(label)
    if named in ("UTF-16LE", "UTF-16BE"):
        return "UTF-8"
    return FALLBACK if named == "x-user-defined" else named


def content_charset(content: str) -> str | None:
    """HTML §2.5.6 "Extracting character encodings from meta elements": the label in a `content` attribute."""
    match = _CONTENT_CHARSET.search(content)
    if match is None:
        return None
    if match.group("plain"):
        return match.group("plain")
    end = content.find(match.group("mark"), match.end())
    return None if end < 0 else content[match.end() : end]
