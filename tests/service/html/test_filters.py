"""`backlinks url` and `backlinks parse` as people and programs call them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-c", "from orchestration.cli import main; main()"]
REPOSITORY = Path(__file__).resolve().parents[3]


def run(*arguments: str, cwd: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, text=True, cwd=cwd, timeout=120, check=False,
        env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin", "COLUMNS": "200"},
    )  # fmt: skip


def lines(result: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    assert result.returncode == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_url_filter(tmp_path: Path) -> None:
    requests = [
        '{"url": "HTTP://A.example:80/%7eb#c"}',
        "no json",
        '{"url": "x", "base": "https://b.example/d/"}',
        "[]",
        '{"url": 5}',
        '{"url": "mailto:a"}',
    ]
    answers = lines(run("url", "--jsonl", "-", cwd=tmp_path, stdin="\n".join(requests)))
    assert len(answers) == 6
    assert {
        name: answers[0][name]
        for name in ("url", "resolved", "identity", "reason", "host", "registrable_domain", "rules")
    } == {
        "url": "HTTP://A.example:80/%7eb#c",
        "resolved": "http://a.example/%7eb#c",
        "identity": "http://a.example/~b",
        "reason": None,
        "host": "a.example",
        "registrable_domain": "a.example",
        "rules": [
            "scheme_lowercased",
            "host_lowercased",
            "default_port_removed",
            "unreserved_decoded",
            "fragment_removed",
        ],
    }
    assert answers[2]["resolved"] == "https://b.example/d/x"
    assert "error" in answers[1]
    assert "error" in answers[3]
    assert "error" in answers[4]
    assert (answers[5]["identity"], answers[5]["reason"], answers[5]["resolved"]) == (None, "scheme_mailto", "mailto:a")


def test_parse_filter(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(
        b"<meta charset=utf-8><title>T</title><a href=/x rel=nofollow>one</a><a href=y>two</a>"
    )
    requests = [
        {"html_path": "a.html", "url": "https://site.example/d/"},
        {"html_path": "absent.html", "url": "https://site.example/"},
        {"html_path": "a.html", "url": "relative"},
        {
            "html_path": "a.html",
            "url": "https://site.example/",
            "headers": {"X-Robots-Tag": ["noindex", "nofollow"], "Link": "</c>; rel=canonical"},
        },
        {"html_path": "a.html", "url": "https://site.example/", "headers": {"X": 1}},
        {
            "html_path": "a.html",
            "url": "https://site.example/",
            "headers": [["Content-Type", "text/html; charset=koi8-r"]],
        },
    ]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(request) + "\n" for request in requests))
    answers = lines(run("parse", "--jsonl", "in.jsonl", cwd=tmp_path))
    assert len(answers) == 6
    page, links = answers[0]["page"], answers[0]["links"]
    assert (page["title"], page["charset"], page["charset_method"], page["base_url"]) == (
        "T",
        "UTF-8",
        "meta",
        "https://site.example/d/",
    )
    assert [
        (one["position"], one["kind"], one["resolved"], one["anchor_text"], one["rel"], one["follow"]) for one in links
    ] == [
        (0, "a", "https://site.example/x", "one", ["nofollow"], "nofollow_link"),
        (1, "a", "https://site.example/d/y", "two", [], "follow"),
    ]
    assert ["error" in answer for answer in answers] == [False, True, True, False, True, False]
    assert answers[3]["page"]["robots"] == ["noindex", "nofollow"]
    assert answers[3]["page"]["canonicals"] == ["https://site.example/c"]
    assert answers[3]["links"][1]["follow"] == "nofollow_header"
    assert (answers[5]["page"]["charset"], answers[5]["page"]["charset_method"]) == ("KOI8-R", "header")


def test_what_is_no_file_is_refused_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "a.html").write_bytes(b"<title>T</title>")
    with (tmp_path / "huge.html").open("wb") as huge:
        huge.write(b"<title>Huge</title><a href=/x>x</a>")
        huge.truncate(40 * 1024**3)  # sparse: nobody's memory could hold it
    paths = ["pipe", "/dev/zero", ".", "huge.html", "a.html"]
    requests = "".join(json.dumps({"html_path": path, "url": "https://site.example/"}) + "\n" for path in paths)
    answers = lines(run("parse", "--jsonl", "-", cwd=tmp_path, stdin=requests))
    assert [answer.get("error") for answer in answers] == [
        *(f"{path} cannot be read: it is not a regular file" for path in paths[:3]),
        None,
        None,
    ]
    assert (answers[3]["page"]["title"], answers[3]["page"]["is_truncated"]) == ("Huge", True)
    assert (answers[4]["page"]["title"], answers[4]["page"]["is_truncated"]) == ("T", False)


def test_an_answer_is_there_before_the_next_question(tmp_path: Path) -> None:
    """A program may ask one by one, over pipes, which are buffered."""
    (tmp_path / "a.html").write_bytes(b"<title>T</title>")
    for command, request in (
        ("url", {"url": "http://a.example/"}),
        ("robots", {"robots": "", "agent": "x", "url": "/"}),
        ("parse", {"html_path": "a.html", "url": "http://a.example/"}),
        ("fetch", {"url": "http://127.0.0.1/"}),
    ):
        with subprocess.Popen(
            [*COMMAND, command, "--jsonl", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=tmp_path,
            env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            for _ in range(2):
                process.stdin.write(json.dumps(request).encode() + b"\n")
                process.stdin.flush()
                assert select.select([process.stdout], [], [], 60)[0], f"{command}: no answer before the end of stdin"
                assert "error" not in json.loads(process.stdout.readline())
            process.stdin.close()
            assert process.wait(60) == 0


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [*COMMAND, "url", "--jsonl", "-"], input='{"url": "http://a.example/"}\n', stdout=full, stderr=subprocess.PIPE,
            text=True, cwd=tmp_path, timeout=120, check=False, env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == "backlinks: the answers cannot be written: No space left on device.\n"


def test_a_closed_stream_is_one_sentence(tmp_path: Path) -> None:
    for redirection, name in (("<&-", "stdin"), (">&-", "stdout")):
        result = subprocess.run(
            ["sh", "-c", f'exec "$@" {redirection}', "sh", *COMMAND, "url", "--jsonl", "-"],
            input='{"url": "http://a.example/"}\n', stderr=subprocess.PIPE, text=True, cwd=tmp_path, timeout=120,
            check=False, env={"PYTHONPATH": str(REPOSITORY), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert result.returncode == 1
        assert result.stderr == f"backlinks: {name} is closed.\n"


def test_for_a_person(tmp_path: Path) -> None:
    shown = run("url", "http://me.github.io/", cwd=tmp_path)
    assert shown.returncode == 0
    assert "me.github.io" in shown.stdout
    assert run("url", "mailto:x", cwd=tmp_path).returncode == 3
    table = run(
        "parse",
        "-",
        "--url",
        "https://site.example/",
        "--header",
        "X-Robots-Tag: none",
        cwd=tmp_path,
        stdin="<a href=x>anchor</a>",
    )
    assert table.returncode == 0, table.stderr
    assert "nofollow_header" in table.stdout
    missing = run("parse", "absent.html", "--url", "https://site.example/", cwd=tmp_path)
    assert missing.returncode == 1
    assert missing.stderr.strip() == "backlinks: absent.html cannot be read: No such file or directory."
