"""The stored HTML around a link, or where it used to be."""

from __future__ import annotations

from transforms.html import snippet

OLD = b'<main id=m><p>Lorem ipsum dolor sit amet see <a href="https://t.example/x">the target</a> for more on this topic.</p><p>z</p></main>'  # noqa: E501
GONE = b"<main id=m><div><p>Lorem ipsum dolor sit amet see the target for more on this topic.</p></div><p>z</p></main>"
REWRITTEN = b"<main id=m><p>Quite another story</p></main>"
PAGE = {"document_url": "https://s.example/", "target": "https://t.example/x"}


def test_where_it_stands() -> None:
    found = snippet(b"<p>" + b"w " * 400 + b"<a href='https://t.example/x#f'>q</a>" + b" v" * 400, radius=20, **PAGE)  # type: ignore[arg-type]
    assert found.found
    assert found.html == '…w w w w w w w w w w <a href="https://t.example/x#f">q</a> v v v v v v v v v v…'


def test_among_several_the_one_with_that_text() -> None:
    body = b"<p>1 <a href=//t.example/x>one</a></p><p>2 <a href=//t.example/x>two</a></p>"
    assert "2 <a" in snippet(body, anchor_text="two", radius=3, **PAGE).html  # type: ignore[arg-type]


def test_where_it_used_to_be() -> None:
    gone = snippet(GONE, before=OLD, **PAGE)  # type: ignore[arg-type]
    assert gone == (False, "neighbourhood", "<p>Lorem ipsum dolor sit amet see the target for more on this topic.</p>")
    rewritten = snippet(REWRITTEN, before=OLD, locator="main#m/p/a", **PAGE)  # type: ignore[arg-type]
    assert rewritten == (False, "locator", "<p>Quite another story</p>")
    assert snippet(b"", before=OLD, locator="main#m/p/a", **PAGE) == (False, "nowhere", "")  # type: ignore[arg-type]
