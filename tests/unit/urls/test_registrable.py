"""The public suffix list can be replaced, and a broken replacement is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from transforms.registrable import BadSuffixList, SuffixList, registrable, suffixes, use_suffixes
from transforms.urls import identify


@pytest.fixture
def _default_list() -> Iterator[None]:
    yield
    use_suffixes(None)


def test_the_shipped_list_has_its_private_section() -> None:
    assert registrable("blog.blogspot.com").domain == "blog.blogspot.com"
    assert registrable("a.b.example.co.uk") == ("example.co.uk", "co.uk")
    assert registrable("co.uk") == (None, "co.uk")
    assert registrable("xn--85x722f.xn--55qx5d.cn").domain == "xn--85x722f.xn--55qx5d.cn"
    assert suffixes().version.startswith("20")


@pytest.mark.usefixtures("_default_list")
def test_a_replacement_takes_effect_at_once() -> None:
    assert identify("http://a.shop.example/").registrable_domain == "shop.example"
    use_suffixes(SuffixList("// VERSION: test\nexample\nshop.example\n"))
    assert identify("http://a.shop.example/").registrable_domain == "a.shop.example"
    assert suffixes().version == "test"


def test_a_broken_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSuffixList, match="cannot be read"):
        SuffixList.from_file(tmp_path / "absent.dat")
    short = tmp_path / "short.dat"
    short.write_text("com\nnet\n")
    with pytest.raises(BadSuffixList, match="only 2 rules"):
        SuffixList.from_file(short)


def test_look_up_equals_the_packages_own() -> None:
    from publicsuffixlist import PSLFILE, PublicSuffixList

    package = PublicSuffixList()
    rules = [
        line.strip()
        for line in Path(PSLFILE).read_text("utf-8").splitlines()
        if line.strip() and not line.startswith("//")
    ]
    hosts = {"com", "a", "a.b.c.d", "x.unknowntld"}
    for rule in rules[::7]:
        name = rule.lstrip("!*.").encode("idna").decode()
        hosts |= {name, f"a.{name}", f"b.a.{name}", f"c.b.a.{name}"}
    assert len(hosts) > 5_000
    for host in hosts:
        assert registrable(host) == (package.privatesuffix(host), package.publicsuffix(host)), host
