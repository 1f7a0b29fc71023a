"""A child that regrades a dataset to and fro between two profiles until it is killed.

Forked from a process that has imported everything, as `tests.journal_writer`. It says
`begun` before each regrading and `done` after it.
"""

import itertools
from multiprocessing.connection import Connection
from pathlib import Path

from flows.regrade import regrade
from flows.roles import resolve_roles
from flows.run_config import RunConfig, check_config
from storage.lock import dataset_lock
from storage.problem_table import read_problems

PROFILES = ("gsm8k", "auto")


def config(**sections: object) -> RunConfig:
    content = {
        "problems": {"limit": 12},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    return check_config({**content, **sections}, origin="test")


def regrade_for_ever(path: Path, said: Connection) -> None:
    """Regrade to one profile, then to the other."""
    with dataset_lock(path):
        for profile in itertools.cycle(PROFILES):
            graded_by = config(grading={"profile": profile})
            said.send("begun")
            report = regrade(graded_by, path, roles=resolve_roles(graded_by))
            said.send(f"done {report.num_regraded}")


read_problems(Path("/nonexistent"))  # has pyarrow import all that it needs once
