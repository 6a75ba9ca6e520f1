"""`backlinks robots` and `backlinks fetch` as filters and for one URL. (Over real sockets: tests/service/crawl.)"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from crawl.robots.book import PARSED_BYTES
from orchestration.cli import robots as robots_command
from orchestration.cli.fetch import fetch
from orchestration.cli.parse import parse
from orchestration.cli.robots import robots
from orchestration.cli.url import url

ROBOTS = "User-agent: *\nDisallow: /private\nAllow: /private/open\n"


def run(command, *arguments: str, stdin: str = ""):  # type: ignore[no-untyped-def]
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_robots_lines_in_order_and_a_bad_line_answers_with_its_error() -> None:
    requests = [
        json.dumps({"robots": ROBOTS, "agent": "FooBot", "url": "https://x.test/private/a"}),
        "{broken",
        json.dumps({"robots": ROBOTS, "agent": "FooBot", "url": "https://x.test/private/open/a"}),
        json.dumps([1]),
        json.dumps({"robots": 5, "agent": "FooBot", "url": "https://x.test/"}),
        json.dumps({"robots": ROBOTS, "agent": "FooBot", "url": "https://x.test/other"}),
        "",
        json.dumps(
            {"robots": "User-agent: *\nDisallow: /\u30c4", "agent": "FooBot", "url": "https://x.test/%E3%83%84"}
        ),
        json.dumps({"robots": "\ud800", "agent": "FooBot", "url": "http://["}),
        '{"robots": "", "url": NaN}',
    ]
    result = run(robots, "--jsonl", "-", stdin="\n".join(requests))
    assert result.exit_code == 0, result.output
    answers = [json.loads(line) for line in result.stdout.splitlines()]
    assert [answer.get("allowed", "error") for answer in answers] == [
        False,
        "error",
        True,
        "error",
        "error",
        True,
        "error",
        False,
        False,
        "error",
    ]
    assert answers[0] == {
        "allowed": False,
        "rule": "Disallow: /private",
        "reason": "longest matching rule of group *",
    }
    assert answers[5]["rule"] is None
    assert "line 2 is not JSON" in answers[1]["error"]
    assert answers[6]["error"] == "line 7 is empty"
    assert answers[8]["reason"] == "the URL does not parse"
    assert answers[9]["error"] == "line 10 is not JSON: NaN is no JSON value"


def test_robots_lines_remember_files_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules take 16 times as much as their file: 256 files of 500 KiB were 3 GB."""
    held: list[int] = []
    judge = robots_command._judge_line

    def watched(request, rules):  # type: ignore[no-untyped-def]
        answer = judge(request, rules)
        held.append(sum(len(body) for _, body in rules._parsed))
        return answer

    monkeypatch.setattr(robots_command, "_judge_line", watched)
    rules = "User-agent: *\n" + "Disallow: /x\n" * 35_000
    requests = [json.dumps({"robots": rules + f"# {at}", "agent": f"a{at % 3}", "url": "/x"}) for at in range(12)]
    result = run(robots, "--jsonl", "-", stdin="\n".join(requests))
    assert [json.loads(line)["allowed"] for line in result.stdout.splitlines()] == [False] * 12
    assert len(held) == 12
    assert max(held) <= PARSED_BYTES


def test_robots_lines_keep_agents_apart() -> None:
    text = "User-agent: one\nDisallow: /\n"
    requests = [{"robots": text, "agent": agent, "url": "/"} for agent in ("one", "two", "one")] + [
        {"robots": text.replace("one", "backlinksmonitor"), "url": "/"}
    ]
    result = run(robots, "--jsonl", "-", stdin="\n".join(map(json.dumps, requests)))
    assert [json.loads(line)["allowed"] for line in result.stdout.splitlines()] == [False, True, False, False]


def test_robots_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "robots.txt"
    file.write_text(ROBOTS)
    denied = run(robots, "https://x.test/private/a", "--file", str(file), "--agent", "FooBot")
    assert denied.exit_code == 3
    assert "denied" in denied.stdout
    assert "Disallow: /private" in denied.stdout
    allowed = run(robots, "/private/open", "--file", str(file))
    assert allowed.exit_code == 0
    assert "Allow: /private/open" in allowed.stdout


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    for command, arguments in (
        (robots, ("/x", "--file", "none")),
        (robots, ("--jsonl", "none")),
        (fetch, ("--jsonl", "none")),
    ):
        result = run(command, *arguments)
        assert result.exit_code == 1
        assert str(result.exception) == "none cannot be read: No such file or directory."


@pytest.mark.parametrize("command", [robots, fetch, url, parse])
def test_an_argument_besides_lines_is_a_usage_error(command) -> None:  # type: ignore[no-untyped-def]
    result = run(command, "http://a.example/", "--jsonl", "-", stdin="{}\n")
    assert result.exit_code == 2
    assert "not both" in result.output


@pytest.mark.parametrize("command", [robots, fetch])
def test_no_url_is_a_usage_error(command) -> None:  # type: ignore[no-untyped-def]
    assert run(command).exit_code == 2


def test_fetch_refuses_without_a_stack_and_without_a_socket() -> None:
    result = run(fetch, "http://169.254.169.254/latest/meta-data/")
    assert result.exit_code == 3
    assert "blocked (blocked_network)" in result.stdout
    lines = run(
        fetch, "--jsonl", "-", stdin='{"url": "http://[::1]/"}\n{"url": ""}\n{"url": 1e999}\n{"url": [-1e999]}\n'
    )
    answers = [json.loads(line) for line in lines.stdout.splitlines()]
    assert answers[0]["reason"] == "blocked_network"
    assert answers[0]["hops"] == [
        {"url": "http://[::1]/", "gate": "address", "reason": "blocked_network", "address": "::1", "status": None}
    ]
    assert answers[1] == {"url": "", "error": "url must be a non-empty string"}
    assert answers[2] == {"error": "line 3 is not JSON: 1e999 is out of range"}
    assert answers[3] == {"error": "line 4 is not JSON: -1e999 is out of range"}
