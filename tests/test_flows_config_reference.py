"""The document of all config keys is the one that the models give."""

from pathlib import Path

from flows.config_reference import config_reference
from train.config import DEFAULT_MAX_LENGTH


def test_the_document_is_up_to_date() -> None:
    document = Path(__file__).parent.parent / "docs" / "config.md"
    assert document.read_text(encoding="utf-8") == config_reference()


def test_it_names_keys_of_every_package_with_their_defaults() -> None:
    text = config_reference()
    for row in (
        "| `seed` | `0` |",
        "| `limit` | none |",
        "| `min_rollouts` | `10` |",
        '| `profile` | `"auto"` | One of `auto`, `gsm8k`, `math`.',
        "| `ns` | `[1, 4, 8]` |",
        '| `base_model` | `"demo"` |',
    ):
        assert row in text


def test_every_key_has_a_meaning() -> None:
    rows = [line for line in config_reference().splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    assert [row for row in rows if not row.split(" | ")[-1].removesuffix("|").strip()] == []


def test_it_names_the_default_length_of_the_code() -> None:
    assert f"but at most {DEFAULT_MAX_LENGTH}." in config_reference()
