"""Publishes datasets in forked children, which start in no time and can be killed.

    python -m tests.publish_writer

Reads lists of orders as JSON lines from standard input, {"path", "settings", "options"} each, runs
those of a list at once, and answers with a line of their pids when they run, and one when they have
ended: {"report"}, {"error"}, {"fault"} or {"killed": true} each. `options` are those of
`flows.publish.publish`; an order may have "environment", too.

The Hub's address is fixed when its client is imported: hence the process.
"""

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from grading.verdict import Verdict
from pipeline.errors import StepmarkError
from pipeline.records import FinishReason, LabeledSolution, Problem, Rollout, StepLabel
from storage.journal import Journal
from storage.lock import dataset_lock
from storage.problem_table import write_problems
from storage.snapshots import write_snapshot
from storage.tables import labels_to_table

DIGEST = "digest"


def problem(index: int, *, split: str = "train") -> Problem:
    """Ids are not in the order of `index`: as hashes are not."""
    return Problem(f"p{(index * 7919) % 1000:03d}", f"What is {index}+1?", "1", "test", split)


def solution(
    index: int, *, num_correct: int = 5, step: str = "a", split: str = "train"
) -> LabeledSolution:
    made = StepLabel(10, 2, num_correct, 9 - num_correct, 1, 0)
    return LabeledSolution(
        problem(index, split=split),
        f"s{index}",
        (f"{step}{index}", "\nb", "\nThe answer is 1."),
        (made, StepLabel(0, 0, 0, 0, 0, 0), StepLabel(1, 0, 1, 0, 0, 0)),
        "1",
        Verdict.CORRECT,
    )


def manifest(**changes: Any) -> dict[str, object]:
    config = {
        "seed": 0,
        "problems": {"source": "/home/somebody/secret/problems.jsonl"},
        "engine": {"urls": ["http://10.0.0.1:8000"]},
        "labels": {"hard_threshold": 0.0},
        "allocation": {"policy": "adaptive", "min_rollouts": 10, "max_rollouts": 20, "reuse": True},
        "sampling": {"temperature": 1.0},
        "steps": {"method": "auto"},
    }
    stage = {"rollouts": 10, "generated_tokens": 100, "prompt_tokens": 20, "seconds": 1.5}
    return {
        "config": config,
        "completer": "org/model",
        "generator": "org/model",
        "sampling_digest": DIGEST,
        "generator_digest": DIGEST,
        "grader_version": "g1",
        "cost": {"solutions": stage, "prefixes": stage, "tokens_per_label": 2.5},
        "finished_at": "2026-12-01T02:00:00+00:00",
        **changes,
    }


def write_labels(path: Path, solutions: list[LabeledSolution], **changes: Any) -> None:
    """Add the problems in the order of `solutions`, and make a snapshot of them, by split."""
    with dataset_lock(path):
        write_problems(path, [one.problem for one in solutions])
        ordered = sorted(solutions, key=lambda one: one.problem.problem_id)
        splits = sorted({one.problem.split for one in solutions})
        made = manifest(**changes)
        tables = [
            (split, _table([one for one in ordered if one.problem.split == split], made))
            for split in splits
        ]
        write_snapshot(path, tables, made, keep=2)


def write_rollouts(path: Path, solutions: list[LabeledSolution]) -> None:
    """To be called before the labels are written, whose manifest names them."""
    with dataset_lock(path), Journal(path) as journal:
        journal.append([_rollout(one, index) for one in solutions for index in range(3)])


def _rollout(one: LabeledSolution, index: int) -> Rollout:
    return Rollout(
        one.problem.problem_id, "prefix", index, f"text {index}", "1", Verdict.CORRECT, "text",
        FinishReason.STOP, 5, "org/model", DIGEST, "g1", index, "2026-12-01T00:00:00+00:00",
    )  # fmt: skip


def _table(rows: list[LabeledSolution], made: dict[str, object]) -> Any:
    return labels_to_table(
        rows,
        completer=str(made["completer"]),
        generator=str(made["generator"]),
        sampling_digest=DIGEST,
        grader_versions=["g1"] * len(rows),
        hard_threshold=0.0,
    )


def _publish(order: dict[str, Any]) -> dict[str, Any]:
    from flows.publish import publish
    from storage.publish_config import PublishConfig

    config = PublishConfig.model_validate(order["settings"])
    report = publish(Path(order["path"]), config, **order["options"])
    return {**report.as_json(), "card": report.card}


def _run(order: dict[str, Any]) -> dict[str, Any]:
    os.environ.update(order.get("environment", {}))
    try:
        return {"report": _publish(order)}
    except StepmarkError as error:
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception:  # noqa: BLE001 - the test shows it
        return {"fault": traceback.format_exc()}


def main() -> None:
    import datasets  # noqa: F401
    import huggingface_hub.hf_api  # noqa: F401
    import tenacity  # noqa: F401

    import flows.publish  # noqa: F401

    for line in sys.stdin:
        children = [_start(order) for order in json.loads(line)]
        sys.stdout.write(json.dumps([pid for pid, _ in children]) + "\n")
        sys.stdout.flush()
        sys.stdout.write(json.dumps([_answer(pid, reader) for pid, reader in children]) + "\n")
        sys.stdout.flush()


def _start(order: dict[str, Any]) -> tuple[int, int]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(writer, "w") as answer:
            answer.write(json.dumps(_run(order)))
        sys.stderr.flush()
        os._exit(0)
    os.close(writer)
    return pid, reader


def _answer(pid: int, reader: int) -> dict[str, Any]:
    with os.fdopen(reader) as answer:
        text = answer.read()
    _, status = os.waitpid(pid, 0)
    return {"killed": True} if os.WIFSIGNALED(status) else json.loads(text)


if __name__ == "__main__":
    main()
