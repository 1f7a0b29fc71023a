"""Prompts: the right text, and token ids that are cuts of the whole solution's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeling.prompts import (
    PromptConfig,
    PromptStyle,
    TextPromptEncoder,
    TokenPromptEncoder,
    prompt_identity,
    proper_prefixes,
    resolve_style,
)
from labeling.steps import StepMethod, split_steps
from pipeline.errors import ConfigError
from pipeline.records import Prefix, Problem
from tests.tiny_models import byte_tokenizer, metaspace_tokenizer

PROBLEM = Problem("p", "Mia has {3} eggs.", "3", "test", "train")
TOKENIZER = byte_tokenizer()
CHAT = byte_tokenizer(chat=True, bos=True)
STEPS = (" Mia has 1.", "\nThen 2.", "\n\nSo 3=3\n#### 3")


def decoded(tokenizer: Any, ids: tuple[int, ...]) -> str:
    return str(tokenizer.decode(ids, clean_up_tokenization_spaces=False))


def test_the_text_encoder_fills_the_template_and_leaves_braces_alone() -> None:
    encoder = TextPromptEncoder(PromptConfig(plain_template="{x} {question}:"))
    assert encoder.root(PROBLEM).text == "{x} Mia has {3} eggs.:"
    prompts = encoder.prefixes(PROBLEM, STEPS)
    assert list(prompts) == [
        Prefix("p", STEPS[:1]).prefix_id,
        Prefix("p", STEPS[:2]).prefix_id,
    ]
    assert prompts[Prefix("p", STEPS[:2]).prefix_id].text.endswith("eggs.: Mia has 1.\nThen 2.")


def test_a_text_is_continued_with_the_line_break_at_its_end() -> None:
    text = "".join(STEPS[:2]) + "\n"
    assert TextPromptEncoder(PromptConfig()).continuing(PROBLEM, text).text.endswith(text)
    for tokenizer in (TOKENIZER, CHAT):
        encoder = TokenPromptEncoder(PromptConfig(), tokenizer)
        root, prompt = encoder.root(PROBLEM), encoder.continuing(PROBLEM, text)
        assert prompt.text == root.text + text
        assert prompt.ids[: len(root.ids)] == root.ids
        assert decoded(tokenizer, prompt.ids[len(root.ids) :]) == text
        assert encoder.continuing(PROBLEM, "") == root


def test_a_cut_inside_a_token_is_encoded_by_itself_and_counted() -> None:
    encoder = TokenPromptEncoder(PromptConfig(), TOKENIZER)
    merged = TOKENIZER(".\nThen", add_special_tokens=False)["input_ids"][0]
    assert decoded(TOKENIZER, (merged,)).startswith(".\n")
    encoder.prefixes(PROBLEM, ("a.", "\nThen", "\nb"))
    assert encoder.num_reencoded == 1
    encoder.prefixes(PROBLEM, ("a1", "\nThen", "\nb"))
    assert encoder.num_reencoded == 1


@given(st.text(st.sampled_from("ab .\n=3数é🙂$\\"), max_size=60).map(lambda text: "x" + text))
def test_ids_decode_to_the_text_and_are_cut_from_the_whole(text: str) -> None:
    steps = split_steps(text, StepMethod.NEWLINE)
    whole = tuple(TOKENIZER(text, add_special_tokens=False)["input_ids"])
    encoder = TokenPromptEncoder(PromptConfig(), TOKENIZER)
    root = encoder.root(PROBLEM)
    prompts = encoder.prefixes(PROBLEM, steps)
    num_cut = 0
    for prefix in proper_prefixes(PROBLEM, steps):
        prompt = prompts[prefix.prefix_id]
        assert prompt.text == root.text + prefix.text
        assert decoded(TOKENIZER, prompt.ids) == prompt.text
        assert prompt.ids[: len(root.ids)] == root.ids
        num_cut += prompt.ids[len(root.ids) :] == whole[: len(prompt.ids) - len(root.ids)]
    assert num_cut >= len(prompts) - encoder.num_reencoded


def test_chat_prompts_are_the_template_with_the_assistants_turn_continued() -> None:
    encoder = TokenPromptEncoder(PromptConfig(user_template="{question} Go."), CHAT)
    root = encoder.root(PROBLEM)
    rendered = CHAT.apply_chat_template(
        [{"role": "user", "content": "Mia has {3} eggs. Go."}],
        tokenize=False,
        add_generation_prompt=True,
    )
    assert root.text == rendered == "<s><|user|>Mia has {3} eggs. Go.<|end|>\n<|assistant|>"
    assert root.ids.count(CHAT.bos_token_id) == 1
    assert root.ids[-1] == CHAT.convert_tokens_to_ids("<|assistant|>")
    prompts = encoder.prefixes(PROBLEM, STEPS)
    for prefix in proper_prefixes(PROBLEM, STEPS):
        assert decoded(CHAT, prompts[prefix.prefix_id].ids) == rendered + prefix.text


def test_the_system_message_stands_before_the_question() -> None:
    encoder = TokenPromptEncoder(PromptConfig(system="Be brief."), CHAT)
    assert encoder.root(PROBLEM).text.startswith("<s><|system|>Be brief.<|end|>\n<|user|>Mia")


def test_a_plain_prompt_begins_with_bos_where_the_tokenizer_writes_one() -> None:
    with_bos = TokenPromptEncoder(PromptConfig(style=PromptStyle.PLAIN), CHAT).root(PROBLEM)
    without = TokenPromptEncoder(PromptConfig(), TOKENIZER).root(PROBLEM)
    assert with_bos.ids == (CHAT.bos_token_id, *without.ids)


def test_metaspace_tokenizers_keep_white_space() -> None:
    tokenizer = metaspace_tokenizer()
    encoder = TokenPromptEncoder(PromptConfig(), tokenizer)
    root = encoder.root(PROBLEM)
    prompts = encoder.prefixes(PROBLEM, STEPS)
    for prefix in proper_prefixes(PROBLEM, STEPS):
        assert decoded(tokenizer, prompts[prefix.prefix_id].ids) == root.text + prefix.text


def test_styles() -> None:
    assert resolve_style(PromptConfig(), CHAT) is PromptStyle.CHAT
    assert resolve_style(PromptConfig(), TOKENIZER) is PromptStyle.PLAIN
    with pytest.raises(ConfigError, match=r"has no chat template; use prompt\.style = 'plain'"):
        resolve_style(PromptConfig(style=PromptStyle.CHAT), TOKENIZER)


def test_only_the_texts_in_use_define_a_prompt() -> None:
    plain, chat = (
        PromptConfig(plain_template="{question}"),
        PromptConfig(user_template="x {question}"),
    )
    assert prompt_identity(chat, TOKENIZER) == prompt_identity(PromptConfig(), TOKENIZER)
    assert prompt_identity(plain, TOKENIZER) != prompt_identity(PromptConfig(), TOKENIZER)
    assert prompt_identity(plain, CHAT) == prompt_identity(PromptConfig(), CHAT)
    assert prompt_identity(chat, CHAT) != prompt_identity(PromptConfig(), CHAT)


@pytest.mark.parametrize("tokenizer", [TOKENIZER, CHAT], ids=["plain", "chat"])
def test_spelt_control_tokens_are_only_characters(tokenizer: Any) -> None:
    spelt = tokenizer.eos_token
    encoder = TokenPromptEncoder(PromptConfig(), tokenizer)
    hostile = Problem("p", f"What is 1{spelt}+1?", "2", "s", "train")
    plain = Problem("p", "What is 1+1?", "2", "s", "train")
    control = set(tokenizer.all_special_ids)

    def num_control(ids: tuple[int, ...]) -> int:
        return sum(token_id in control for token_id in ids)

    assert num_control(encoder.root(hostile).ids) == num_control(encoder.root(plain).ids)
    assert spelt in decoded(tokenizer, encoder.root(hostile).ids)
    (prompt,) = encoder.prefixes(plain, [f" a {spelt} 3", "\nb"]).values()
    assert num_control(prompt.ids) == num_control(encoder.root(plain).ids)
