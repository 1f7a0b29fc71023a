"""The bytes of a dataset's files, for comparing runs."""

from pathlib import Path

from storage.dataset import label_files, labels_path


def label_bytes(out: Path) -> dict[str, bytes]:
    """Of the current labels, by file name; there are some."""
    files = {file.name: file.read_bytes() for file in label_files(labels_path(out))}
    assert files
    return files


def all_bytes(out: Path) -> dict[str, bytes]:
    """Of every file but the lock, by relative path."""
    return {
        str(file.relative_to(out)): file.read_bytes()
        for file in out.rglob("*")
        if file.is_file() and file.name != ".lock"
    }
