
"""Headings and delimiters of the exports people have (spellings: the project's notes on imports)."""

from __future__ import annotations

import pytest

from transforms.imports.layout import Layout, detect
from transforms.imports.problems import ImportFileError

AHREFS = (
    "Referring page title,Referring page URL,Language,Platform,Referring page HTTP code,Domain rating,UR,Domain traffic,"
    "Referring domains,Linked domains,External links,Page traffic,Keywords,Target URL,Left context,Anchor,Right context,"
    "Redirect Chain URLs,Redirect Chain status codes,Type,Is spam,Content,Nofollow,UGC,Sponsored,Rendered,Raw,Lost status,"
    "Drop reason,Discovered status,First seen,Last seen,Lost,Author,Page type,Page category,Links in group"
)
SEMRUSH = (
    "Page ascore,Source title,Source url,Target url,Anchor,External links,Internal links,Nofollow,Sponsored,Ugc,Text,Frame,"
    "Form,Image,Sitewide,First seen,Last seen,New link,Lost link"
)
MAJESTIC = (
    "Target URL,Source URL,Anchor Text,Source Crawl Date,Source First Found Date,FlagNoFollow,FlagImageLink,FlagRedirect,"
    "FlagFrame,FlagOldCrawl,FlagAltText,FlagMention,SourceCitationFlow,SourceTrustFlow,TargetCitationFlow,TargetTrustFlow"
)
FROG = (
    '"Type","Source","Destination","Size (Bytes)","Alt Text","Anchor","Status Code","Status","Follow","Target","Rel",'
    '"Path Type","Link Path","Link Position","Link Origin"'
)


def shape(layout: Layout) -> tuple[str, str | None, int, int | None]:
    return layout.provider.value, layout.delimiter, layout.source, layout.target


@pytest.mark.parametrize(
    ("heading", "expected"),
    [
        (AHREFS.replace(",", "\t"), ("ahrefs", "\t", 1, 13)),
        (AHREFS, ("ahrefs", ",", 1, 13)),
        (AHREFS.replace(",", ";"), ("ahrefs", ";", 1, 13)),
        (AHREFS.upper(), ("ahrefs", ",", 1, 13)),
        (
            '"#","Domain Rating","Referring Page URL","Referring Page Title","Link URL","TextPre","Link Anchor"',
            ("ahrefs", ",", 2, 4),
        ),
        ("Referring page URL\tDomain rating\tTarget URL", ("ahrefs", "\t", 0, 2)),  # columns may be missing
        (SEMRUSH, ("semrush", ",", 2, 3)),
        (MAJESTIC, ("majestic", ",", 1, 0)),
        ("Linking page,Last crawled", ("search_console", ",", 0, None)),
        ('"Source Url","Anchor text","Target Url"', ("bing", ",", 0, 2)),
        (FROG, ("screaming_frog", ",", 1, 2)),  # its column Target is the attribute of <a>, no page
        ("source_url,target_url,anchor_text", ("generic", ",", 0, 1)),
        ("Target;Source", ("generic", ";", 1, 0)),
        ("from|to", ("generic", "|", 0, 1)),
        ("anchor,SOURCE URL", ("generic", ",", 1, None)),
    ],
)
def test_headings(heading: str, expected: tuple[str, str | None, int, int | None]) -> None:
    layout = detect([heading, ""], "f.csv")
    assert shape(layout) == expected
    assert layout.first_data_line == 2


def test_old_moz_has_six_lines_before_its_headings() -> None:
    lines = [
        "Moz Inbound Links", "https://example.com", "Created on: 2016-03-01", "Links from: external, only", "Filter: all", "",
        "URL,Title,Anchor Text,Page Authority,Domain Authority,Number of Domains Linking to this Page,Origin,Target URL,Link Equity",
        "http://a.example/,A,a,1,2,3,x,http://example.com/,yes",
    ]  # fmt: skip
    layout = detect(lines, "f.csv")
    assert shape(layout) == ("moz", ",", 0, 7)
    assert layout.first_data_line == 8


def test_localised_search_console_is_known_by_its_columns() -> None:
    layout = detect(
        ["Verlinkende Seite,Zuletzt gecrawlt", "https://a.example/1,2026-11-02", "https://b.example/2,2026-11-03"],
        "f.csv",
    )
    assert shape(layout) == ("search_console", ",", 0, None)
    assert layout.first_data_line == 2
    assert layout.discovery_source == "search_console"


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (["https://a.example/x,y", "https://b.example/z;1"], 1),
        (["URL", "https://a.example/x,y", "https://b.example/"], 2),
        (["Links", "https://a.example/x,y", "b.example/"], 2),
        (["a.example/x", "b.example"], 1),
        (["", '"https://a.example/"', "https://b.example/"], 2),
    ],
)
def test_plain_lists(lines: list[str], first: int) -> None:
    layout = detect(lines, "f.txt")
    assert shape(layout) == ("url_list", None, 0, None)
    assert layout.first_data_line == first


def test_two_columns_without_headings_are_source_and_target_and_that_is_said() -> None:
    layout = detect(
        ["https://a.example/,https://example.com/,text", "https://b.example/,https://example.com/x,"], "f.csv"
    )
    assert shape(layout) == ("generic", ",", 0, 1)
    assert layout.first_data_line == 1
    assert "column 1 is taken as the source page" in layout.notes[0]


def test_excel_separator_line_is_no_data() -> None:
    layout = detect(["sep=;", "source;target", "https://a.example/;https://example.com/"], "f.csv")
    assert shape(layout) == ("generic", ";", 0, 1)
    assert layout.first_data_line == 3


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["id,name,price", "1,apple,2"], ["“id”, “name”, “price”", "source_url", "--target"]),
        (["site,Linking pages,Target pages", "a.example,10,2"], ["“site”", "source_url"]),
        (["quelle,ziel", "https://a.example/,https://example.com/"], ["“quelle”, “ziel”", "source_url", "target_url"]),
        (["Target URL,anchor", "https://example.com/,x"], ["“Target URL”", "source_url"]),
        (["", "  "], ["is empty"]),
    ],
)
def test_wrong_headings_are_named(lines: list[str], said: list[str]) -> None:
    with pytest.raises(ImportFileError) as caught:
        detect(lines, "f.csv")
    for part in ["f.csv", *said]:
        assert part in str(caught.value)


def test_duplicate_headings_are_never_guessed() -> None:
    rows = ["https://a.example/,https://example.com/,https://other.example/"]
    with pytest.raises(ImportFileError, match="“target” twice, with different URLs"):
        detect(["source,target,target", *rows], "f.csv")
    assert detect(["source,target,target", "https://a.example/,,https://example.com/"], "f.csv").target == 2
    assert (
        detect(["source,target,target", "https://a.example/,https://example.com/,https://example.com/"], "f.csv").target
        == 1
    )


def test_a_format_can_be_insisted_on() -> None:
    with pytest.raises(ImportFileError, match="does not have the headings of format majestic"):
        detect(["linking page,last crawled", "https://a.example/,2026-01-01"], "f.csv", format_name="majestic")
    with pytest.raises(ImportFileError, match="--format excel is not known"):
        detect(["source,target"], "f.csv", format_name="excel")
    assert detect(["source,target", "https://a.example/,x"], "f.csv", format_name="url_list").delimiter is None
