"""Publishing to a stand-in Hub by its real client, and loading what was published."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import ConfigError
from tests.hub_writes import RefusedError
from tests.publish_writer import solution, write_labels, write_rollouts
from tests.published_hub import REPO, ROOT, TOKEN, WARNINGS, PublishedHub, order, published_hub

LOADER = """
import json, sys
from datasets import load_dataset

repo = sys.argv[1]
found = {"labels": load_dataset(repo)["train"].to_list()}
for config in ("labels", "trl", "rollouts"):
    for split in ("test", "train"):
        rows = load_dataset(repo, config, split=split)
        streamed = list(load_dataset(repo, config, split=split, streaming=True))
        assert streamed == rows.to_list(), (config, split)
        found[f"{config} {split}"] = streamed
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PublishedHub]:
    with published_hub(tmp_path_factory.mktemp("hub")) as found:
        yield found


@pytest.fixture(autouse=True)
def _quiet(hub: PublishedHub) -> Iterator[None]:
    yield
    hub.server.on_request = lambda phase, command, path: None


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return labelled(tmp_path / "dataset", 8)


def labelled(path: Path, count: int, **changes: Any) -> Path:
    write_labels(path, [solution(index, **changes) for index in range(count)])
    return path


def failing(hub: PublishedHub, name: str, *statuses: HTTPStatus, command: str = "POST") -> None:
    """The next requests whose address has `name` are refused, by turns."""
    left = list(statuses)

    def refuse(phase: str, given: str, path: str) -> None:
        if phase == "before" and given == command and name in path and left:
            raise RefusedError(left.pop(0), "", f"not today, Bearer {TOKEN}")

    hub.server.on_request = refuse


