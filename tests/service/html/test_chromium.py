"""The links of a page are those of a browser with scripts off, link by link: a real Chromium is asked.

Compared: how many, in which order, the attribute as written, the resolved URL, rel, the rendered text, and the page's encoding,
base and title. `EXPLAINED` lists every difference there is, with its reason.
"""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.chromium import Chromium, Page
from tests.service.html.oddities import ODDITIES
from transforms.html import parse_page
from transforms.html.text import fold

pytestmark = [pytest.mark.browser, pytest.mark.service]

URL = "https://example.com/dir/page?old=1"
NO_SHEETS = ("Content-Security-Policy", "style-src-elem 'none'")
"""Style sheets are the author's wishes for the screen; a manifest is made from markup alone."""

EXPLAINED: dict[str, set[str]] = {
    "math_links": {"text"},  # Chromium renders a lone <mi> letter in mathematical italics
    "base_unparsable": {"base", "href"},  # HTML §4.2.3: the fallback base; Chromium resolves nothing at all then
    "schemes": {"href"},  # file:///c|/x: the standard's drive letter, which Chromium knows on Windows only
    "odd_urls": {"href"},  # `http://a b/`: a forbidden host code point by the standard, %20 in Chromium
    "windows_1252_path": {"href"},  # the query of a ws: URL is UTF-8 by the standard
}


def differences(browser: Chromium, page: Page) -> list[tuple[Any, ...]]:
    """(what, our value, the browser's value, ...) of everything that is not equal."""
    seen = browser.report(page)
    headers = {name.lower(): value for name, value in page.headers}
    parsed = parse_page(page.body, document_url=page.url, content_type=headers.get("content-type"))
    ours = [link for link in parsed.links.dicts() if link["kind"] in ("a", "area")]
    pairs: list[tuple[Any, ...]] = [
        ("charset", parsed.page["charset"], seen["charset"]),
        ("base", parsed.page["base_url"], seen["base"]),
        ("title", parsed.page["title"] or "", seen["title"]),
        ("count", len(ours), len(seen["links"])),
    ]
    for link, theirs in zip(ours, seen["links"], strict=False):
        at = link["position"]
        pairs.append(("raw", link["raw_href"], theirs["raw"], at))
        if not theirs["svg"]:
            pairs.append(
                ("href", link["raw_href"] if link["resolved"] is None else link["resolved"], theirs["href"], at)
            )
        rel = tuple(dict.fromkeys(token for token in re.split(r"[\t\n\f\r ,]+", theirs["rel"].lower()) if token))
        pairs.append(("rel", link["rel"], rel, at))
        pairs.append(("text", "" if link["is_image"] else link["anchor_text"], fold(theirs["inner"]), at))
        if not link["is_image"]:
            pairs.append(("raw text", fold(link["anchor_raw"]), fold(theirs["text"]), at))
    return [pair for pair in pairs if pair[1] != pair[2]]


@pytest.mark.parametrize("name", ODDITIES)
def test_oddities(chromium: Chromium, name: str) -> None:
    body, content_type = ODDITIES[name]
    found = differences(chromium, Page(URL, body, [("Content-Type", content_type)]))
    explained = EXPLAINED.get(name, set())
    assert [one for one in found if one[0] not in explained] == []
    assert {one[0] for one in found} == explained, "an explained difference is gone: remove it from the list"


def test_real_pages(chromium: Chromium, corpus: Path) -> None:
    index = json.loads((corpus / "index.json").read_text())
    found: list[tuple[Any, ...]] = []
    links = 0
    for entry in index:
        body = gzip.decompress((corpus / entry["file"]).read_bytes())
        page = Page(entry["url"] or "https://example.com/", body, [("Content-Type", "text/html"), NO_SHEETS])
        found += [(entry["file"], *one) for one in differences(chromium, page)]
        links += body.count(b"<a ")
    assert len(index) == 40
    assert links > 4_000
    assert found == []
