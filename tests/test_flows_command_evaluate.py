"""`stepmark evaluate` from the command line, with an untrained PRM on the demo's base model."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import Result
from rich.console import Console
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from flows.cli import app
from flows.evaluation_display import (
    comparison_table,
    reliability_table,
    search_table,
    step_sentences,
    step_table,
)
from flows.evaluation_plots import write_search_plots, write_step_plots
from flows.run_config import load_config
from flows.stages import generate
from grading.verdict import Verdict
from pipeline.errors import ConfigError, DataError
from search.best_of_n import Candidate, ProblemCandidates
from search.evaluate import SearchReport, accuracy_against_n
from search.known_steps import KnownSolution, KnownSteps, Truth
from search.scoring import Aggregation, ScorerRole
from search.step_report import StepReport, step_report
from train.config import Objective, TrainConfig
from train.model import load_base

CONFIG = """
[problems]
limit = 8
[engine]
kind = "scripted"
[steps]
method = "newline"
[allocation]
solutions_per_problem = 2
[evaluate]
ns = [1, 2]
problems = { source = "demo", split = "test", limit = 6 }
"""


def save_prm(folder: Path, objective: Objective, *, seed: int = 0) -> Path:
    torch.manual_seed(seed)
    model, tokenizer = load_base(TrainConfig(base_model="demo", objective=objective))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with run.toml, a dataset, two PRMs, an ORM and a ProcessBench file."""
    folder = tmp_path_factory.mktemp("evaluate")
    (folder / "run.toml").write_text(CONFIG)
    config = load_config(folder / "run.toml")
    generate(config, folder / "dataset", on_progress=lambda _: None)
    save_prm(folder / "prm", Objective.PRM)
    save_prm(folder / "prm2", Objective.PRM, seed=1)
    save_prm(folder / "orm", Objective.ORM)
    rows = [
        {
            "id": f"gsm8k-{n}",
            "generator": "m\x1b[2J",
            "problem": f"How many are {n}? \x1b]0;owned\x07",
            "steps": ["[bold]1+1=2[/bold]", "2+2=5"],
            "final_answer_correct": n % 2 == 0,
            "label": -1 if n % 2 == 0 else 1,
        }
        for n in range(12)
    ]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "bench.jsonl").write_text(text + "nonsense\n")
    return folder


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["evaluate", *map(str, arguments)])


def refused(kind: type[Exception], *arguments: object) -> str:
    error = run(*arguments).exception
    assert isinstance(error, kind), error
    return str(error)


def strict_json(path: Path) -> Any:
    def fail(name: str) -> None:
        raise AssertionError(name)

    return json.loads(path.read_text(encoding="utf-8"), parse_constant=fail)


