r"""Turn a question and the steps written so far into the prompt that an engine runs on.

Chat models get their own chat template with the assistant's turn begun: the prefix is
the beginning of the assistant's own text. Base models get a plain template.

Prompts are token ids. A solution is encoded once, after its prompt, and a prefix is cut
at the last token of its last step, so that the engine sees the very tokens that the
whole solution has (and its prefix cache hits). Where a step ends inside a token (`.` of
`.\n\n`), the text up to the cut is encoded by itself; `num_reencoded` counts those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from pydantic import field_validator

from pipeline.config import FrozenConfig
from pipeline.errors import ConfigError, DataError
from pipeline.records import Prefix, Problem


class PromptStyle(StrEnum):
    """`auto` is chat where the tokenizer has a chat template, else plain."""

    AUTO = "auto"
    CHAT = "chat"
    PLAIN = "plain"


class PromptConfig(FrozenConfig):
    """The text around the question. `{question}` is the only place holder."""

    style: PromptStyle = PromptStyle.AUTO
    """`auto` is chat where the tokenizer has a chat template, else plain."""
    plain_template: str = "Question: {question}\nAnswer:"
    """The whole text before a plain solution."""
    user_template: str = (
        "{question}\n\nReason step by step, each step in a line of its own, and put the "
        "final answer within \\boxed{}."
    )
    """The user's message of a chat."""
    system: str | None = None
    """The chat's system message; None leaves the template's own default."""

    @field_validator("plain_template", "user_template")
    @classmethod
    def _holds_the_question(cls, template: str) -> str:
        if "{question}" not in template:
            raise ValueError("the template does not contain {question}")
        return template


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt as text and as token ids (empty where there is no tokenizer)."""

    text: str
    ids: tuple[int, ...]


class PromptEncoder(Protocol):
    """Makes the prompts of one problem's prefixes."""

    def root(self, problem: Problem) -> Prompt:
        """The prompt of the question alone."""
        ...

    def prefixes(self, problem: Problem, steps: Sequence[str]) -> dict[str, Prompt]:
        """The prompts of all proper, non-root prefixes of a solution, by `prefix_id`."""
        ...

    def continuing(self, problem: Problem, text: str) -> Prompt:
        """The prompt that continues `text`, written after the question, encoded by itself."""
        ...


class TextPromptEncoder:
    """For samplers that read text: the plain template, no token ids."""

    def __init__(self, config: PromptConfig) -> None:
        self._config = config

    def root(self, problem: Problem) -> Prompt:
        """The prompt of the question alone."""
        return Prompt(_fill(self._config.plain_template, problem.question), ())

    def prefixes(self, problem: Problem, steps: Sequence[str]) -> dict[str, Prompt]:
        """The prompts of all proper, non-root prefixes of a solution, by `prefix_id`."""
        root = self.root(problem).text
        return {
            prefix.prefix_id: Prompt(root + prefix.text, ())
            for prefix in proper_prefixes(problem, steps)
        }

    def continuing(self, problem: Problem, text: str) -> Prompt:
        """The prompt that continues `text`, written after the question."""
        return Prompt(self.root(problem).text + text, ())


