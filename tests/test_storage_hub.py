"""Hub datasets and their folders, read by `datasets` in a process of its own from a stand-in Hub.

The endpoint and the caches are fixed when `datasets` is imported: hence the process.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hub_server import HubServer, hub_server

ROOT = Path(__file__).parents[1]

READER = """
import dataclasses, json, sys
import datasets
from grading.grade import ungradable_reason
from pipeline.errors import StepmarkError
from storage.problem_config import ProblemsConfig
from storage.problems import load_problems

for line in sys.stdin:
    settings = json.loads(line)
    if settings.pop("is_cached_before"):
        datasets.load_dataset(settings["source"], settings["hub_config"])
    try:
        loaded = load_problems(ProblemsConfig(**settings), ungradable_reason=ungradable_reason)
        answer = dataclasses.asdict(loaded)
    except StepmarkError as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer), flush=True)
"""

CARD = """---
configs:
- config_name: main
  data_files:
  - {split: train, path: main/train-*}
  - {split: test, path: main/test-*}
- config_name: socratic
  data_files:
  - {split: test, path: socratic/test-*}
---
"""

PINNED, NEWEST = "old", "new"
Load = Callable[..., dict[str, Any]]


@dataclass(frozen=True)
class Hub:
    server: HubServer
    load: Load
    commits: dict[str, str]
    folder: Path
    """What the newest commit holds."""


def gsm8k(folder: Path, word: str) -> Path:
    """A dataset of two configs as the Hub lays it out; `word` is in its questions."""
    folder.mkdir()
    (folder / "README.md").write_text(CARD)
    for config, split in (("main", "train"), ("main", "test"), ("socratic", "test")):
        (folder / config).mkdir(exist_ok=True)
        for shard, golds in enumerate([["1", "1,200"], [None, "3"]]):
            table = pa.table(
                {
                    "question": [f"{word} {config} {split} {shard}{row}" for row in range(2)],
                    "answer": [gold and f"so it is\n#### {gold}" for gold in golds],
                }
            )
            pq.write_table(table, folder / config / f"{split}-0000{shard}-of-00002.parquet")
    return folder


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    home = tmp_path_factory.mktemp("hub")
    with hub_server() as server, (home / "stderr").open("w") as stderr:
        folders = {word: gsm8k(home / word, word) for word in (PINNED, NEWEST)}
        commits = {
            word: server.commit("org/gsm8k", folder, tag=f"tag-{word}")
            for word, folder in folders.items()
        }
        process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", READER],
            cwd=ROOT,
            env=server.environment(home / "home"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )

        def load(
            source: str, *, is_cached_before: bool = False, **settings: object
        ) -> dict[str, Any]:
            given = {"preset": "gsm8k", "hub_config": "main", "split": "test", **settings}
            given["is_cached_before"] = is_cached_before
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps({"source": source, **given}) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
            assert answer, (home / "stderr").read_text()
            return json.loads(answer)

        with process:
            yield Hub(server, load, commits, folders[NEWEST])
        assert process.returncode == 0
        assert server.refused == []  # nothing was asked of another host


def questions(loaded: dict[str, Any]) -> list[str]:
    return [problem["question"] for problem in loaded.get("problems", [])]


def error(loaded: dict[str, Any]) -> str:
    assert "error" in loaded, loaded
    assert "\n" not in loaded["error"]
    return loaded["error"]


def test_a_hub_dataset(hub: Hub) -> None:
    loaded = hub.load("org/gsm8k")
    assert questions(loaded) == ["new main test 00", "new main test 01", "new main test 11"]
    assert [problem["gold_answer"] for problem in loaded["problems"]] == ["1", "1200", "3"]
    assert {(one["source"], one["split"]) for one in loaded["problems"]} == {("org/gsm8k", "test")}
    assert loaded["rejections"] == [{"row": 3, "reason": "no gold answer"}]
    train = hub.load("org/gsm8k", split="train", limit=1)
    assert questions(train) == ["new main train 00"]
    window = hub.load("org/gsm8k", hub_config="socratic", start=1, limit=2)
    assert questions(window) == ["new socratic test 01"]
    assert window["rejections"] == [{"row": 3, "reason": "no gold answer"}]


def test_a_problem_has_one_id_wherever_it_is_read(hub: Hub, tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    file.write_text(json.dumps({"question": "new main test 00", "answer": "#### 1"}))
    ids = [problem["problem_id"] for problem in hub.load("org/gsm8k")["problems"]]
    assert len(set(ids)) == 3
    assert [problem["problem_id"] for problem in hub.load(str(file))["problems"]] == ids[:1]
    named = hub.load("org/gsm8k", id_column="question", limit=1)
    assert named["problems"][0]["problem_id"] == "new main test 00"


@pytest.mark.parametrize("word", [PINNED, NEWEST])
def test_a_revision_is_a_commit_or_a_tag(hub: Hub, word: str) -> None:
    for revision in (hub.commits[word], f"tag-{word}"):
        loaded = hub.load("org/gsm8k", hub_revision=revision, limit=1)
        assert questions(loaded) == [f"{word} main test 00"]


def test_a_pinned_revision_is_never_replaced_by_a_cached_one(hub: Hub) -> None:
    """`datasets` takes the newest of its cache where the Hub has not got what is asked for."""
    hub.server.commit("org/withdrawn", hub.folder, tag="v1")
    newest = hub.commits[NEWEST]
    assert len(hub.load("org/withdrawn")["problems"]) == 3
    del hub.server.datasets["org/withdrawn"]
    assert len(hub.load("org/withdrawn", hub_revision=newest)["problems"]) == 3
    for revision in (hub.commits[PINNED], "v1", "main"):
        text = error(hub.load("org/withdrawn", hub_revision=revision))
        assert text.startswith(f"ConfigError: problems.hub_revision = {revision!r} of 'org/with")
        assert f"the cache is commit {newest}" in text


@pytest.mark.parametrize(
    ("source", "settings", "words"),
    [
        ("org/none", {}, ["'org/none'", "doesn't exist on the Hub or cannot be accessed"]),
        ("org/gsm8k", {"split": "dev"}, ['Unknown split "dev"', "['train', 'test']"]),
        ("org/gsm8k", {"hub_config": "x"}, ["'x' not found", "['main', 'socratic']"]),
        ("org/gsm8k", {"hub_config": None}, ["Config name is missing", "['main', 'socratic']"]),
        ("org/gsm8k", {"hub_revision": "v9"}, ["Revision 'v9' doesn't exist"]),
        ("no/such/file", {}, ["'no/such/file'", "Couldn't find any data file"]),
        ("parquet", {}, ["'parquet' is neither a file nor a folder here", "OWNER/NAME"]),
    ],
)
def test_what_the_hub_does_not_have_is_a_config_error(
    hub: Hub, source: str, settings: dict[str, object], words: list[str]
) -> None:
    text = error(hub.load(source, **settings))
    assert text.startswith("ConfigError: problems.source = ")
    for word in words:
        assert word in text
    assert len(text) < 500


def test_a_wrong_column_names_those_there_are(hub: Hub) -> None:
    text = error(hub.load("org/gsm8k", question_column="problem"))
    assert text.startswith("ConfigError: org/gsm8k has no column 'problem'; it has answer, ques")


def test_a_folder(hub: Hub, tmp_path: Path) -> None:
    from_hub = hub.load("org/gsm8k")
    folder = shutil.copytree(hub.folder, tmp_path / "clone.parquet")
    loaded = hub.load(str(folder))
    assert [one.pop("source") for one in loaded["problems"]] == ["clone.parquet"] * 3
    assert [one.pop("source") for one in from_hub["problems"]] == ["org/gsm8k"] * 3
    assert loaded == from_hub


def test_a_changed_folder_is_read_anew(hub: Hub, tmp_path: Path) -> None:
    """`datasets` would give what it cached of the files of these names."""
    file = tmp_path / "data.parquet"
    (tmp_path / "README.md").write_text(
        "---\n"
        "configs: [{config_name: main, data_files: [{split: test, path: data.parquet}]}]\n"
        "---\n"
    )
    for column, is_cached in (("question", True), ("text", False)):
        pq.write_table(pa.table({column: [f"the {column}"], "answer": ["#### 7"]}), file)
        loaded = hub.load(str(tmp_path), is_cached_before=is_cached, question_column=column)
        assert questions(loaded) == [f"the {column}"]
    file.write_bytes(file.read_bytes()[:-9])
    assert "folder of data files" in error(hub.load(str(tmp_path)))


def test_a_folder_of_files_without_a_card(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "test.jsonl").write_text('{"question": "q", "answer": 5}\n')
    loaded = hub.load(str(tmp_path), preset=None, hub_config=None)
    assert [one["gold_answer"] for one in loaded["problems"]] == ["5"]


def test_folders_that_cannot_be_read_are_config_errors(hub: Hub, tmp_path: Path) -> None:
    text = error(hub.load(str(tmp_path)))
    assert (
        "cannot be read as a folder of data files; check it and problems.hub_config, split" in text
    )
    assert "doesn't contain any data files" in text
    assert "'main', 'socratic'" in error(hub.load(str(hub.folder), hub_config="x"))
    assert "Bad split: dev. Available splits: ['train', 'test']" in error(
        hub.load(str(hub.folder), split="dev")
    )
    pinned = error(hub.load(str(hub.folder), hub_revision="v1"))
    assert "is a folder here, and problems.hub_revision = 'v1' is only for the Hub" in pinned
    (tmp_path / "state.json").write_text("{}")
    assert "was written by save_to_disk" in error(hub.load(str(tmp_path)))
