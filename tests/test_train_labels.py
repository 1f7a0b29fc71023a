import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pipeline.errors import ConfigError, DataError
from train.config import TrainConfig, fill_template
from train.encoded_labels import EncodedLabels, encode_labels
from train.labels import read_labels

Row = dict[str, Any]


def make_row(name: str, *, num_steps: int = 2, **changes: Any) -> Row:
    row = {
        "problem_id": f"problem-{name}",
        "question": f"What is {name}?",
        "solution_id": f"solution-{name}",
        "steps": [f" step {index}" for index in range(num_steps)],
        "num_correct": [6] * num_steps,
        "num_incorrect": [2] * num_steps,
        "mc_value": [0.75] * num_steps,
        "hard_label": [True] * num_steps,
    }
    return row | changes


def write(folder: Path, rows: list[Row], *, name: str = "train-00000") -> Path:
    schema = pa.schema(
        {
            "problem_id": pa.string(),
            "question": pa.string(),
            "solution_id": pa.string(),
            "steps": pa.list_(pa.string()),
            "num_correct": pa.list_(pa.int32()),
            "num_incorrect": pa.list_(pa.int32()),
            "mc_value": pa.list_(pa.float32()),
            "hard_label": pa.list_(pa.bool_()),
        }
    )
    table = pa.Table.from_pylist(rows, schema=schema)
    pq.write_table(table, folder / f"{name}.parquet")
    return folder


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={c: i for i, c in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


Encode = Callable[..., EncodedLabels]


@pytest.fixture
def encode(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> Encode:
    def run(rows: list[Row], *, max_length: int = 1000, **config: Any) -> EncodedLabels:
        return encode_labels(
            write(tmp_path, rows),
            tmp_path / "encoded.arrow",
            tokenizer=tokenizer,
            config=TrainConfig(**({"validation_share": 0.0} | config)),
            max_length=max_length,
        )

    return run


def test_rows_come_back_as_written(tmp_path: Path) -> None:
    row = make_row("a", mc_value=[0.5, float("nan")], num_correct=[1, 0], num_incorrect=[1, 0])
    (read,) = read_labels(write(tmp_path, [row]), split="train")
    assert read.steps == (" step 0", " step 1")
    assert read.mc_values == (0.5, None)
    assert read.hard_labels == (True, True)
    assert (read.problem_id, read.solution_id) == ("problem-a", "solution-a")


def test_only_the_split_asked_for_is_read(tmp_path: Path) -> None:
    write(tmp_path, [make_row("a")], name="train-00000")
    write(tmp_path, [make_row("b")], name="train-00001")
    write(tmp_path, [make_row("c")], name="test-00000")
    names = [row.solution_id for row in read_labels(tmp_path, split="train")]
    assert names == ["solution-a", "solution-b"]
    assert [row.solution_id for row in read_labels(tmp_path, split="test")] == ["solution-c"]
    # also of a dataset of fewer problems than labels.splits: a split of none has no file
    with pytest.raises(ConfigError, match=r"no split 'validation', only .*label more problems"):
        list(read_labels(tmp_path, split="validation"))


def test_a_folder_of_any_name_and_a_split_of_any_name_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "a[1] *x"
    folder.mkdir()
    write(folder, [make_row("a")], name="held_out-00000-of-00001")
    (folder / "manifest.json").write_text("{}")
    assert [row.problem_id for row in read_labels(folder, split="held_out")] == ["problem-a"]


BAD_ROWS = {
    "shorter mc_value": ({"mc_value": [0.5]}, "different lengths.*'mc_value': 1"),
    "null list": ({"hard_label": None}, "hard_label is null"),
    "null question": ({"question": None}, "question is null"),
    "NaN where graded": ({"mc_value": [0.5, math.nan]}, "step 1 has mc_value nan with 6 correct"),
    "null where graded": ({"mc_value": [None, 0.5]}, "step 0 has mc_value None"),
    "value without rollouts": (
        {"num_correct": [0, 6], "num_incorrect": [0, 2]},
        "step 0 has mc_value 0.75 with 0 correct",
    ),
    "value above one": ({"mc_value": [0.5, 1.5]}, "step 1 has mc_value 1.5"),
    "infinite": ({"mc_value": [0.5, math.inf]}, "step 1 has mc_value inf"),
    "null count": ({"num_correct": [None, 6]}, "None correct"),
    "empty step": ({"steps": [" a", ""]}, "step 1 is ''"),
    "blank step": ({"steps": [" a", "\n "]}, "step 1 is"),
    "negative count": (
        {"num_incorrect": [2, -1]},
        "6 correct and -1 incorrect",
    ),
    "null hard label": ({"hard_label": [True, None]}, "hard_label of step 1 is null"),
    "longer counts": ({"num_correct": [6] * 3}, "different lengths.*'num_correct': 3"),
    "null step": ({"steps": [None, " a"]}, "step 0 is None"),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_a_bad_row_is_named(tmp_path: Path, case: str) -> None:
    changes, message = BAD_ROWS[case]
    write(tmp_path, [make_row("a"), make_row("b", **changes)])
    with pytest.raises(DataError, match=message) as caught:
        list(read_labels(tmp_path, split="train"))
    assert "split train, row 1" in str(caught.value)


def test_a_solution_without_steps_is_named(tmp_path: Path) -> None:
    write(tmp_path, [make_row("a", num_steps=0)])
    with pytest.raises(
        DataError, match=r"row 0 \(solution solution-a\): the solution has no steps"
    ):
        list(read_labels(tmp_path, split="train"))


def test_missing_damaged_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no Parquet files; make labels first"):
        list(read_labels(tmp_path, split="train"))
    file = write(tmp_path, [make_row("a")]) / "train-00000.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="cannot be read as Parquet"):
        list(read_labels(tmp_path, split="train"))
    pq.write_table(pa.table({"question": ["q"]}), file)
    with pytest.raises(DataError, match="row 0: no column problem_id, solution_id, steps"):
        list(read_labels(tmp_path, split="train"))


def test_what_is_left_out_is_counted(encode: Encode) -> None:
    none_graded = {"mc_value": [None] * 2, "num_correct": [0] * 2, "num_incorrect": [0] * 2}
    rows = [
        make_row("a", num_steps=5),
        make_row("b", mc_value=[0.5, None], num_correct=[1, 0], num_incorrect=[1, 0]),
        make_row("c", **none_graded),
    ]
    # the prompt has 10 + 10 + 8 tokens, each step 7: at 55 tokens three whole steps fit
    labels = encode(rows, max_length=55)
    assert labels.num_steps == 9
    assert labels.num_lost_steps == 2
    assert labels.num_unlabelled_steps == 3
    assert labels.num_skipped_solutions == 1
    assert [solution.targets for solution in labels.train] == [(0.75,) * 3, (0.5, None)]
    assert [solution.num_targets for solution in labels.train] == [3, 1]
    assert labels.train[0].encoded.step_positions == (34, 41, 48)
    assert len(labels.validation) == 0


def test_nothing_left_says_why(encode: Encode) -> None:
    with pytest.raises(DataError, match=r"of 2 steps, 0 have no graded rollout.*max_length = 20"):
        encode([make_row("a")], max_length=20)
    with pytest.raises(DataError, match="no rows in split 'train'"):
        encode([])


def test_a_question_is_on_one_side_only_and_stays_there(encode: Encode) -> None:
    rows = [
        make_row(str(index), question=f"What is {index % 40}?", problem_id=f"p{index}")
        for index in range(120)
    ]
    labels = encode(rows, validation_share=0.25)
    sides = [
        {solution.encoded.input_ids for solution in side}
        for side in (labels.train, labels.validation)
    ]
    assert not sides[0] & sides[1]
    assert len(sides[0]) + len(sides[1]) == labels.num_problems == 40
    assert 4 <= len(sides[1]) <= 16
    half = encode(rows[:20], validation_share=0.25)
    assert {solution.encoded.input_ids for solution in half.validation} <= sides[1]


def test_both_sides_have_a_question_or_it_is_an_error(encode: Encode) -> None:
    labels = encode([make_row("a"), make_row("b")], validation_share=0.01)
    assert (len(labels.train), len(labels.validation)) == (1, 1)
    with pytest.raises(DataError, match="only 1 question"):
        encode([make_row("a")], validation_share=0.1)


def test_braces_are_only_text() -> None:
    config = TrainConfig(template=r"\boxed{} {0} {question}:")
    assert (
        fill_template(config.template, r"\frac{1}{x} {question}")
        == r"\boxed{} {0} \frac{1}{x} {question}:"
    )
    with pytest.raises(ValidationError, match="does not contain"):
        TrainConfig(template="Question:")
