"""Step-DPO rows read back: what a pair is, and one sentence for what is none."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import ConfigError, DataError
from storage.formats.pair_rows import PairRow, PairSide, read_pairs, refuse_filled

ROW = {
    "dataset": "demo",
    "prompt": "How many?",
    "initial_reason_steps": "\n1+1=2.",
    "chosen": "\n2+2=4.",
    "rejected": "\n2+2=5.",
    "full_chosen": "\n2+2=4.\n#### 4",
    "full_rejected": "\n2+2=5.",
    "answer": "4",
}


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_a_row_tells_how_each_solution_goes_on(tmp_path: Path) -> None:
    rows = list(read_pairs(write(tmp_path / "pairs.jsonl", ROW)))
    assert rows == [
        PairRow(
            row=1,
            question="How many?",
            shared="\n1+1=2.",
            chosen=PairSide("\n2+2=4.", "\n#### 4"),
            rejected=PairSide("\n2+2=5.", ""),
        )
    ]


def test_without_whole_solutions_nothing_is_known_of_the_rest(tmp_path: Path) -> None:
    short = {name: ROW[name] for name in ("prompt", "initial_reason_steps", "chosen", "rejected")}
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.Table.from_pylist([short]), path)
    (row,) = read_pairs(path)
    assert (row.chosen.rest, row.rejected.rest) == (None, None)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chosen": " \n"}, r"row 2: chosen is ' \\n': it needs content"),
        ({"rejected": None}, "row 2: rejected is None, not a text"),
        ({"prompt": ""}, "row 2: prompt is '': it needs content"),
        ({"chosen": ["a"]}, r"row 2: chosen is \['a'\], not a text"),
        ({"rejected": "\n2+2=4."}, "row 2: chosen and rejected are the same step"),
        ({"full_chosen": "\n2+2=3."}, "row 2: full_chosen does not begin with chosen"),
        ({"chosen": "\x1b[31m" * 100, "full_chosen": 3}, "row 2: full_chosen is 3, not a text"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write(tmp_path / "pairs.jsonl", ROW, ROW | changes)
    with pytest.raises(DataError, match=message) as caught:
        list(read_pairs(path))
    assert str(path) in str(caught.value)
    assert "stepmark export" in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_pairs_of_another_form_are_refused(tmp_path: Path) -> None:
    preference = {name: ROW[name] for name in ("prompt", "chosen", "rejected")}
    path = write(tmp_path / "pairs.jsonl", preference)
    with pytest.raises(DataError, match=r"no column initial_reason_steps .*no Step-DPO pairs"):
        list(read_pairs(path))


def test_hostile_column_names_are_shown_as_text(tmp_path: Path) -> None:
    path = write(tmp_path / "pairs.jsonl", {"\x1b[2J\u202e" + "x" * 10_000: 1})
    with pytest.raises(DataError, match="row 1: there is no column prompt") as caught:
        list(read_pairs(path))
    assert not {"\x1b", "\u202e"} & set(str(caught.value))
    assert len(str(caught.value)) < 500


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        list(read_pairs(tmp_path / "none.jsonl"))
    with pytest.raises(DataError, match="holds no pair"):
        list(read_pairs(write(tmp_path / "empty.jsonl")))
    (tmp_path / "broken.jsonl").write_text('{"prompt": \n')
    with pytest.raises(DataError, match="row 1: not JSON"):
        list(read_pairs(tmp_path / "broken.jsonl"))


def test_a_filled_template_is_refused(tmp_path: Path) -> None:
    filled = ROW | {"prompt": "Question: How many?\nAnswer:"}
    (row,) = read_pairs(write(tmp_path / "pairs.jsonl", filled))
    with pytest.raises(ConfigError, match=r"row 1: .*would be put around it twice.*--template"):
        refuse_filled(row, tmp_path / "pairs.jsonl", before="Question: ", after="\nAnswer:")
    (row,) = read_pairs(write(tmp_path / "pairs.jsonl", ROW))
    refuse_filled(row, tmp_path / "pairs.jsonl", before="Question: ", after="\nAnswer:")
    refuse_filled(row, tmp_path / "pairs.jsonl", before="", after="")