def test_everything_at_once(made: Path, tmp_path: Path) -> None:
    figures, plots = tmp_path / "figures.json", tmp_path / "plots"
    done = run(
        "--prm", made / "prm", "--compare", made / "prm2", "--orm", made / "orm",
        "--config", made / "run.toml", "--out", tmp_path / "candidates",
        "--dataset", made / "dataset", "--split", "train", "--processbench", made / "bench.jsonl",
        "--json", figures, "--plots", plots,
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    assert "\x1b" not in done.stdout
    content = strict_json(figures)
    assert content["inputs"]["prm"] == str(made / "prm")
    names = ["dataset", "dataset-exact", "processbench-bench", "candidates-exact"]
    assert [one["name"] for one in content["steps"]] == names
    labels, exact, bench, _ = content["steps"]
    assert [one["scorer"] for one in labels["scorers"]] == ["prm", "second-prm"]
    assert "mse_to_soft_labels" in labels["scorers"][0]["figures"]
    assert "mse_to_soft_labels" not in exact["scorers"][0]["figures"]
    assert (bench["num_solutions"], bench["notes"]) == (12, {"malformed rows": 1})
    assert bench["num_unknown_steps"] == 0
    assert {one["baseline"] for one in content["best_of_n"]["comparisons"]} == {
        "majority-vote", "orm", "second-prm",
    }  # fmt: skip
    files = {file.name for file in plots.iterdir()}
    stems = ["accuracy-against-n", *(f"reliability-{name}" for name in names)]
    assert files == {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")}
    for file in plots.glob("*.svg"):
        assert ET.parse(file).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert "owned" not in file.read_text()
    for file in plots.glob("*.png"):
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    for words in ("first-error F1", "Calibration of the PRM", "majority-vote", "ORM best-of-n"):
        assert words in " ".join(done.stdout.split())


def test_a_given_threshold_and_no_config(made: Path, tmp_path: Path) -> None:
    done = run(
        "--prm", made / "prm", "--processbench", made / "bench.jsonl", "--threshold", "0.25",
        "--json", tmp_path / "figures.json",
    )  # fmt: skip
    assert done.exit_code == 0, done.exception
    assert "threshold 0.25, as given; tested on all 12 problems" in " ".join(done.stdout.split())
    content = strict_json(tmp_path / "figures.json")
    assert content["best_of_n"] is None
    assert content["steps"][0]["scorers"][0]["threshold"]["held_out"]["num_problems"] == 0


def test_too_few_problems_to_choose_a_threshold(made: Path, tmp_path: Path) -> None:
    one = tmp_path / "one.jsonl"
    one.write_text((made / "bench.jsonl").read_text().splitlines()[1] + "\n")
    done = run("--prm", made / "prm", "--processbench", one, "--json", tmp_path / "figures.json")
    assert done.exit_code == 0, done.exception
    said = " ".join(done.stdout.split())
    assert "no threshold can be chosen" in said
    assert "give more problems, or --threshold" in said
    figures = strict_json(tmp_path / "figures.json")["steps"][0]["scorers"][0]["figures"]
    assert figures["first_error_f1"]["value"] is None
    assert figures["first_error_f1"]["reason"].startswith("no threshold can be chosen")
    assert figures["brier"]["value"] is not None


def test_bad_usage_is_said_before_anything_is_loaded(made: Path, tmp_path: Path) -> None:
    prm = ("--prm", made / "prm")
    some = (*prm, "--processbench", made / "bench.jsonl")
    assert "nothing to evaluate on" in refused(ConfigError, *prm)
    for bad in ("nan", "-0.1", "1.01", "inf"):
        assert f"--threshold {bad}" in refused(ConfigError, *some, "--threshold", bad)
    assert "--split" in refused(ConfigError, *some, "--split", "test")
    assert "--orm" in refused(ConfigError, *some, "--orm", made / "orm")
    assert "--out" in refused(ConfigError, *some, "--out", tmp_path)
    assert "--set" in refused(ConfigError, *some, "--set", "seed=1")
    missing = refused(ConfigError, *prm, "--processbench", tmp_path / "no.jsonl")
    assert "no.jsonl: there is no such file" in missing
    assert "no config file" in refused(ConfigError, *prm, "-c", tmp_path / "no.toml")
    unlabelled = refused(ConfigError, *prm, "--dataset", made / "prm")
    assert "is a PRM that `stepmark train` wrote, not a dataset" in unlabelled


def test_models_that_are_none_are_named(made: Path, tmp_path: Path) -> None:
    bench = ("--processbench", made / "bench.jsonl")
    assert str(tmp_path) in refused(DataError, "--prm", tmp_path, *bench)
    assert str(tmp_path) in refused(DataError, "--prm", made / "prm", "--compare", tmp_path, *bench)
    orm = refused(
        ConfigError, "--prm", made / "prm", "--orm", made / "prm2", "-c", made / "run.toml"
    )
    assert f"--orm {made / 'prm2'}: this model's aggregation is 'min', so it is a PRM" in orm


def test_a_prm_whose_weights_are_nan_is_named(made: Path, tmp_path: Path) -> None:
    broken = save_prm(tmp_path / "broken", Objective.PRM)
    weights = load_file(broken / "model.safetensors")
    weights["score.weight"] = torch.full_like(weights["score.weight"], float("nan"))
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    said = refused(DataError, "--prm", broken, "--processbench", made / "bench.jsonl")
    assert said.startswith(f"{broken} gives step 0 of a solution the score nan")


def test_steps_beyond_the_models_length_are_counted(made: Path, tmp_path: Path) -> None:
    short = save_prm(tmp_path / "short", Objective.PRM)
    config = json.loads((short / "config.json").read_text())
    config["stepmark"]["max_length"] = 2
    (short / "config.json").write_text(json.dumps(config))
    done = run(
        "--prm", short, "--processbench", made / "bench.jsonl", "--json", tmp_path / "figures.json"
    )
    assert done.exit_code == 0, done.exception
    assert "PRM: 24 steps end beyond the model's length" in " ".join(done.stdout.split())
    assert strict_json(tmp_path / "figures.json")["lost_steps"] == {"prm": 24}


def test_a_blank_step_in_a_dataset_is_named(made: Path, tmp_path: Path) -> None:
    import shutil

    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = shutil.copytree(made / "dataset", tmp_path / "dataset", symlinks=True)
    (file,) = (folder / "snapshots" / "000001").glob("*.parquet")
    table = pq.read_table(file)
    steps = table.column("steps").to_pylist()
    steps[3][1] = " \n"
    index = table.schema.get_field_index("steps")
    field = table.schema.field("steps")
    table = table.set_column(index, field, pa.array(steps, field.type))
    pq.write_table(table, file)
    said = refused(DataError, "--prm", made / "prm", "--dataset", folder)
    assert "step 1 of the solution" in said
    assert "without content" in said


def reports(*, soft: bool = False) -> tuple[StepReport, SearchReport]:
    def known(index: int, shift: float) -> KnownSolution:
        is_right = index % 3 == 0
        truths = (True, is_right, True if is_right else None)
        scores = (0.9 - shift, 0.1 + index / 40 + shift, 0.5)
        labels = (1.0, index / 20, 1.0) if soft else ()
        return KnownSolution(f"q{index}", ("a", "b", "c"), truths, labels, scores)

    groups = {
        role: KnownSteps("dataset", Truth.LABELS, tuple(known(n, shift) for n in range(20)))
        for role, shift in ((ScorerRole.PRM, 0.0), (ScorerRole.SECOND_PRM, 0.05))
    }
    steps = step_report(groups, is_held_out=lambda question: question < "q15", num_resamples=50)
    problems = [
        ProblemCandidates(
            str(n),
            "q",
            tuple(
                Candidate(("s",), str(k), Verdict.CORRECT if k else Verdict.INCORRECT, (k / 3,))
                for k in range(4)
            ),
        )
        for n in range(10)
    ]
    others = {ScorerRole.ORM: problems, ScorerRole.SECOND_PRM: problems}
    return steps, accuracy_against_n(problems, ns=[1, 2, 4], others=others, num_resamples=50)


def test_the_same_reports_give_the_same_files(tmp_path: Path) -> None:
    steps, search = reports(soft=True)
    for name in ("one", "two"):
        write_step_plots([steps], tmp_path / name)
        write_search_plots(search, tmp_path / name, aggregation=Aggregation.MIN)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()
    assert len(list((tmp_path / "one").iterdir())) == 4
    with pytest.raises(DataError, match="cannot be written"):
        write_step_plots([steps], tmp_path / "one" / "reliability-dataset.png")


@pytest.mark.parametrize("soft", [False, True])
def test_tables(soft: bool) -> None:
    steps, search = reports(soft=soft)
    console = Console(width=100, record=True)
    with console.capture() as capture:
        console.print(step_table(steps), reliability_table(steps))
        console.print(search_table(search, Aggregation.MIN))
        console.print(comparison_table(search, Aggregation.MIN))
    text = capture.get()
    assert "47 steps (72.3 % right) of 20 solutions, 20 problems, against the dataset's" in text
    assert ("MSE to soft labels" in text) is ("mean soft label" in text) is soft
    words_in_tables = ("difference", "second PRM best-of-n, min", "wrong picks ÷", "ORM best-of-n")
    for words in words_in_tables:
        assert words in text
    assert "second PRM best-of-n, mean" not in text
    sentences = " ".join(step_sentences(steps))
    assert "Left out: 13 steps of unknown truth." in sentences
    assert "held-out problems" in sentences
