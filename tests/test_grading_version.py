"""The version covers every module that decides verdicts, also one that is added later."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

from grading import version
from grading.version import GRADER_VERSION, deciding_modules

GRADING = Path(version.__file__).parent
ASK = "from grading.version import GRADER_VERSION; print(GRADER_VERSION)"


def test_version_has_a_number_and_a_digest() -> None:
    assert re.fullmatch(r"2-[0-9a-f]{8}", GRADER_VERSION)


def test_modules_that_deciding_ones_import_decide_too() -> None:
    imported = {"grade.py", "equivalence.py", "extract.py"}
    for name in deciding_modules():
        for node in ast.walk(ast.parse((GRADING / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("grading."):
                imported.add((node.module or "").partition(".")[2] + ".py")
    assert imported - {"config.py"} <= set(deciding_modules())


def test_a_change_or_a_new_module_changes_the_version(tmp_path: Path) -> None:
    copy = tmp_path / "grading"
    shutil.copytree(GRADING, copy, ignore=shutil.ignore_patterns("__pycache__"))

    def version_now() -> str:
        command = [sys.executable, "-c", ASK]
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout

    def append(name: str) -> None:
        with (copy / name).open("a") as stream:
            stream.write("# more\n")

    versions = [version_now()]
    append("pool.py")
    assert version_now() == versions[0]
    for name in ("grade.py", "structure.py", "something_new.py"):
        append(name)
        versions.append(version_now())
    assert len(set(versions)) == 4