class TokenPromptEncoder:
    """For engines: prompts as token ids of `tokenizer`, a fast `transformers` tokenizer."""

    def __init__(self, config: PromptConfig, tokenizer: Any) -> None:
        if not tokenizer.is_fast:
            raise ConfigError(
                f"the tokenizer {type(tokenizer).__name__} of {tokenizer.name_or_path} gives no "
                "character offsets, which cutting a solution into prefixes needs; use a model "
                "with a tokenizer.json"
            )
        self._config = config
        self._tokenizer = tokenizer
        self._style = resolve_style(config, tokenizer)
        self._all_control_ids = frozenset(
            token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special
        )
        self.num_reencoded = 0
        """Prefixes whose last step ended inside a token of the whole solution."""

    def root(self, problem: Problem) -> Prompt:
        """The prompt of the question alone."""
        text = self._render(problem.question)
        return Prompt(text, self._opening(text) + self._prompt_ids(problem.question, text))

    def prefixes(self, problem: Problem, steps: Sequence[str]) -> dict[str, Prompt]:
        """The prompts of all proper, non-root prefixes of a solution, by `prefix_id`."""
        root = self.root(problem)
        solution = "".join(steps)
        encoded = self._tokenizer(
            solution,
            add_special_tokens=False,
            split_special_tokens=True,
            return_offsets_mapping=True,
            verbose=False,
        )
        ends = [int(end) for _, end in encoded["offset_mapping"]]
        ids: list[int] = list(encoded["input_ids"])
        prompts: dict[str, Prompt] = {}
        cut, num_tokens = 0, 0
        for prefix in proper_prefixes(problem, steps):
            cut += len(prefix.steps[-1])
            while num_tokens < len(ends) and ends[num_tokens] <= cut:
                num_tokens += 1
            if num_tokens and ends[num_tokens - 1] == cut:
                prefix_ids = tuple(ids[:num_tokens])
            else:
                self.num_reencoded += 1
                prefix_ids = self._ids(solution[:cut], is_content=True)
            prompts[prefix.prefix_id] = Prompt(root.text + solution[:cut], root.ids + prefix_ids)
        return prompts

    def continuing(self, problem: Problem, text: str) -> Prompt:
        """The prompt that continues `text`, written after the question, encoded by itself."""
        root = self.root(problem)
        return Prompt(root.text + text, root.ids + self._ids(text, is_content=True))

    def _render(self, question: str) -> str:
        if self._style is PromptStyle.PLAIN:
            return _fill(self._config.plain_template, question)
        messages = [{"role": "user", "content": _fill(self._config.user_template, question)}]
        if self._config.system is not None:
            messages.insert(0, {"role": "system", "content": self._config.system})
        return str(
            self._tokenizer.apply_chat_template(
                messages, tokenize=False, add_generation_prompt=True
            )
        )

    def _opening(self, text: str) -> tuple[int, ...]:
        """The BOS where the tokenizer begins texts with one, once: templates write theirs."""
        bos_id = self._tokenizer.bos_token_id
        first_ids = self._tokenizer(text, verbose=False)["input_ids"][:1]
        begins_with_bos = self._ids(text)[:1] == (bos_id,)
        return (bos_id,) if first_ids == [bos_id] and not begins_with_bos else ()

    def _prompt_ids(self, question: str, text: str) -> tuple[int, ...]:
        """The rendered prompt's ids; what a question spells never becomes a control token."""
        spelt = self._control_ids(self._ids(question))
        if spelt == self._control_ids(self._ids(question, is_content=True)):
            return self._ids(text)
        before, found, after = self._render(_PLACE).partition(_PLACE)
        if not found or _PLACE in after:
            raise DataError(
                f"the question {question[:80]!r} spells control tokens of the model, and the chat "
                "template does not show where it stands; leave the problem out"
            )
        return self._ids(before) + self._ids(question, is_content=True) + self._ids(after)

    def _control_ids(self, ids: tuple[int, ...]) -> list[int]:
        return [token_id for token_id in ids if token_id in self._all_control_ids]

    def _ids(self, text: str, *, is_content: bool = False) -> tuple[int, ...]:
        """The ids of a text; of content, a spelt control token is only characters."""
        ids = self._tokenizer(
            text, add_special_tokens=False, split_special_tokens=is_content, verbose=False
        )["input_ids"]
        return tuple(int(token_id) for token_id in ids)


_PLACE = "stepmark-place-of-the-question"


def resolve_style(config: PromptConfig, tokenizer: Any) -> PromptStyle:
    """Chat or plain, for this tokenizer. Raises ConfigError for chat without a template."""
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if config.style is PromptStyle.AUTO:
        return PromptStyle.CHAT if has_template else PromptStyle.PLAIN
    if config.style is PromptStyle.CHAT and not has_template:
        raise ConfigError(
            f"prompt.style = 'chat', but the tokenizer of {tokenizer.name_or_path} has no chat "
            "template; use prompt.style = 'plain'"
        )
    return config.style


def prompt_identity(config: PromptConfig, tokenizer: Any | None) -> dict[str, object]:
    """What of the prompt defines a label: the texts used, and the chat template."""
    if tokenizer is None or resolve_style(config, tokenizer) is PromptStyle.PLAIN:
        return {"style": "plain", "template": config.plain_template}
    return {
        "style": "chat",
        "template": config.user_template,
        "system": config.system,
        "chat_template": tokenizer.chat_template,
    }


def proper_prefixes(problem: Problem, steps: Sequence[str]) -> list[Prefix]:
    """The prefixes of 1 to `len(steps) - 1` steps: those that rollouts start from."""
    return [
        Prefix(problem.problem_id, tuple(steps[:num_steps])) for num_steps in range(1, len(steps))
    ]


def _fill(template: str, question: str) -> str:
    # str.format would read braces of LaTeX in the template as place holders
    return template.replace("{question}", question)