def test_what_is_published_can_be_loaded(hub: PublishedHub, tmp_path: Path) -> None:
    path, repo = tmp_path / "dataset", "org/loaded"
    solutions = [solution(index) for index in range(5)]
    tests = [solution(index, split="test") for index in range(5, 7)]
    write_rollouts(path, [*solutions, *tests])
    write_labels(path, [*solutions, *tests])
    hub.publish(path, repo=repo, settings={"with_rollouts": True})
    loaded = subprocess.run(
        [sys.executable, *WARNINGS, "-c", LOADER, repo],
        cwd=ROOT,
        env={**hub.server.environment(tmp_path / "cache"), "HF_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        check=False,
    )
    assert loaded.returncode == 0, loaded.stderr
    found = json.loads(loaded.stdout)
    train = found["labels train"]
    assert found["labels"] == train
    assert [row["solution_id"] for row in train] == ["s0", "s1", "s2", "s3", "s4"]
    assert train[1]["steps"] == ["a1", "\nb", "\nThe answer is 1."]
    assert train[1]["num_correct"] == [5, 0, 1]
    assert train[1]["mc_value"] == [pytest.approx(5 / 9), None, 1.0]
    assert [row["solution_id"] for row in found["labels test"]] == ["s5", "s6"]
    assert found["trl train"][0] == {
        "prompt": "What is 0+1?",
        "completions": ["a0"],
        "labels": [True],
    }
    rollouts = found["rollouts test"]
    assert [(row["problem_id"], row["rollout_index"]) for row in rollouts] == [
        (one.problem.problem_id, index) for one in tests for index in range(3)
    ]
    assert "created_at" not in rollouts[0]


def test_a_publish_is_one_private_commit_with_a_tag(hub: PublishedHub, dataset: Path) -> None:
    report = hub.publish(dataset)
    assert hub.writes.is_private[REPO] is True
    assert len(hub.writes.history[REPO]) == 2  # the Hub's own first one, and ours
    assert hub.writes.tags[REPO] == {report["tag"]: report["commit"]}
    assert sorted(hub.files()) == [
        ".gitattributes", "README.md", "data/train-00000-of-00001.parquet",
        "trl/train-00000-of-00001.parquet",
    ]  # fmt: skip
    assert hub.files()["README.md"].decode() == report["card"]
    record = json.loads((dataset / "published.json").read_text())["repos"][REPO]
    assert (record["commit"], record["tag"], record["snapshot"]) == (
        report["commit"], report["tag"], "000001",
    )  # fmt: skip
    assert set(record["files"]) == {change["name"] for change in report["files"]}

    again = hub.publish(dataset)
    assert again["is_new"] is False
    assert (again["commit"], again["tag"]) == (report["commit"], report["tag"])
    assert len(hub.writes.history[REPO]) == 2


def test_changed_labels_replace_the_old_ones(hub: PublishedHub, dataset: Path) -> None:
    repo = "org/changed"
    write_labels(dataset, [solution(0, split="test"), *(solution(i) for i in range(1, 6))])
    first = hub.publish(dataset, repo=repo)
    card = hub.writes.folder(repo) / "README.md"
    mine = "## Mine\n\n<b>anything</b>\n"
    before, mark, after = card.read_text().partition("is yours and stays -->\n")
    card.write_text(before + mark + mine + after.removeprefix("\n"))
    write_labels(dataset, [solution(index, num_correct=6) for index in range(6)])
    second = hub.publish(dataset, repo=repo, settings={"gates": {"max_drift": 0.5}})
    assert second["added"] == [
        "data/train-00000-of-00001.parquet", "trl/train-00000-of-00001.parquet", "README.md",
    ]  # fmt: skip
    assert second["deleted"] == [
        "data/test-00000-of-00001.parquet", "trl/test-00000-of-00001.parquet",
    ]  # fmt: skip
    assert second["tag"] == first["tag"] + "-2"
    assert mark + mine in hub.files(repo)["README.md"].decode()
    table = pq.read_table(hub.writes.folder(repo) / "data" / "train-00000-of-00001.parquet")
    assert table.column("num_correct").to_pylist() == [[6, 0, 1]] * 6
    assert b"huggingface" in table.schema.metadata


@pytest.mark.parametrize(("is_private", "option"), [(True, "--private"), (False, "--public")])
def test_a_repo_of_the_other_visibility_is_refused(
    hub: PublishedHub, dataset: Path, *, is_private: bool, option: str
) -> None:
    repo = f"org/visible{option[1:]}"
    hub.publish(dataset, repo=repo, settings={"private": is_private})
    before = hub.files(repo)
    write_labels(dataset, [solution(9)])
    settings = {"private": not is_private, "gates": {"max_drift": 1}}
    answer = hub.publish(dataset, repo=repo, settings=settings)
    assert answer["error"].startswith(f"ConfigError: {repo} is p")
    assert f"publish with {option}" in answer["error"]
    assert hub.files(repo) == before


def test_data_of_another_program_is_left_alone(hub: PublishedHub, dataset: Path) -> None:
    repo = "org/theirs"
    hub.publish(dataset, repo=repo)
    (hub.writes.folder(repo) / "README.md").write_text("# Precious\n")
    before = hub.files(repo)
    answer = hub.publish(dataset, repo=repo)
    assert "has not put there" in answer["error"]
    assert hub.files(repo) == before


def test_of_two_publishers_both_win_in_turn(
    hub: PublishedHub, dataset: Path, tmp_path: Path
) -> None:
    repo = "org/raced"
    hub.publish(dataset, repo=repo)
    others = [labelled(tmp_path / "one", 3), labelled(tmp_path / "two", 4, num_correct=3)]
    both_are_there = threading.Barrier(2, timeout=30)
    num_commits = 0

    def meet(phase: str, command: str, path: str) -> None:
        nonlocal num_commits
        if phase == "before" and "/commit/" in path:
            num_commits += 1
            if num_commits <= 2:
                both_are_there.wait()

    hub.server.on_request = meet
    hub.start(*(order(path, repo=repo) for path in others))
    reports = [answer["report"] for answer in hub.wait()]
    assert num_commits == 3  # one was refused and looked again
    history = hub.writes.history[repo]
    assert {report["commit"] for report in reports} == set(history[2:])
    tags = hub.writes.tags[repo]
    assert {tags[report["tag"]] for report in reports} == set(history[2:])
    last = next(report for report in reports if report["commit"] == history[-1])
    folder = others[reports.index(last)]
    published = json.loads((folder / "published.json").read_text())["repos"][repo]
    assert {name for name in hub.files(repo) if name.endswith("parquet")} == set(published["files"])
    assert hub.files(repo)["README.md"].decode() == last["card"]


def test_faults_that_pass_are_met_with_patience(hub: PublishedHub, dataset: Path) -> None:
    repo = "org/faulty"
    failing(hub, "/commit/", HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.PRECONDITION_FAILED)
    assert hub.publish(dataset, repo=repo)["is_new"] is True
    assert len(hub.writes.history[repo]) == 2


def test_a_commit_whose_answer_is_lost_is_found(hub: PublishedHub, dataset: Path) -> None:
    repo = "org/lost"

    def lose(phase: str, command: str, path: str) -> None:
        if phase == "after" and "/commit/" in path:
            raise ConnectionError

    hub.server.on_request = lose
    report = hub.publish(dataset, repo=repo)
    assert report["is_new"] is True
    assert hub.writes.history[repo][1:] == [report["commit"]]
    assert hub.writes.tags[repo] == {report["tag"]: report["commit"]}


def test_a_hub_that_cannot_be_reached(hub: PublishedHub, dataset: Path) -> None:
    def hang_up(phase: str, command: str, path: str) -> None:
        raise ConnectionError

    hub.server.on_request = hang_up
    answer = hub.publish(dataset, repo="org/unreached", settings={"patience_seconds": 0.1})
    assert answer["error"].startswith(
        "HubError: org/unreached was not published: the Hub cannot be reached (RemoteProtocolError"
    )
    assert "nothing here is lost: run the same command again" in answer["error"]


@pytest.mark.parametrize(
    ("status", "kind", "words"),
    [
        (HTTPStatus.UNAUTHORIZED, "ConfigError", "hf auth login"),
        (HTTPStatus.FORBIDDEN, "ConfigError", "may write to datasets of org"),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "HubError", "the Hub answered 500"),
    ],
)
def test_the_token_is_nowhere(
    hub: PublishedHub, dataset: Path, tmp_path: Path, status: HTTPStatus, kind: str, words: str
) -> None:
    repo = f"org/refused{int(status)}"
    failing(hub, "/commit/", *[status] * 9)
    answer = hub.publish(dataset, repo=repo, settings={"patience_seconds": 0.1})
    assert answer["error"].startswith(f"{kind}: {repo} was not published: ")
    assert words in answer["error"]
    assert not (dataset / "published.json").exists()
    texts = [json.dumps(answer), *map(_text, tmp_path.rglob("*")), *map(_text, hub.home.rglob("*"))]
    assert len(texts) > 10
    assert [text for text in texts if TOKEN in text] == []


