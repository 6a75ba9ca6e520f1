"""Which encoding, and what its bytes mean. Cases from HTML §13.2.3.2, Encoding §4.2 and §10 to §14; each was confirmed by Chromium
except those that say otherwise."""

from __future__ import annotations

import pytest

from transforms.html.charset import decode, encoding_named, query_encoder, sniff
from transforms.html.charset.labels import NAME_OF

_LONG = b"x" * 1100

SNIFF = [
    # (body, Content-Type, name, method)
    (b"", None, "windows-1252", "fallback"),
    (b"\xc3\xa9", "text/html", "windows-1252", "fallback"),  # valid UTF-8 is no declaration
    (b"\xef\xbb\xbf<meta charset=koi8-r>", "text/html; charset=koi8-r", "UTF-8", "bom"),
    (b"\xfe\xff\0a", "text/html; charset=utf-8", "UTF-16BE", "bom"),
    (b"\xff\xfea\0", None, "UTF-16LE", "bom"),
    (b"<meta charset=koi8-r>", "text/html; charset=UTF8", "UTF-8", "header"),
    (b"<meta charset=koi8-r>", "text/html; charset=nonsense", "KOI8-R", "meta"),
    (b"<meta charset=koi8-r>", 'text/html; charset="ibm866"', "IBM866", "header"),
    (b"<meta charset=koi8-r>", "text/html; charset='ibm866'", "KOI8-R", "meta"),  # single quotes are part of the value
    (b"<meta charset=koi8-r>", "text/html; charset =ibm866", "KOI8-R", "meta"),
    (b"<meta charset=koi8-r>", "text/html;charset=;charset=ibm866", "IBM866", "header"),
    (b"<meta charset=koi8-r>", 'text/html; x="charset=utf-8;charset=ibm866"', "KOI8-R", "meta"),
    (b"x", "text/html;charset=koi8-r,text/html;charset=koi8-u", "KOI8-U", "header"),  # Fetch: the last one wins
    (b"x", "text/html; charset=us-ascii", "windows-1252", "header"),
    (b"x", "text/html; charset=utf-16", "UTF-16LE", "header"),
    (b"<meta charset=utf-16be>", None, "UTF-8", "meta"),  # "change the encoding", step 1
    (b"<meta charset=x-user-defined>", None, "windows-1252", "meta"),
    (b"<meta charset=iso-8859-9>", None, "windows-1254", "meta"),
    (b"<meta\ncharset='koi8-r'>", None, "KOI8-R", "meta"),
    (b"<meta/charset=koi8-r/>", None, "windows-1252", "fallback"),  # the slash belongs to an unquoted value
    (b"<metacharset=koi8-r>", None, "windows-1252", "fallback"),
    (b'<meta http-equiv="Content-Type" content="text/html; charset=koi8-r">', None, "KOI8-R", "meta"),
    (b'<meta content="text/html; charset = koi8-r " http-equiv="content-type">', None, "KOI8-R", "meta"),
    (b'<meta content="text/html; charset=koi8-r">', None, "windows-1252", "fallback"),  # no pragma
    (b'<meta http-equiv="Content-Type " content="charset=koi8-r">', None, "windows-1252", "fallback"),
    (b"<meta http-equiv=content-type content='charset=\"koi8-r'>", None, "windows-1252", "fallback"),  # unmatched quote
    (b"<meta http-equiv=content-type content='charset charset=koi8-r;a'>", None, "KOI8-R", "meta"),
    (b"<meta charset=nonsense><meta charset=koi8-r>", None, "KOI8-R", "meta"),
    (b'<meta charset="koi8-r', None, "windows-1252", "fallback"),
    (b'<meta charset="koi8-r>\n<p>"</p>', None, "windows-1252", "fallback"),
    (b'<meta " charset=koi8-r>', None, "KOI8-R", "meta"),
    (b'<meta test=" charset=koi8-r><p>"</p>', None, "windows-1252", "fallback"),
    (b"<!--<meta charset=koi8-r>--><meta charset=koi8-u>", None, "KOI8-U", "meta"),
    (b"<!--><meta charset=koi8-r>-->", None, "KOI8-R", "meta"),
    # The standard's prescan knows no raw text; browsers do: what stands outside goes first.
    (b'<script>"<meta charset=koi8-r>"</script>', None, "KOI8-R", "meta"),
    (b'<script>"<meta charset=koi8-r>"</script><meta charset=koi8-u>', None, "KOI8-U", "meta"),
    (b"<title><meta charset=koi8-r></title>", None, "KOI8-R", "meta"),
    (b"<title>" + _LONG + b"<meta charset=koi8-r></title>", None, "windows-1252", "fallback"),
    (b"<p><meta charset=koi8-r>", None, "KOI8-R", "meta"),
    (b"<p>" + _LONG + b"<meta charset=koi8-r>", None, "windows-1252", "fallback"),
    (b"<title>" + _LONG + b"</title><meta charset=koi8-r>", None, "KOI8-R", "meta"),  # still in the head
    (b"<!--" + _LONG + b"--><meta charset=koi8-r>", None, "KOI8-R", "meta"),
    (b"<?xml version='1.0' encoding='koi8-r'?><html>", None, "KOI8-R", "meta"),
]


