import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from pipeline.errors import DataError
from train.encode import encode_steps, fill


def make_tokenizer(*, merges: tuple[tuple[str, str], ...] = ()) -> PreTrainedTokenizerFast:
    """One token a byte, and one for each merge; ids 0 and 1 are `<s>` and `</s>`."""
    pieces = [*sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    vocabulary = {piece: index for index, piece in enumerate(["<s>", "</s>", *pieces])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=list(merges)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")


LETTERS = make_tokenizer()
MERGING = make_tokenizer(merges=((".", "Ċ"), (".Ċ", "Ċ"), ("a", "b")))  # Ċ is a line break


def test_positions_are_those_of_the_last_tokens() -> None:
    encoded = encode_steps(LETTERS, "Q: x\nA:", [" 1+1=2", "\n2+2=4"], max_length=100)
    # 7 letters of prompt, then two steps of 6
    assert encoded.step_positions == (12, 18)
    assert len(encoded.input_ids) == 19
    assert LETTERS.decode(encoded.input_ids) == "Q: x\nA: 1+1=2\n2+2=4"
    assert (encoded.num_lost_steps, encoded.num_cut_tokens) == (0, 0)


def test_a_letter_of_several_tokens_ends_at_the_last() -> None:
    encoded = encode_steps(LETTERS, "Q", [" é", "\n𝟙"], max_length=100)
    # Q | space, é = 2 bytes | line break, 𝟙 = 4 bytes
    assert encoded.step_positions == (3, 8)


def test_a_token_across_two_steps_is_cut_and_counted() -> None:
    assert len(MERGING("a.\n\nb.").input_ids) == 4
    encoded = encode_steps(MERGING, "Q", ["a.", "\n\nb."], max_length=100)
    assert encoded.num_cut_tokens == 1
    # Q | a . | LF LF b .
    assert encoded.step_positions == (2, 6)
    assert MERGING.decode(encoded.input_ids) == "Qa.\n\nb."


def test_a_token_inside_a_step_stays_whole() -> None:
    encoded = encode_steps(MERGING, "Q", ["a.\nb"], max_length=100)
    assert (encoded.step_positions, encoded.num_cut_tokens) == ((3,), 0)  # Q a .LF b


def test_a_token_across_prompt_and_step_is_cut() -> None:
    encoded = encode_steps(MERGING, "Q a", ["b", "b"], max_length=100)
    assert (encoded.step_positions, encoded.num_cut_tokens) == ((3, 4), 1)


STEPS = st.lists(
    st.text(alphabet="ab.\n 1é", min_size=1, max_size=6).filter(str.strip), min_size=1, max_size=6
)


@given(STEPS)
@settings(max_examples=200)
def test_a_prefix_is_encoded_as_in_the_whole(steps: list[str]) -> None:
    whole = encode_steps(MERGING, "Question a", steps, max_length=1000)
    assert MERGING.decode(whole.input_ids) == "Question a" + "".join(steps)
    for num_steps in range(1, len(steps) + 1):
        prefix = encode_steps(MERGING, "Question a", steps[:num_steps], max_length=1000)
        assert prefix.step_positions == whole.step_positions[:num_steps]
        assert prefix.step_positions[-1] == len(prefix.input_ids) - 1
        assert prefix.input_ids == whole.input_ids[: len(prefix.input_ids)]


def test_steps_beyond_max_length_are_lost_and_counted() -> None:
    steps = ["ab", "cd", "ef"]  # end at 2, 4, 6 after one letter of prompt
    for max_length, kept in [(7, 3), (6, 2), (5, 2), (4, 1), (2, 0)]:
        encoded = encode_steps(LETTERS, "Q", steps, max_length=max_length)
        assert len(encoded.step_positions) == kept
        assert encoded.num_lost_steps == 3 - kept
        assert len(encoded.input_ids) == max_length


def test_only_an_opening_special_token_is_added_also_where_the_text_is_cut() -> None:
    tokenizer = make_tokenizer(merges=((".", "Ċ"),))
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    encoded = encode_steps(tokenizer, "Q", ["a.", "\nb"], max_length=100)
    assert encoded.step_positions == (3, 5)
    assert [token_id for token_id in encoded.input_ids if token_id < 2] == [0]
    assert encoded.input_ids[0] == 0


def test_a_step_without_content_is_refused() -> None:
    with pytest.raises(DataError, match=r"step 1 is ' \\n'"):
        encode_steps(LETTERS, "Q", ["a", " \n"], max_length=100)


def test_no_steps_have_no_positions() -> None:
    assert encode_steps(LETTERS, "Q", [], max_length=100).step_positions == ()


SPELLED = "a</s>b<s>"


def test_control_tokens_written_in_question_or_step_are_letters() -> None:
    assert 1 in LETTERS(SPELLED)["input_ids"]
    encoded = encode_steps(LETTERS, f"Q{SPELLED}", [f" {SPELLED}", "</s>"], max_length=100)
    assert min(encoded.input_ids) > 1
    assert LETTERS.decode(encoded.input_ids) == f"Q{SPELLED} {SPELLED}</s>"
    assert encoded.step_positions == (19, 23)
    assert encoded.num_cut_tokens == 0


def test_the_opening_token_is_kept_beside_a_written_one() -> None:
    tokenizer = make_tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    encoded = encode_steps(tokenizer, "<s>Q", ["</s>"], max_length=100)
    assert encoded.input_ids[0] == 0
    assert min(encoded.input_ids[1:]) > 1
    assert encoded.step_positions == (8,)


def test_control_tokens_of_the_template_are_control_tokens() -> None:
    template, question = "<s>{question}</s>.\nA: {question}", "a</s>"
    prompt = fill(MERGING, template, question)
    assert prompt.text == "<s>a</s></s>.\nA: a</s>"
    encoded = encode_steps(MERGING, prompt, ["<s>"], max_length=100)
    assert [at for at, token_id in enumerate(encoded.input_ids) if token_id < 2] == [0, 6]
    assert MERGING.decode(encoded.input_ids) == prompt.text + "<s>"
    # <s> a < / s > </s> . LF A : space a < / s >, then < s >
    assert encoded.step_positions == (18,)
    assert encoded.num_cut_tokens == 0


def test_a_vocabulary_that_holds_its_control_tokens_as_pieces() -> None:
    pieces = ["<unk>", "</s>", *"a</s>", "▁"]
    scores = [-10.0, -0.1, *[-5.0] * 6]
    backend = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=0))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="</s>", unk_token="<unk>"
    )
    assert 1 in tokenizer("a</s>", split_special_tokens=True)["input_ids"]
    encoded = encode_steps(tokenizer, "a", ["</s>", "z</s>"], max_length=100)
    names = tokenizer.convert_ids_to_tokens(list(encoded.input_ids))
    assert names == ["a", "<", "/", "s", ">", "<unk>", "<", "/", "s", ">"]
    assert encoded.step_positions == (4, 9)
