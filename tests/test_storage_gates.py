"""Which labels the gates let pass, and what a refusal says."""

from pathlib import Path

import pytest

from storage.gates import Gate, LastPublished, check_gates, check_integrity, refusal
from storage.label_figures import LabelFigures, SplitFigures
from storage.publish_config import GateConfig
from tests.publish_writer import solution, write_labels, write_rollouts

CONFIG = GateConfig(
    min_labels=10,
    min_problems=2,
    max_undecided_share=0.1,
    max_truncated_share=0.2,
    max_drift=0.05,
)


def figures(**changes: int) -> LabelFigures:
    given = {"num_labels": 10, "num_rollouts": 100, "num_undecided": 10, "num_truncated": 20}
    return LabelFigures(by_split={"train": SplitFigures(num_problems=2)}, **(given | changes))


def unmet(found: LabelFigures, last: LastPublished | None = None) -> list[str]:
    return [gate.name for gate in check_gates(found, last, CONFIG) if not gate.is_met]


def test_limits_are_inclusive() -> None:
    assert unmet(figures(), LastPublished("000001", 0.05)) == []
    assert unmet(figures(num_labels=9)) == ["min_labels"]
    assert unmet(figures(num_undecided=11, num_truncated=21)) == [
        "max_undecided_share", "max_truncated_share",
    ]  # fmt: skip
    assert unmet(LabelFigures()) == ["min_labels", "min_problems"]


@pytest.mark.parametrize(
    ("last", "limit", "is_met"),
    [
        (None, 0.05, True),
        (LastPublished("000001", 0.051), 0.05, False),
        (LastPublished("000001", None), 0.05, False),
        (LastPublished("000001", None), 1.0, True),
        (LastPublished("000001", 1.0), 1.0, True),
    ],
)
def test_drift(last: LastPublished | None, limit: float, *, is_met: bool) -> None:
    gate = check_gates(figures(), last, GateConfig(max_drift=limit))[-1]
    assert (gate.name, gate.is_met) == ("max_drift", is_met)


def test_a_refusal_says_all_reasons_and_what_to_do() -> None:
    forced = Gate("min_labels", "9", "at least 10", is_met=False)
    damaged = Gate("integrity", "a.parquet is missing", "the manifest's files", is_met=False)
    met = Gate("min_problems", "2", "at least 1", is_met=True)
    assert refusal([met]) == ""
    assert refusal([damaged, met]) == (
        "integrity: a.parquet is missing (asked for: the manifest's files). "
        "Look at the files with `stepmark verify`"
    )
    assert refusal([damaged, forced]).endswith(
        "Look at the files with `stepmark verify`; the limits are in [publish.gates], and "
        "--force passes them"
    )


def test_integrity(tmp_path: Path) -> None:
    solutions = [solution(index) for index in range(3)]
    write_rollouts(tmp_path, solutions)
    write_labels(tmp_path, solutions)
    snapshot = tmp_path / "snapshots" / "000001"

    def found(*, with_rollouts: bool = False) -> str:
        gate = check_integrity(tmp_path, snapshot, with_rollouts=with_rollouts)
        return "" if gate.is_met else gate.found

    assert found(with_rollouts=True) == ""
    write_rollouts(tmp_path, [solution(9)])  # by a run that has not ended
    assert found() == ""
    assert found(with_rollouts=True) == "rollouts/part-000001.parquet is not in the manifest"
    (tmp_path / "rollouts" / "part-000001.parquet").unlink()
    (tmp_path / "rollouts" / "part-000000.parquet").unlink()
    assert found(with_rollouts=True) == "rollouts/part-000000.parquet is missing"
    file = snapshot / "train-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert found() == f"{file.name} is not what the manifest's hash says"
    file.rename(snapshot / "test-00000-of-00001.parquet")
    assert found() == f"test-00000-of-00001.parquet is not in the manifest; {file.name} is missing"