@pytest.mark.parametrize(("body", "content_type", "name", "method"), SNIFF)
def test_which_encoding_and_how_it_was_known(body: bytes, content_type: str | None, name: str, method: str) -> None:
    assert sniff(body, content_type) == (name, method)


def test_every_label_of_the_standard() -> None:
    assert len(NAME_OF) == 228  # Encoding §4.2: labels of the table
    assert len(set(NAME_OF.values())) == 40
    assert encoding_named(" Latin1\n") == "windows-1252"
    assert encoding_named("utf-7") is None
    assert encoding_named("euc_jp") is None


DECODE = [
    ("windows-1252", b"\x80\x81\x8d\x9f\xe9", "€\x81\x8dŸé"),  # undefined bytes are C1 controls
    ("windows-1253", b"\xaa\xd2\xff", "\ufffd\ufffd\ufffd"),
    ("windows-1255", b"\xca", "\u05ba"),
    ("KOI8-U", b"\xae\xbe", "ўЎ"),
    ("macintosh", b"\xdb\xf0", "€\uf8ff"),
    ("x-mac-cyrillic", b"\xa2\xff", "Ґ€"),
    ("ISO-8859-8-I", b"\xe0", "א"),
    ("x-user-defined", b"A\x80\xff", "A\uf780\uf7ff"),
    ("replacement", b"anything", "\ufffd"),
    ("replacement", b"", ""),
    (
        "UTF-8",
        b"a\xffb\xe2\x82c\xf0\x9f\x98d\xed\xa0\x80\xc0\xaf",
        "a\ufffdb\ufffdc\ufffdd\ufffd\ufffd\ufffd\ufffd\ufffd",
    ),
    ("UTF-16LE", b"a\0\x00\xd8b\0\xff", "a\ufffdb\ufffd"),
    ("UTF-16BE", b"\0a\xd8\0\xd8", "a\ufffd"),  # half a character and half a pair: one error
    ("GBK", b"\x80\xd6\xd0\xa6\xd9", "€中\ufe10"),
    ("gb18030", b"\x81\x30\x81\x30\xa8\xbc\x81\x35\xf4\x37", "\x80\u1e3f\ue7c7"),
    ("gb18030", b"\x81\x30\x81a", "\ufffd0乤"),  # what was swallowed is given back
    ("gb18030", b"\x81 x", "\ufffd x"),
    ("gb18030", b"\xfe", "\ufffd"),
    ("Big5", b"\xa4\xa4\xa1\x45\xa2\x44\x87\x7a", "中\u2027￥\u3875"),
    ("Big5", b"\x88\x62", "\u00ca\u0304"),  # by the standard; Chromium 130 has a fault here
    ("Big5", b"\xff\x80a", "\ufffd\ufffda"),
    ("Shift_JIS", b"\x83\x5c\x95\x5c\x87\x40\xb1\x80", "ソ表①ｱ\x80"),
    ("Shift_JIS", b"\xa0\xfd\x81\x20", "\ufffd\ufffd\ufffd "),
    ("Shift_JIS", b"\xf0\x40", "\ue000"),  # end-user defined characters
    ("EUC-JP", b"\xc6\xfc\xad\xa1\x8e\xb1\x8f\xb0\xa1\xa1\xc1", "日①ｱ丂～"),
    ("EUC-JP", b"\xa1\xa1\x8f\xa2\xb7", "\u3000～"),
    ("EUC-JP", b"\x80\xa1a\xa1", "\ufffd\ufffda\ufffd"),
    ("ISO-2022-JP", b"a\x1b$BF|K\\\x1b(Jz\\~\x1b(I1\x1b(B!", "a日本z¥‾ｱ!"),
    ("ISO-2022-JP", b"\x0e\x80", "\ufffd\ufffd"),
    ("EUC-KR", b"\xc7\xd1\x8c\x63\xfea", "한똠\ufffda"),
]


@pytest.mark.parametrize(("name", "body", "text"), DECODE)
def test_decoding_is_the_standards(name: str, body: bytes, text: str) -> None:
    assert decode(body, name) == text


QUERIES = [
    ("windows-1252", "q=é€あ", "q=%E9%80%26%2312354%3B"),  # URL §1.3: what is not encodable becomes a numeric reference
    ("Shift_JIS", "q=表ソ①", "q=%95\\%83\\%87@"),  # ASCII trail bytes stay as they are
    ("EUC-JP", "q=日～", "q=%C6%FC%A1%C1"),
    ("ISO-2022-JP", "q=日本a", "q=%1B$BF|K\\%1B(Ba"),
    ("GBK", "q=中€", "q=%D6%D0%80"),
    ("gb18030", "q=中€😀", "q=%D6%D0%A2%E3%949%FC6"),
    ("Big5", "q=許功蓋", "q=%B3\\%A5\\%BB\\"),
    ("EUC-KR", "q=한", "q=%C7%D1"),
    ("x-user-defined", "q=é", "q=%26%23233%3B"),
]


@pytest.mark.parametrize(("name", "query", "spelled"), QUERIES)
def test_queries_are_spelled_in_the_pages_encoding(name: str, query: str, spelled: str) -> None:
    encode = query_encoder(name)
    assert encode is not None
    assert encode(query) == spelled


def test_utf_8_is_the_output_encoding_of_the_unicode_encodings() -> None:
    assert all(query_encoder(name) is None for name in ("UTF-8", "UTF-16LE", "UTF-16BE", "replacement"))
