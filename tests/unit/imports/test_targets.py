# ruff: noqa: E501 - tables and real headings
"""What a person writes after `--target`, and what it covers."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.matching.rules import accepted, candidates, rule_frame
from transforms.matching.tolerance import url_parts
from transforms.schemas import TARGET_RULES
from transforms.targets import BadTarget, Target, comparison_key, covering, domain_target, parse_target
from transforms.urls import identify, identify_many


@pytest.mark.parametrize(
    ("written", "scope", "host", "url", "below"),
    [
        ("example.com", "domain", "example.com", None, True),
        (" EXAMPLE.com ", "domain", "example.com", None, True),
        ("*.example.com", "domain", "example.com", None, True),
        ("https://example.com", "domain", "example.com", None, True),
        ("example.co.uk", "domain", "example.co.uk", None, True),
        ("bücher.example", "domain", "xn--bcher-kva.example", None, True),
        ("blog.example.com", "subdomain", "blog.example.com", None, True),
        ("www.example.com", "subdomain", "www.example.com", None, True),
        ("https://example.com/", "exact_url", "example.com", "https://example.com/", False),
        ("https://Example.com:443/A?b=1#c", "exact_url", "example.com", "https://example.com/A?b=1", False),
        ("example.com/page", "exact_url", "example.com", "https://example.com/page", False),
        ("https://example.com/path/*", "url_prefix", "example.com", "https://example.com/path/", False),
        ("example.com/pa*", "url_prefix", "example.com", "https://example.com/pa", False),
        ("https://example.com:8080", "exact_url", "example.com", "https://example.com:8080/", False),
        ("192.0.2.1", "domain", "192.0.2.1", None, True),
    ],
)
def test_parse(written: str, scope: str, host: str, url: str | None, below: bool) -> None:
    target = parse_target(written)
    assert (target.scope, target.host, target.url, target.include_subdomains) == (scope, host, url, below)
    assert parse_target(str(target)) == target


@pytest.mark.parametrize(
    "written",
    [
        "",
        "*",
        "localhost",
        "two words.com",
        "ftp://example.com/",
        "https://u:p@example.com/",
        "https://example.com/*/x",
        "https://",
    ],
)
def test_what_is_not_understood_is_quoted(written: str) -> None:
    with pytest.raises(BadTarget, match=r"Target “"):
        parse_target(written)


def test_the_key_tells_definitions_apart() -> None:
    written = [
        "example.com",
        "www.example.com",
        "https://example.com/",
        "https://example.com/*",
        "https://example.com/a",
    ]
    assert len({parse_target(w).target_key for w in written}) == len(written)
    assert parse_target("EXAMPLE.COM").target_key == domain_target("example.com").target_key
    assert all(len(parse_target(w).target_key) == 32 for w in written)


URLS = [
    "https://example.com/page?utm_source=x",     # 0
    "http://www.example.com/page/",              # 1
    "https://example.com/page?a=1&utm_x=2&b=3",  # 2
    "https://example.com/page?",                 # 3: an empty query is another URL
    "https://blog.example.com/",                 # 4
    "https://badexample.com/page",               # 5
    "https://www.example.com/path/x?gclid=1",    # 6
    "https://example.com/page?gclid",            # 7
]  # fmt: skip


@pytest.mark.parametrize(
    ("target", "covered"),
    [
        (parse_target("example.com"), [0, 1, 2, 3, 4, 6, 7]),
        (parse_target("www.example.com"), [0, 1, 2, 3, 6, 7]),
        (parse_target("blog.example.com"), [4]),
        (parse_target("https://example.com/page"), [0, 1, 7]),
        (parse_target("https://www.example.com/page/?fbclid=1"), [0, 1, 7]),
        (parse_target("https://example.com/page?b=3&a=1"), []),  # order counts
        (parse_target("https://example.com/page?a=1&b=3"), [2]),
        (parse_target("https://example.com/path/*"), [6]),
        (parse_target("https://example.com/page", is_strict=True), []),
        (parse_target("https://example.com/page?", is_strict=True), [3]),
        (parse_target("example.com", is_strict=True), [0, 1, 2, 3, 4, 6, 7]),
    ],
)
def test_coverage(target: Target, covered: list[int]) -> None:
    frame = pl.DataFrame(pl.from_arrow(identify_many(URLS)))
    assert [i for i, hit in enumerate(covering([target], frame)) if hit is not None] == covered


def test_the_first_target_that_covers_wins_also_with_many_domains() -> None:
    frame = pl.DataFrame(pl.from_arrow(identify_many(URLS)))
    some = [parse_target("https://example.com/page"), parse_target("example.com")]
    assert covering(some, frame).to_list() == [0, 0, 1, 1, 1, None, 1, 0]
    many = [domain_target(f"d{i}.example") for i in range(20)] + [domain_target("badexample.com"), *some]
    assert covering(many, frame).to_list() == [21, 21, 22, 22, 22, 20, 22, 21]
    assert covering([], frame).to_list() == [None] * len(URLS)


HOSTS = [
    "example.com",
    "www.example.com",
    "blog.example.com",
    "www.blog.example.com",
    "www.com",
    "notexample.com",
    "192.0.2.1",
    "com.example",
]
PATHS = [
    "/",
    "/a",
    "/a/",
    "/a/b",
    "/a?utm_source=x",
    "/a/?gclid=1&b=2",
    "/a?b=2",
    "/a?",
    "/A",
    "/a?b=2&fbclid",
    "?utm_x=1",
    "",
]
WRITTEN = ["example.com", "www.example.com", "blog.example.com", "www.com", "192.0.2.1", "https://example.com/a", "http://www.example.com/a/?utm_x=1",
           "https://example.com/a?b=2", "https://example.com/a/*", "https://www.example.com/a*", "https://example.com/*", "https://example.com/"]  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
def test_import_and_matching_agree_on_what_a_target_covers(strict: bool) -> None:
    """`transforms.matching.rules` decides in the flow; a link that the import lets in must be one that the flow accepts."""
    found = identify_many(
        [f"{scheme}://{host}{path}" for scheme in ("http", "https") for host in HOSTS for path in PATHS]
    )
    urls = pl.DataFrame(pl.from_arrow(found)).unique("identity", maintain_order=True).with_row_index("url_id")
    parts = url_parts(urls.select(url="identity")).rename({"url": "identity"})
    parts = urls.select("url_id", "identity").join(parts, on="identity", maintain_order="left")
    parts = parts.with_columns(host_id=pl.col("host").rank("dense"))
    project, wanted = b"p" * 16, urls.select(pl.lit(0, pl.UInt32).alias("pid"), "url_id")
    for written in WRITTEN:
        target = parse_target(written, is_strict=strict)
        rule = TARGET_RULES.table(
            [
                {
                    "tenant_id": project, "project_id": project, "project_target_id": target.target_key[:16], "scope": target.scope,
                    "host": target.host, "registrable_domain": target.registrable_domain, "url": target.url,
                    "include_subdomains": target.include_subdomains, "is_strict": strict, "rule_version": 1,
                }
            ]
        )  # fmt: skip
        rules = rule_frame(
            rule,
            pl.DataFrame({"project_id": [project], "pid": [0]}, schema={"project_id": pl.Binary, "pid": pl.UInt32}),
        )
        theirs = set(accepted(candidates(wanted, parts, rules))["url_id"])
        ours = set(urls.filter(covering([target], urls).is_not_null())["url_id"])
        differing = urls.filter(pl.col("url_id").is_in(list(theirs ^ ours)))["identity"].to_list()
        assert not differing, (written, differing)
        assert ours or strict


KEYS = [
    # only whole parameters, in any case, position and number
    ("https://a.example/p?gclid=1", "a.example/p"),
    ("https://a.example/p?gclid", "a.example/p"),
    ("https://a.example/p?gclid=", "a.example/p"),
    ("https://a.example/p?GCLID=1&Utm_Source=x&fbclid=2", "a.example/p"),
    ("https://a.example/p?gclid=1&gclid=2&b=3", "a.example/p?b=3"),
    ("https://a.example/p?a=1&gclid=2&b=3", "a.example/p?a=1&b=3"),
    ("https://a.example/p?a=1&b=2&msclkid=3", "a.example/p?a=1&b=2"),
    ("https://a.example/p?gclidx=1", "a.example/p?gclidx=1"),
    ("https://a.example/p?gclidx", "a.example/p?gclidx"),
    ("https://a.example/p?xgclid=1", "a.example/p?xgclid=1"),
    ("https://a.example/p?a=gclid", "a.example/p?a=gclid"),
    ("https://a.example/p?a=gclid=1", "a.example/p?a=gclid=1"),
    ("https://a.example/p?gclid[]=1", "a.example/p?gclid[]=1"),
    ("https://a.example/p?gclid%5B%5D=1", "a.example/p?gclid%5B%5D=1"),
    ("https://a.example/p?utm_=1&utm=2&utm-source=3", "a.example/p?utm_=1&utm=2&utm-source=3"),
    ("https://a.example/p?utm_source.x=1", "a.example/p?utm_source.x=1"),
    ("https://a.example/p?igshid=1&igsh=2&igshx=3", "a.example/p?igshx=3"),
    ("https://a.example/p?utm%5Fsource=1", "a.example/p"),  # the identity has decoded it
    ("https://a.example/p?utm_source%3D1", "a.example/p?utm_source%3D1"),  # an encoded = belongs to the name
    # what is no separator, no query, or nothing
    ("https://a.example/p?a=1;gclid=2", "a.example/p?a=1;gclid=2"),
    ("https://a.example/p?gclid=1;b=2", "a.example/p"),
    ("https://a.example/p?b=2?gclid=1", "a.example/p?b=2?gclid=1"),
    ("https://a.example/gclid=1", "a.example/gclid=1"),
    ("https://a.example/p&gclid=1", "a.example/p&gclid=1"),
    ("https://a.example/p#gclid=1", "a.example/p"),
    ("https://a.example/p?", "a.example/p?"),
    ("https://a.example/p?&", "a.example/p?&"),
    ("https://a.example/p?a=1&&b=2", "a.example/p?a=1&&b=2"),
    ("https://a.example/p?&gclid=1&", "a.example/p?&"),
    ("https://a.example/p?&gclid=1", "a.example/p"),
]


@pytest.mark.parametrize(("url", "key"), KEYS)
def test_click_tracking_is_whole_parameters(url: str, key: str) -> None:
    assert pl.select(comparison_key(pl.lit(identify(url).identity))).item() == key


NAMES = [
    "utm_source", "utm_medium", "utm_campaign", "utm_term", "utm_content", "utm_id", "gclid", "gclsrc", "gbraid", "wbraid", "dclid",
    "fbclid", "msclkid", "yclid", "twclid", "ttclid", "li_fat_id", "igshid", "igsh", "mc_cid", "mc_eid", "_hsenc", "_hsmi", "mkt_tok",
    "vero_id", "oly_anon_id", "oly_enc_id", "srsltid", "epik", "_openstat", "ysclid", "rb_clickid", "s_kwcid", "wickedid",
]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.sampled_from(NAMES),
                st.sampled_from(NAMES).flatmap(
                    lambda name: st.sampled_from([name + "x", "x" + name, name[:-1], name + ";a"])
                ),
                st.text("ab_.", max_size=3),
            ),
            st.booleans(),
            st.sampled_from(["", "=", "=1", "=gclid", "=1;gclid=2"]),
        ),
        max_size=6,
    )
)
def test_everything_but_click_tracking_keeps_two_urls_apart(parameters: list[tuple[str, bool, str]]) -> None:
    query = "&".join((name.upper() if upper else name) + value for name, upper, value in parameters)
    kept = "&".join(
        (name.upper() if upper else name) + value
        for name, upper, value in parameters
        if not (name in NAMES or (name.startswith("utm_") and name[4:].replace("_", "a").isalnum()))
    )
    expected = "a.example/p" + (f"?{kept}" if kept or not query else "")
    key = pl.select(comparison_key(pl.lit("https://a.example/p?" + query))).item()
    assert key == expected
