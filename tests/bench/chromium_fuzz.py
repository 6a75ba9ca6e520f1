"""Links of pages as a real Chromium with scripts off sees them against ours, over pages that nobody chose.

`python -m tests.bench.chromium_fuzz --seeds 0 3000`: adversarial pages by a grammar. `python -m
tests.bench.chromium_fuzz FILE...`: saved pages. Prints each page that differs, then how many links were compared; a new
difference is minimised into `tests/service/html/oddities.py`. Known, and left as they are:

- Lexbor: `sub` and `sup` do not end SVG and MathML (HTML §13.2.6.5); an `image` that a table fosters is lost; `textarea`
  opens again the formatting elements that were left open, as it should not (§13.2.6.4.7).
- Chromium: `search` is no special element to it (§13.2.4.2 says that it is); an unparsable `<base href>` makes it resolve
  nothing; hosts with blanks become `%20`; NUL after `<` shows as U+FFFD (§13.2.6.4.7 ignores it); `document.title` takes any
  control character for white space; one letter in `mi` is shown as the mathematical italic one.
- Text: style of elements that are not rendered (`<style style=display:block>`), `white-space`, word breaks of `capitalize`
  beyond letters, blocks inside `ruby`, anything in a `select` that is no option, an `object` that the page's end closes.
- A page without any label of its encoding: Chromium guesses, this project takes windows-1252.

Not a test.
"""

# ruff: noqa: SIM905 - names of elements read better in a row

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.fixtures.chromium import Chromium, Page, find_chromium
from tests.service.html.test_chromium import NO_SHEETS, differences
from transforms.html import parse_page

HREFS = (
    "x", "/y", "../z", "?q=1", "#f", "", "  /sp ace ", "\t/ta\tb\n", "http://h.example/", "HTTP://EX.example:80/%7Ea", "https:x",
    "https:/x", "https:///y", "//n.example/p", "\\\\b.example\\c", "javascript:void(0)", "data:text/html,<p>a b", "blob:https://a/b",
    "mailto:a b@c.d?subject=é", "tel:+1 2", "about:blank", "ftp://u:p@f.example/", "foo:bar baz", "http://[::1]/", "http://1.2.3/",
    "http://0x7f.1/", "http://ex%41mple.com/", "http://ex.com:99999/", "http://u@h@i/", "http://☃.net/ü?ü#ü", "/日本?q=日#日",
    "/a\u00a0b", "/%zz%2f%2F", "/a|b^c`d{e}", '/a"b<c>d', "?a=1&amp;b=2&copy=3&lt=4", "/&eacute;&notit;x", "%2e%2E/x",
    "./../../..//x", "/a\\b?c\\d#e\\f", "http://h.example?q", "/a'b?c'd#e'f", "http://xn--nxasmq6b/", "http://a_b.example/",
    "http://a..b/", "http://a.example./p", "http://faß.de/", "/\x01\x7f\x0b", "http://a\u00adb.example/", "http://h.example:/x",
    "http://256.1.1.1/", "http:", "http://", "///", "wss://w.example/é?é", "/a?b?c#d#e", "?#", "#?", "http://user:@h.example/",
)  # fmt: skip
RELS = (
    "nofollow",
    "NOFOLLOW ugc",
    "sponsored,ugc",
    "no\tfollow",
    "nofollow\x0cnoopener",
    "",
    "  ",
    "\u00a0nofollow",
    "NoFollow\u212a",
)
WORDS = (
    "alpha", "ga mma", " del ta ", "\n eps\tilon \n", "\u00a0nb\u00a0sp\u00a0", "z\u200bw", "so\u00adft", "\u202eRTL\u202c", "日本語",
    "e\u0301", "😀", "&amp;", "&copy", "&nbsp;", "&#0;", "&#x80;", "&notit;", "&lt;b&gt;", "\0n", "\r\nx\r", "\x0cff", "&#13;c",
    "&ensp;e&ensp;", "&#8203;", "&shy;", "\u2028ls", "\u3000id\u3000", "ß", "a&#10;b", "\ufeffbom",
)  # fmt: skip
INLINE = "b i span em strong font code u s small big tt nobr q cite abbr mark sub sup bdo label ins del custom-x time output strike".split()
BLOCK = (
    "div p h1 ul ol dl blockquote section article aside nav header footer main center address form fieldset figure pre listing menu "
    "details dialog summary legend li dd dt figcaption table"
).split()
TABLE = "table tbody thead tfoot tr td th caption colgroup col".split()
OTHER = (
    "svg math foreignObject desc title mi mo mtext annotation-xml text script style textarea title xmp iframe noembed noframes noscript "
    "template button select option optgroup datalist meter progress object video audio canvas ruby rt rp picture map body html head"
).split()
VOID = (
    '<br>', '<hr>', '<img src=x alt="an  image">', '<img>', '<input value=v>', '<wbr>', '<col>', '<base href="/b/">',
    '<base target=_top>', '<base href="data:x">', '<base href>', '<meta name=x content=y>', '<area href=q alt="ar ea">',
    '<!-- c <a href=in>x</a> -->', '<!-->', '<!x>', '<?php x ?>', '</>', '< a', '<![CDATA[ <a href=cd>x</a> ]]>', '&', '<', '\0', '\ufeff',
)  # fmt: skip
STYLES = (
    "display:none", "visibility:hidden", "display:block", "display:inline", "text-transform:uppercase", "display:contents",
    "VISIBILITY:visible", "display: none !important", "color:red;display:inline-block", "text-transform:capitalize", "float:left",
    "opacity:0", "display:none;display:block", "font-size:0", "display:bogus", "/*display:none*/color:red",
)  # fmt: skip


