"""The four scopes: which URLs a rule accepts (through any_target edges, which match what a rule accepts)."""

from __future__ import annotations

import pytest

from tests.fixtures.matching import WindowBuilder

PAGE = "https://source.example/"

CASES = [
    # scope, rule, options, link, tolerated (None: not accepted)
    ("domain", "shop.example", {}, "https://shop.example/x", []),
    ("domain", "shop.example", {}, "http://www.shop.example/", []),
    ("domain", "shop.example", {}, "https://a.b.shop.example:8080/", []),
    ("domain", "shop.example", {}, "https://notshop.example/", None),
    ("domain", "shop.example", {}, "https://shop.example.evil.example/", None),
    ("domain", "shop.example", {"include_subdomains": False}, "https://shop.example/", []),
    ("domain", "shop.example", {"include_subdomains": False}, "https://www.shop.example/", ["www"]),
    ("domain", "shop.example", {"include_subdomains": False}, "https://blog.shop.example/", None),
    ("domain", "shop.example", {"include_subdomains": False, "is_strict": True}, "https://www.shop.example/", None),
    ("domain", "shop.example", {"include_subdomains": False, "is_strict": True}, "http://shop.example/", []),
    ("domain", "192.0.2.7", {}, "http://192.0.2.7/x", []),
    ("domain", "192.0.2.7", {}, "http://1.192.0.2.70/", None),
    ("subdomain", "blog.shop.example", {}, "https://blog.shop.example/1", []),
    ("subdomain", "blog.shop.example", {}, "https://de.blog.shop.example/1", []),
    ("subdomain", "blog.shop.example", {}, "https://shop.example/", None),
    ("subdomain", "blog.shop.example", {"include_subdomains": False}, "https://www.blog.shop.example/", ["www"]),
    ("subdomain", "www.shop.example", {}, "https://shop.example/", ["www"]),
    ("subdomain", "www.shop.example", {}, "https://a.www.shop.example/", []),
    ("subdomain", "www.shop.example", {}, "https://blog.shop.example/", None),
    ("subdomain", "www.shop.example", {"is_strict": True}, "https://shop.example/", None),
    ("url_prefix", "https://shop.example/blog/", {}, "https://shop.example/blog/1?x=2", []),
    ("url_prefix", "https://shop.example/blog/", {}, "http://www.shop.example/blog/1", ["scheme", "www"]),
    ("url_prefix", "https://shop.example/blog/", {}, "https://shop.example/blog", None),
    ("url_prefix", "https://shop.example/blog", {}, "https://shop.example/blogger", []),  # it begins so
    ("url_prefix", "https://shop.example/blog/", {}, "https://shop.example/Blog/1", None),
    ("url_prefix", "https://shop.example/blog/", {}, "https://de.shop.example/blog/1", None),
    ("url_prefix", "https://shop.example/blog/", {"is_strict": True}, "http://shop.example/blog/1", None),
    ("url_prefix", "https://shop.example/p?cat=7", {}, "https://shop.example/p?gclid=q&cat=7&page=2", ["tracking"]),
    ("url_prefix", "https://shop.example/p?cat=7", {}, "https://shop.example/p?cat=7&utm_source=q", []),
    ("url_prefix", "https://shop.example/p?cat=7", {"is_strict": True}, "https://shop.example/p?gclid=q&cat=7", None),
    ("exact_url", "https://shop.example/a", {}, "https://shop.example/a", []),
    ("exact_url", "https://shop.example/a", {}, "http://www.shop.example/a/?gclid=1",
     ["scheme", "www", "tracking", "trailing_slash"]),
    ("exact_url", "https://shop.example/a", {}, "https://shop.example/a/b", None),
    ("exact_url", "https://shop.example/a", {}, "https://de.shop.example/a", None),
    ("exact_url", "https://shop.example/a", {"is_strict": True}, "https://shop.example/a/", None),
    ("exact_url", "https://shop.example/a", {"is_strict": True}, "https://shop.example/a", []),
    ("exact_url", "https://shop.example/", {}, "http://shop.example/", ["scheme"]),
]  # fmt: skip


@pytest.mark.parametrize(("scope", "where", "options", "href", "tolerated"), CASES)
def test_scopes(scope: str, where: str, options: dict, href: str, tolerated: list[str] | None) -> None:
    window = WindowBuilder()
    rule = window.rule(scope, where, **options)
    window.edge(PAGE, "https://unrelated.example/", any_target=True)
    window.page(PAGE).link(PAGE, href)
    (row,) = window.match().observations.to_pylist()
    assert row["evidence"] == ("missing" if tolerated is None else "found")
    assert row["tolerated"] == (tolerated or [])
    assert row["target_rule_ids"] == ([] if tolerated is None else [rule])


def test_all_rules_that_accept_are_named_and_the_least_tolerance_counts() -> None:
    window = WindowBuilder()
    rules = [
        window.rule("domain", "shop.example"),
        window.rule("exact_url", "http://shop.example/a"),
        window.rule("exact_url", "https://shop.example/a", is_strict=True),
    ]
    window.rule("exact_url", "http://shop.example/a/", is_strict=True)
    window.edge(PAGE, "https://shop.example/a")
    window.page(PAGE).link(PAGE, "https://shop.example/a")
    (row,) = window.match().observations.to_pylist()
    assert row["target_rule_ids"] == sorted(rules)


def test_the_tolerant_meaning_is_the_one_of_the_target_definitions() -> None:
    """`transforms.targets.covering` decides what an import accepts; matching must agree with it on the same URLs."""
    import polars as pl

    from transforms.targets import Scope, Target, covering
    from transforms.urls import identify

    for scope, where, options, href, tolerated in CASES:
        is_url = scope in ("url_prefix", "exact_url")
        found, link = identify(where if is_url else f"https://{where}/"), identify(href)
        if options.get("include_subdomains") is False or "tracking" in (tolerated or []) or found.is_ip:
            continue
        assert found.host is not None
        assert found.site is not None
        target = Target(
            Scope(scope), found.host, found.site, where if is_url else None,
            include_subdomains=not is_url, is_strict=bool(options.get("is_strict")),
        )  # fmt: skip
        urls = pl.DataFrame({"identity": [link.identity], "host": [link.host]})
        assert (covering([target], urls)[0] is not None) == (tolerated is not None), (scope, where, href)
