"""The document of all config keys is the one that the models give."""

from pathlib import Path

from flows.config_reference import config_reference


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
