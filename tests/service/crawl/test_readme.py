"""What `crawl/README.md` says is so: its example runs as printed, its table names every reason a fetch can end with."""

from __future__ import annotations

import re

import pytest

from crawl.outcomes import UNREACHED, outcome_of
from tests.fixtures.hostile import HostileServer
from transforms.reasons import FOUND_ONLY, SOURCE_GONE, Outcome, Reason
from warehouse.local.paths import project_root

pytestmark = pytest.mark.service
README = (project_root() / "crawl" / "README.md").read_text()


def test_the_example_runs_as_it_is_printed(hostile: HostileServer, capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    # Only the page and the way to it are the test's own: the example's host is on the internet.
    example = example.replace("https://example.com/", "http://www.example.test/plain")
    example = example.replace("CrawlSettings(", "CrawlSettings(test_hosts=HOSTS, ")
    exec(example, {"HOSTS": hostile.test_hosts})
    *results, counts = capsys.readouterr().out.splitlines()
    assert sorted(results) == [
        "http://192.168.0.1/admin blocked blocked_network ['address: blocked_network']",
        "http://www.example.test/plain fetched ok ['response: ok']",
    ]
    assert re.fullmatch(r"2 \d+ None", counts)  # robots.txt and the page


def test_the_table_names_every_reason_a_fetch_ends_with_and_what_it_proves() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (`.*?) \| (.*?) \|$", README, re.MULTILINE)
    said = {
        Reason(code): (Outcome(outcome), proof)
        for outcome, codes, proof in rows
        for code in re.findall(r"`(\w+)`", codes)
    }
    assert {reason: outcome for reason, (outcome, _) in said.items()} == {reason: outcome_of(reason) for reason in said}
    assert {reason for reason, (_, proof) in said.items() if proof == "missing"} == SOURCE_GONE
    assert {reason for reason, (_, proof) in said.items() if "never missing" in proof} == FOUND_ONLY & set(said)
    assert {reason for reason, (_, proof) in said.items() if proof == "none"} == {
        reason for reason in said if outcome_of(reason) in (Outcome.BLOCKED, Outcome.FAILED, Outcome.DEFERRED)
    }
    # What is not a fetch's to end with: verdicts on the parse and on the edge, and pages that only look like one.
    of_the_page = {
        Reason.MAINTENANCE, Reason.PLACEHOLDER, Reason.ARTIFACT_UNAVAILABLE, Reason.PARSE_TIMEOUT, Reason.PARSE_FAILED,
        Reason.PARSE_TRUNCATED, Reason.SCRIPT_SHELL, Reason.LINK_COLLAPSE, Reason.LINK_FOUND,
        Reason.LINK_FOUND_VIA_REDIRECT, Reason.LINK_ABSENT, Reason.REDIRECT_UNCHECKED,
    }  # fmt: skip
    assert set(Reason) - set(said) == of_the_page
    assert set(said) >= UNREACHED
