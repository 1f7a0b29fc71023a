"""The command line in a real process: exit codes, one paragraph on stderr, Ctrl-C."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flows.cli import app
from pipeline.errors import ConfigError
from storage.dataset import read_labels
from storage.journal import read_rollouts
from storage.lock import dataset_lock
from tests.tiny_models import byte_tokenizer, save_tiny_llama

STOPPED = (
    "stepmark: stopped. Sampled rollouts are kept, a PRM in training only to its last checkpoint "
    "(train.save_steps); run the same command again to go on.\n"
)
COMMAND = [sys.executable, "-c", "from flows.cli import main; main()"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "COLUMNS": "100"}
CONFIG = """
[problems]
limit = 400
[engine]
kind = "scripted"
[steps]
method = "newline"
"""


def stepmark(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
        env=ENVIRONMENT,
        timeout=60,
    )


def check_error(done: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    (message,) = done.stderr.splitlines()
    assert message.startswith("stepmark: ")
    for word in words:
        assert word in message


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("config") / "run.toml"
    file.write_text(CONFIG)
    return file


@pytest.fixture(scope="module")
def dataset(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "data [red]"
    done = stepmark("generate", "--config", config, "--out", out, "--set", "problems.limit=5")
    assert done.returncode == 0, done.stderr
    assert "labelled solutions" in done.stdout
    assert "data [red]" in done.stdout.replace("\n", "")
    return out


def test_show_prints_the_heat_map(dataset: Path) -> None:
    done = stepmark("show", dataset, "--problem", "demo-train-000001", "--limit", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("demo-train-000001") == 2
    assert "← first error" in done.stdout
    assert "graded rollouts a step" in done.stdout


def test_a_met_budget_is_said_in_the_summary(config: Path, tmp_path: Path) -> None:
    budget = ("--set", "allocation.budget.rollouts=60", "--set", "problems.limit=5")
    done = stepmark("generate", "--config", config, "--out", tmp_path, *budget)
    assert (done.returncode, done.stderr) == (0, "")
    summary = " ".join(done.stdout.split())
    assert "The budget was met: 60 rollouts and " in summary
    assert " of 5 problems are short of what the policy asks for" in summary
    assert "generated tokens per label" in summary


def test_a_prm_folder_is_no_dataset_and_stays_whole(config: Path, tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "llama", "stepmark": {}}')
    for arguments in (
        ("generate", "--config", config, "--out", tmp_path),
        ("plan", "--config", config, "--out", tmp_path),
        ("train", tmp_path, "--out", tmp_path / "prm"),
        ("show", tmp_path),
        ("verify", tmp_path),
    ):
        error = CliRunner().invoke(app, [str(one) for one in arguments]).exception
        assert isinstance(error, ConfigError), arguments
        assert f"{tmp_path} is a PRM that `stepmark train` wrote, not a dataset" in str(error)
    assert file.read_text() == '{"model_type": "llama", "stepmark": {}}'
    assert {path.name for path in tmp_path.iterdir()} <= {"config.json", ".lock"}


def test_the_hubs_own_warnings_are_not_shown() -> None:
    said = (
        "from flows.cli import options; options(); import datasets, huggingface_hub;"
        "[module.utils.logging.get_logger(f'{module.__name__}.x').warning('no network')"
        " for module in (datasets, huggingface_hub)]"
    )
    done = subprocess.run([sys.executable, "-c", said], capture_output=True, check=True, text=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_help_teaches() -> None:
    done = stepmark("--help")
    assert done.returncode == 0
    for word in ("stepmark generate --config", "train", "evaluate", "show", "grade", "demo"):
        assert word in done.stdout
    for command in ("generate", "train", "evaluate", "show", "grade", "demo"):
        shown = CliRunner().invoke(app, [command, "-h"])
        assert (shown.exit_code, "Usage" in shown.output) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generat",), "No such command 'generat'"),
        (("generate",), "Missing option '--config'"),
        (("show", "x", "--limit", "0"), "Invalid value for '--limit'"),
    ],
)
def test_bad_usage_is_2(arguments: tuple[str, ...], words: str) -> None:
    check_error(stepmark(*arguments), 2, words, "See `stepmark --help`.")


def test_a_bare_command_shows_the_help() -> None:
    done = stepmark()
    assert done.returncode == 2
    assert "generate" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_bad_configs_are_2(config: Path, tmp_path: Path) -> None:
    def generate(file: object, *more: object) -> subprocess.CompletedProcess[str]:
        return stepmark("generate", "--config", file, "--out", tmp_path / "out", *more)

    check_error(generate(tmp_path / "none.toml"), 2, "there is no config file", "none.toml")
    check_error(generate(tmp_path), 2, "cannot be read", "Is a directory")
    limit = generate(config, "--set", "problems.limit=abc")
    check_error(limit, 2, "run.toml: problems.limit = 'abc': Input should be a valid integer")
    check_error(generate(config, "--set", "problems.limt=1"), 2, "did you mean limit?")
    check_error(
        stepmark("generate", "--config", config, "--out", "hf://x/y"), 2, "is no place for a"
    )
    assert not (tmp_path / "out").exists()


def test_what_is_missing_or_broken_is_1_and_named(
    config: Path, dataset: Path, tmp_path: Path
) -> None:
    check_error(stepmark("show", tmp_path / "none"), 1, "none has no labels; run")
    check_error(stepmark("show", dataset, "--problem", "p-7"), 2, "of the problem 'p-7'")
    check_error(
        stepmark("generate", "-c", config, "--out", config / "x"), 1, "run.toml/x cannot be"
    )
    check_error(stepmark("train", tmp_path / "none", "--out", tmp_path / "m"), 2, "config.json")
    grade = stepmark("grade", "--input", tmp_path / "none", "--output", tmp_path / "o")
    check_error(grade, 2, "none: there is no such file")
    broken = tmp_path / "labels" / "train-00000-of-00001.parquet"
    broken.parent.mkdir()
    broken.write_bytes(b"PAR1")
    check_error(stepmark("show", tmp_path), 1, str(broken), "cannot be read as Parquet")


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    done = stepmark("--debug", "show", tmp_path)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    assert "has no labels" in done.stderr


def test_a_locked_dataset_names_the_holder(config: Path, tmp_path: Path) -> None:
    with dataset_lock(tmp_path):
        done = stepmark("generate", "--config", config, "--out", tmp_path)
    check_error(done, 1, f"is in use by process {os.getpid()}", "wait for that run to end")


def start(config: Path, out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "generate", "--config", str(config), "--out", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT,
    )  # fmt: skip


def stop(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    started = time.monotonic()
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - started < 30
    assert process.returncode == 130, errors
    assert errors.endswith(STOPPED)
    assert "Traceback" not in errors


def test_a_stopped_run_says_how_to_go_on_and_does(config: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start(config, out)
    while process.poll() is None and not list(out.glob("rollouts/part-*")):
        time.sleep(0.01)
    stop(process, signal.SIGINT)
    assert len(read_rollouts(out)) > 0
    done = stepmark("generate", "--config", config, "--out", out, "--set", "problems.limit=20")
    assert done.returncode == 0
    assert len(read_labels(out)) == 80


def test_ctrl_c_is_quick_while_an_engine_loads(tmp_path: Path) -> None:
    model = save_tiny_llama(tmp_path / "model", byte_tokenizer())
    file = tmp_path / "run.toml"
    file.write_text(f'[model]\nname = "{model}"\n[engine]\nkind = "transformers"\n')
    out = tmp_path / "out"
    stops = [(0.0, signal.SIGINT), (0.7, signal.SIGTERM), (1.4, signal.SIGINT)]
    for delay, number in stops:
        process = start(file, out)
        while process.poll() is None and not (out / "selection.json").exists():
            time.sleep(0.01)
        time.sleep(delay)
        stop(process, number)
        (out / "selection.json").unlink()


def test_sigterm_stops_a_background_job_that_ignores_sigint(config: Path, tmp_path: Path) -> None:
    arguments = ("generate", "--config", config, "--out", tmp_path, "--set", "problems.limit=9000")
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"', *COMMAND, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=ENVIRONMENT,
    )
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("rollouts/*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.terminate()
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, STOPPED)


def test_a_refused_run_changes_neither_config_nor_selection(dataset: Path, config: Path) -> None:
    before = {name: (dataset / name).read_bytes() for name in ("config.json", "selection.json")}
    odd = ["--set", "problems.source=/nonexistent.jsonl", "--set", "labels.hard_threshold=0.5"]
    check_error(stepmark("generate", "--config", config, "--out", dataset, *odd), 2, "nonexistent")
    assert {name: (dataset / name).read_bytes() for name in before} == before


def test_another_policy_in_between_changes_no_label(config: Path, tmp_path: Path) -> None:
    def generate(*more: str) -> bytes:
        arguments = ("--config", config, "--out", tmp_path, "--set", "problems.limit=4")
        done = stepmark("generate", *arguments, *(x for one in more for x in ("--set", one)))
        assert done.returncode == 0, done.stderr
        return (tmp_path / "labels" / "train-00000-of-00001.parquet").read_bytes()

    first = generate()
    assert generate("allocation.policy=fixed", "allocation.num_rollouts=40") != first
    assert generate() == first


def graded(tmp_path: Path, rows: Iterable[dict[str, object]]) -> Path:
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return source


def test_grade_summarises_by_verdict_reason_and_rule(tmp_path: Path) -> None:
    rows = [{"id": n, "gold": "8", "prediction": f"So \\boxed{{{n}}}"} for n in range(10)]
    rows.append({"id": "bare", "gold": "8", "prediction": "", "form": "answer"})
    done = stepmark("grade", "--input", graded(tmp_path, rows), "--output", tmp_path / "out.jsonl")
    assert (done.returncode, done.stderr) == (0, "")
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stdout.splitlines()]
    assert ["✓ correct", "", "1", "9.1"] in cells
    assert ["✗ incorrect", "", "10", "90.9"] in cells
    assert ["", "no-answer", "1", "9.1"] in cells
    assert ["? undecided", "", "0", "0.0"] in cells
    assert "Answers found by rule: boxed 10, bare 1." in done.stdout
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 11


def test_grade_into_standard_output_keeps_the_rows_apart(tmp_path: Path) -> None:
    source = graded(tmp_path, [{"id": 1, "gold": "8", "prediction": "It is 8."}])
    done = stepmark("grade", "--input", source, "--output", "/dev/stdout", "--workers", 2)
    assert done.returncode == 0
    assert json.loads(done.stdout)["verdict"] == "correct"
    assert "1 graded" in done.stderr


def test_grade_names_the_bad_line(tmp_path: Path) -> None:
    source = graded(tmp_path, [{"id": 1, "gold": "8", "prediction": "8"}, {"id": 2, "gold": "8"}])
    done = stepmark("grade", "--input", source, "--output", tmp_path / "out.jsonl")
    check_error(done, 2, "in.jsonl, line 2: ", "`prediction`")
    assert not (tmp_path / "out.jsonl").exists()


def test_interrupted_grade_leaves_the_output_as_it_was(tmp_path: Path) -> None:
    rows = ({"id": n, "gold": str(n), "prediction": f"It is {n}. " * 400} for n in range(10_000))
    source, target = graded(tmp_path, rows), tmp_path / "out.jsonl"
    target.write_text("old")
    process = subprocess.Popen(
        [*COMMAND, "grade", "--input", source, "--output", target],
        env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list(tmp_path.glob(".out.jsonl.*.tmp")):  # grading has begun
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (130, "")
    assert stderr == f"stepmark: stopped. {target} is as it was; run the same command again\n"
    assert target.read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl", "out.jsonl"]
