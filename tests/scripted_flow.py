"""Whole runs with the scripted engine, on eight demo problems if not said otherwise."""

from pathlib import Path
from typing import Any

from flows.run_config import RunConfig, check_config
from flows.stages import generate


def config(**sections: object) -> RunConfig:
    content = {
        "problems": {"limit": 8},
        "engine": {"kind": "scripted"},
        "steps": {"method": "newline"},
    }
    return check_config({**content, **sections}, origin="test")


def run(config: RunConfig, out: Path) -> dict[str, Any]:
    return generate(config, out, on_progress=lambda _: None)