def _text(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace") if file.is_file() else ""


@pytest.mark.parametrize(
    ("token", "words"), [("", "there is no token"), ("hf_\x01a", "has charac")]
)
def test_a_missing_or_broken_token(
    hub: PublishedHub, dataset: Path, token: str, words: str
) -> None:
    answer = hub.publish(dataset, repo="org/none", environment={"HF_TOKEN": token})
    assert words in answer["error"]
    assert "org/none" not in hub.server.datasets


def test_the_gates_refuse_with_all_reasons(hub: PublishedHub, dataset: Path) -> None:
    repo = "org/gated"
    hub.publish(dataset, repo=repo)
    before = hub.files(repo)
    labelled(dataset, 3, num_correct=1)
    settings = {"gates": {"min_labels": 7, "max_undecided_share": 0.05}}
    answer = hub.publish(dataset, repo=repo, settings=settings)
    assert answer["error"].startswith("GateError: ")
    for words in (
        "min_labels: 6 (asked for: at least 7)",
        "max_undecided_share: 0.0909 (asked for: at most 0.05)",
        "max_drift: 0.2222 over 37.5% of the labels published last (asked for: at most 0.1)",
        "--force passes them",
    ):
        assert words in answer["error"]
    assert "min_problems" not in answer["error"]
    assert hub.files(repo) == before
    file = next((dataset / "snapshots" / "000002").glob("*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:40] + b"!" + whole[41:])
    answer = hub.publish(dataset, repo=repo, settings=settings, force=True)
    assert "integrity: train-00000-of-00001.parquet is not what the manifest" in answer["error"]
    assert "--force" not in answer["error"]
    assert hub.files(repo) == before
    file.write_bytes(whole)
    assert hub.publish(dataset, repo=repo, settings=settings, force=True)["is_new"] is True


@pytest.mark.parametrize("split", ["A", "_x", "all"])
def test_a_split_that_could_not_be_loaded_is_refused(
    hub: PublishedHub, dataset: Path, split: str
) -> None:
    labelled(dataset, 2)
    write_labels(dataset, [solution(3, split=split)])
    answer = hub.publish(dataset, repo="org/split")
    assert f"a split must not be called '{split}'" in answer["error"]
    assert "org/split" not in hub.server.datasets


def test_labels_that_cannot_be_compared_are_not_let_pass(
    hub: PublishedHub, dataset: Path, tmp_path: Path
) -> None:
    repo = "org/compared"
    hub.publish(dataset, repo=repo)
    before = hub.files(repo)
    record = (dataset / "published.json").read_text()
    labelled(dataset, 8, step="other")
    answer = hub.publish(dataset, repo=repo)
    words = "max_drift: unknown: snapshot 000001, no label in common with what was published last"
    assert words in answer["error"]

    anew = labelled(tmp_path / "anew", 8, num_correct=1)  # its snapshot is 000001, too
    (anew / "published.json").write_text(record)
    answer = hub.publish(anew, repo=repo)
    assert "snapshot 000001, is not the one that was published: it was made" in answer["error"]
    assert hub.files(repo) == before

    same = labelled(tmp_path / "same", 8)
    (same / "published.json").write_text(record)
    assert hub.publish(same, repo=repo)["is_new"] is False


def test_the_snapshot_that_was_published_is_kept_for_the_next(
    hub: PublishedHub, dataset: Path
) -> None:
    hub.publish(dataset, repo="org/kept")
    for num_correct in range(4):  # of which two would be kept
        labelled(dataset, 4, num_correct=num_correct)
    assert sorted(one.name for one in (dataset / "snapshots").glob("0*")) == [
        "000001", "000004", "000005",
    ]  # fmt: skip


def test_a_dry_run_asks_nobody(hub: PublishedHub, dataset: Path) -> None:
    requests: list[str] = []
    hub.server.on_request = lambda phase, command, path: requests.append(path)
    report = hub.publish(dataset, repo="org/dry", dry_run=True, environment={"HF_TOKEN": ""})
    assert requests == []
    assert report["commit"] is None
    assert [(one["name"], one["change"]) for one in report["files"]] == [
        ("data/train-00000-of-00001.parquet", "new"), ("trl/train-00000-of-00001.parquet", "new"),
    ]  # fmt: skip
    assert report["card"].startswith("---\n")
    assert not (dataset / "published.json").exists()


def test_the_command(tmp_path: Path) -> None:
    path = labelled(tmp_path / "dataset", 8)
    (path / "config.json").write_text('{"publish": {"repo": "org/own", "license": "mit"}}')
    file = tmp_path / "report.json"
    shown = CliRunner().invoke(
        app, ["publish", str(path), "--dry-run", "--public", "--json", str(file),
              "--set", "publish.gates.min_problems=9"],
    )  # fmt: skip
    assert shown.exit_code == 0, shown.output
    for words in (
        "would go to the public repo org/own. The Hub was not asked",
        "It would be refused: min_problems.",
        "license: mit",
    ):
        assert words in shown.output
    report = json.loads(file.read_text())
    assert (report["repo"], report["private"], report["commit"]) == ("org/own", False, None)
    refused = CliRunner().invoke(app, ["publish", str(path), "--repo", "own"])
    assert isinstance(refused.exception, ConfigError)
    assert "--repo 'own'" in str(refused.exception)
