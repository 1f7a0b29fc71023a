"""docs/config.md: every key of a config, its default and its meaning, from the models.

python -m flows.config_reference > docs/config.md
"""

import json
import sys
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from flows.run_config import RunConfig, section_model

_HEAD = """# Config keys

Made by `python -m flows.config_reference`; do not edit. A config is TOML; a key that stands nowhere
here is refused. `--set section.key=value` changes one key.
"""


def config_reference() -> str:
    """The whole document, in Markdown."""
    parts = [_HEAD, *_section("", RunConfig)]
    return "\n".join(parts)


def _section(name: str, model: type[BaseModel]) -> list[str]:
    fields = model.model_fields
    sections = {
        key: inner for key, field in fields.items() if (inner := section_model(field.annotation))
    }
    lines = [f"\n## [{name}]\n" if name else "\n## Top level\n", _one_line(model.__doc__ or ""), ""]
    if len(sections) < len(fields):
        lines += ["| key | default | meaning |", "|---|---|---|"]
    lines += [_row(key, field) for key, field in fields.items() if key not in sections]
    for key, inner in sections.items():
        path = f"{name}.{key}" if name else key
        if name in _LIKE_THE_TOP_LEVEL:
            lines += [f"\n`{key}` has the keys of [{key}]; {_default_of(fields[key], path)}"]
        else:
            lines += _section(path, inner)
    return lines


_LIKE_THE_TOP_LEVEL = ("evaluate", "generator")


def _default_of(field: FieldInfo, path: str) -> str:
    if path == "evaluate.problems":
        return "the default is demo, test, 200."
    return _one_line(field.description or "the defaults are those of an empty section.")


def _row(key: str, field: FieldInfo) -> str:
    choices = ""
    if isinstance(field.annotation, type) and issubclass(field.annotation, Enum):
        choices = "One of " + ", ".join(f"`{one.value}`" for one in field.annotation) + ". "
    meaning = _one_line(choices + (field.description or "")).replace("|", "\\|")
    return f"| `{key}` | {_value(field.default)} | {meaning} |"


def _value(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, Enum):
        default = default.value
    return f"`{json.dumps(default, ensure_ascii=False)}`"


def _one_line(text: str) -> str:
    return " ".join(text.split())


if __name__ == "__main__":
    sys.stdout.write(config_reference())