class Grammar:
    """One page from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def page(self) -> str:
        head = self._random.choice(["<!doctype html>", ""]) + self._random.choice(
            ["<html lang=de><head><title>t</title>", "", "<head>"]
        )
        return head + self._content(0, self._random.randint(8, 25))

    def _content(self, depth: int, count: int) -> str:
        return "".join(self._piece(depth) for _ in range(count))

    def _piece(self, depth: int) -> str:
        dice = self._random.random()
        if dice < 0.28 or depth > 7:
            return self._random.choice(WORDS)
        if dice < 0.52:
            return self._link(depth)
        if dice < 0.88:
            names = self._random.choices([INLINE, BLOCK, TABLE, OTHER], [12, 11, 6, 6])[0]
            return self._element(self._random.choice(names), depth)
        if dice < 0.97:
            return self._random.choice(VOID)
        return f"</{self._random.choice([*INLINE, *BLOCK, *TABLE, 'a', 'a', 'svg', 'select'])}>"

    def _attribute(self, name: str, value: str) -> str:
        quote = self._random.choice("\"'")
        text = value.replace(quote, "&quot;" if quote == '"' else "&#39;")
        return self._random.choice(["{0}={2}{1}{2}", "{0}={2}{1}{2}", "{0}\n=\t{2}{1}{2} {0}=dup"]).format(
            name, text, quote
        )

    def _link(self, depth: int) -> str:
        roll = self._random.random
        attributes = [self._attribute("href", self._random.choice(HREFS))] if roll() < 0.95 else ["href"]
        if roll() < 0.3:
            attributes.append(self._attribute("rel", self._random.choice(RELS)))
        if roll() < 0.15:
            attributes.append(self._attribute("style", self._random.choice(STYLES)))
        if roll() < 0.05:
            attributes.append("hidden")
        self._random.shuffle(attributes)
        inside = self._content(depth + 1, self._random.randint(0, 3))
        return f"<a {' '.join(attributes)}>{inside}{self._random.choice(['</a>', '</A >', '</a x>', ''])}"

    def _element(self, name: str, depth: int) -> str:
        attributes = f" {self._attribute('style', self._random.choice(STYLES))}" if self._random.random() < 0.15 else ""
        attributes += self._random.choices(["", " hidden", " open", " dir=rtl"], [85, 5, 7, 3])[0]
        inside = self._content(depth + 1, self._random.randint(0, 3))
        return f"<{name}{attributes}>{inside}" + (f"</{name}>" if self._random.random() < 0.85 else "")


def pages(seeds: range, files: list[Path]) -> Iterator[tuple[str, Page]]:
    for seed in seeds:
        body = Grammar(seed).page().encode()
        headers = [("Content-Type", "text/html; charset=utf-8"), NO_SHEETS]
        yield str(seed), Page("https://example.com/dir/page?old=1", body, headers)
    for file in files:
        headers = [("Content-Type", "text/html"), NO_SHEETS]
        yield str(file), Page("https://example.com/dir/page.html?q=1", file.read_bytes(), headers)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="saved pages")
    parser.add_argument("--seeds", nargs=2, type=int, default=(0, 0), metavar=("FROM", "TO"), help="pages by the grammar")
    asked = parser.parse_args()
    if not asked.files and asked.seeds[1] <= asked.seeds[0]:
        parser.error("name saved pages, or seeds of the grammar")
    program = find_chromium()
    if program is None:
        raise SystemExit("no Chromium on PATH")
    browser = Chromium(program)

    def compare(page: Page) -> list[tuple[object, ...]]:
        nonlocal browser
        try:
            return differences(browser, page)
        except AssertionError:  # frames of the page before can keep a tab busy: a fresh browser decides
            browser.close()
            browser = Chromium(program)
            return differences(browser, page)

    kinds: Counter[str] = Counter()
    compared = links = different = 0
    try:
        for name, page in pages(range(*asked.seeds), asked.files):
            found = compare(page)
            compared += 1
            kind = dict(page.headers)["Content-Type"]
            links += parse_page(page.body, document_url=page.url, content_type=kind).page["link_count"]
            if found:
                different += 1
                kinds.update(str(one[0]) for one in found)
                print(name, len(found), str(found[:3])[:400])
    finally:
        browser.close()
    print(f"{compared:,} pages, {links:,} links; {different:,} pages differ: {dict(kinds)}")


if __name__ == "__main__":
    main()
