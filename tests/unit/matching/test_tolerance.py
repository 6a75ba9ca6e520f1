"""What a tolerant comparison looks at, URL by URL."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.matching.tolerance import url_parts


@pytest.mark.parametrize(
    ("url", "is_www", "exact_key"),
    [
        ("https://www.shop.example/a/", True, "shop.example/a"),
        ("https://shop.example/a", False, "shop.example/a"),
        ("https://www.com/a", False, "www.com/a"),  # a name of its own, not the top-level domain `com`
        ("http://www.com:8080/", False, "www.com:8080"),
        ("https://www.www.com/", True, "www.com"),
        ("https://www2.shop.example/", False, "www2.shop.example"),
        ("https://shop.example/www.a.b/", False, "shop.example/www.a.b"),
        ("https://www.shop.example/?utm_source=x&id=1", True, "shop.example?id=1"),
        ("https://www.shop.example/?utm_source=x", True, "shop.example"),
        ("https://www.shop.example/?", True, "shop.example?"),  # an empty query is another URL
    ],
)
def test_the_parts_of_a_url(url: str, is_www: bool, exact_key: str) -> None:
    parts = url_parts(pl.DataFrame({"url": [url]})).row(0, named=True)
    assert (parts["is_www"], parts["exact_key"]) == (is_www, exact_key)
