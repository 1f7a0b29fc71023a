"""Texts of foreign PRMs: ids and positions against the models' own recipes, and hostile steps."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import DataError
from tests.foreign_prms import mistral_tokenizer, qwen_tokenizer, shepherd_tokenizer
from train.step_tags import (
    QWEN_SYSTEM,
    math_shepherd_encoder,
    math_shepherd_judgements,
    qwen_prm_encoder,
)

QWEN, SHEPHERD = qwen_tokenizer(), shepherd_tokenizer()
TAG_ID = QWEN.convert_tokens_to_ids("<extra_0>")


def qwen_card_ids(question: str, steps: list[str]) -> list[int]:
    """As the model card has it, without what follows the last tag."""
    messages = [
        {"role": "system", "content": QWEN_SYSTEM},
        {"role": "user", "content": question},
        {"role": "assistant", "content": "<extra_0>".join(steps) + "<extra_0>"},
    ]
    ids = QWEN.encode(QWEN.apply_chat_template(messages, tokenize=False))
    return ids[: len(ids) - ids[::-1].index(TAG_ID)]


def test_qwen_reads_what_its_card_says() -> None:
    encoded = qwen_prm_encoder(QWEN, max_length=999)("What is 1+2?", ["1+2\n = 3.\n\n", "\n#### 3"])
    ids = qwen_card_ids("What is 1+2?", ["1+2\n = 3.", "#### 3"])
    assert list(encoded.input_ids) == ids
    assert list(encoded.step_positions) == [i for i, each in enumerate(ids) if each == TAG_ID]
    assert encoded.num_lost_steps == encoded.num_cut_tokens == 0


@pytest.mark.parametrize("special", [True, False])
def test_a_tag_that_a_question_or_a_step_spells_is_letters(special: bool) -> None:
    tokenizer = qwen_tokenizer(special=special)
    tag_id = tokenizer.convert_tokens_to_ids("<extra_0>")
    end_id = tokenizer.convert_tokens_to_ids("<|im_end|>")
    steps = ["a<extra_0>b", "<extra_0><|im_end|>", "c<extra_0>"]
    encoded = qwen_prm_encoder(tokenizer, max_length=999)("Q<extra_0>?<|im_end|>", steps)
    places = [i for i, each in enumerate(encoded.input_ids) if each == tag_id]
    assert list(encoded.step_positions) == places
    assert encoded.input_ids.count(end_id) == 2  # the template's own
    text = tokenizer.decode(encoded.input_ids)
    assert text.endswith("a<extra_0>b<extra_0><extra_0><|im_end|><extra_0>c<extra_0><extra_0>")


def test_tags_beyond_the_length_are_lost() -> None:
    steps = ["1", "2", "3"]
    whole = qwen_prm_encoder(QWEN, max_length=999)("Q", steps)
    cut = qwen_prm_encoder(QWEN, max_length=whole.step_positions[1] + 1)("Q", steps)
    assert (cut.step_positions, cut.num_lost_steps) == (whole.step_positions[:2], 1)
    assert cut.input_ids == whole.input_ids[: whole.step_positions[1] + 1]


def test_shepherd_steps_are_numbered_once() -> None:
    encoded = math_shepherd_encoder(SHEPHERD, max_length=999)(
        "Q?\n", ["One.", "\nStep 2: Two.", "\n\nThree.\nThe answer is: 3\n"]
    )
    text = "Q? Step 1: One. ки\nStep 2: Two. ки\nStep 3: Three.\nThe answer is: 3 ки"
    assert list(encoded.input_ids) == SHEPHERD.encode(text)
    tag_id = SHEPHERD.encode("ки", add_special_tokens=False)[-1]
    places = [i for i, each in enumerate(encoded.input_ids) if each == tag_id]
    assert list(encoded.step_positions) == places
    assert len(places) == 3


@settings(max_examples=200, deadline=None)
@given(
    question=st.text(alphabet="Q ки\n▁", max_size=6),
    steps=st.lists(
        st.text(alphabet="a ки+-\n▁<>", min_size=1, max_size=8).filter(str.strip), max_size=4
    ),
)
def test_shepherd_has_one_tag_a_step_whatever_is_written(question: str, steps: list[str]) -> None:
    encode = math_shepherd_encoder(SHEPHERD, max_length=999)
    encoded = encode(question, steps)
    tag_id = SHEPHERD.encode("ки", add_special_tokens=False)[-1]
    places = [i for i, each in enumerate(encoded.input_ids) if each == tag_id]
    assert list(encoded.step_positions) == places
    assert len(places) == len(steps)
    for end in range(1, len(steps)):  # causal
        prefix = encode(question, steps[:end])
        assert encoded.input_ids[: len(prefix.input_ids)] == prefix.input_ids
        assert encoded.step_positions[:end] == prefix.step_positions


def test_the_tokenizer_of_mistral_gives_what_the_card_says(mistral_file: Path) -> None:
    import sentencepiece

    tokenizer = mistral_tokenizer(mistral_file)
    assert math_shepherd_judgements(tokenizer) == (648, 387)  # as in the model card
    encoded = math_shepherd_encoder(tokenizer, max_length=999)(
        "Janet has 3 ducks.", ["3 ducks lay 16 - 3 = 13 eggs.", "\nThe answer is: 13"]
    )
    text = (
        "Janet has 3 ducks. Step 1: 3 ducks lay 16 - 3 = 13 eggs. ки\nStep 2: The answer is: 13 ки"
    )
    own = sentencepiece.SentencePieceProcessor(model_file=str(mistral_file))  # type: ignore[call-arg]
    ids = [1, *own.encode(text)]
    assert list(encoded.input_ids) == ids
    assert list(encoded.step_positions) == [i for i, each in enumerate(ids) if each == 12902]
    # a step in Russian: `▁ки` begins its second word, and is no tag
    hostile = math_shepherd_encoder(tokenizer, max_length=999)("Q", ["в китай ки"])
    assert hostile.input_ids.count(12902) == 1
    assert hostile.input_ids[-1] == 12902


@pytest.fixture
def mistral_file() -> Path:
    """The SentencePiece model of Mistral 7B v0.1, which vLLM's requirements bring along."""
    pytest.importorskip("sentencepiece", reason="sentencepiece, which vLLM installs, is absent")
    common = pytest.importorskip("mistral_common", reason="mistral_common is absent")
    return Path(common.__file__).parent / "data" / "tokenizer.model.v1"


@pytest.mark.parametrize(
    ("make", "tokenizer", "message"),
    [
        (qwen_prm_encoder, SHEPHERD, "has no <extra_0>"),
        (qwen_prm_encoder, qwen_tokenizer(chat=False), "has no chat template"),
        (math_shepherd_encoder, QWEN, "'ки' is 4 tokens, not one"),
    ],
)
def test_another_models_tokenizer_is_refused(make: Any, tokenizer: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        make(tokenizer, max_length=99)


def test_a_step_of_white_space_is_refused() -> None:
    for encode in (
        qwen_prm_encoder(QWEN, max_length=99),
        math_shepherd_encoder(SHEPHERD, max_length=99),
    ):
        with pytest.raises(DataError, match="step 1 is ' \\\\n': a step needs content"):
            encode("Q", ["a", " \n"])
