"""From pairs of steps in a file to a policy: encode them as the completer's own text, train.

The prompt is the completer's ([prompt]) with the steps before. A step's tokens are those that
it has in its whole solution: separators begin the next step, and a cut is where the engine was
prompted. Only a step that ended its solution is followed by the end of the text.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from flows.run_config import RunConfig
from labeling.prompts import PromptStyle, TokenPromptEncoder, prompt_identity, resolve_style
from pipeline.config import ModelConfig
from pipeline.errors import ConfigError, DataError
from pipeline.records import Prefix, Problem
from pipeline.samplers.interrupts import interrupts_deferred
from pipeline.samplers.models import load_tokenizer
from storage.formats.pair_rows import PairRow, PairSide, read_pairs, refuse_filled
from train.pairs import EncodedPair

if TYPE_CHECKING:
    from train.dpo_report import DpoReport

OnProgress = Callable[[int, int], None]


def step_dpo(
    config: RunConfig, pairs: Path, out: Path, *, on_progress: OnProgress | None = None
) -> "DpoReport":
    """Train `config.dpo.base_model` on the Step-DPO rows in `pairs`, into the folder `out`.

    Raises ConfigError where trl is not installed, and as `read_pairs` and `train_step_dpo`.
    """
    if find_spec("trl") is None:
        raise ConfigError(
            "Step-DPO needs trl, which is not installed; install it with `pip install -e '.[dpo]'`"
        )
    model = ModelConfig(name=config.dpo.base_model, revision=config.dpo.revision)
    tokenizer = load_tokenizer(model)
    encoder = PairEncoder(TokenPromptEncoder(config.prompt, tokenizer), tokenizer.eos_token_id)
    rows = read_pairs(pairs)
    if resolve_style(config.prompt, tokenizer) is PromptStyle.PLAIN:
        rows = _unfilled(rows, pairs, config.prompt.plain_template)
    encoded = [_encoded(row, encoder, pairs) for row in rows]
    with interrupts_deferred():  # imports torch: after what can be refused at once
        from train.step_dpo import train_step_dpo
    return train_step_dpo(
        encoded,
        out,
        config.dpo,
        prompt=prompt_identity(config.prompt, tokenizer),
        on_progress=on_progress,
    )


@dataclass(frozen=True, slots=True)
class PairEncoder:
    """Makes token ids of pairs. `end_id` ends a text; None where the tokenizer has no such."""

    prompts: TokenPromptEncoder
    end_id: int | None

    def encode(self, pair: PairRow) -> EncodedPair:
        """The pair's prompt and steps; both steps follow the very same prompt."""
        problem = Problem(f"row-{pair.row}", pair.question, "", "", "")
        prompt, chosen = self._side(problem, pair.shared, pair.chosen)
        other_prompt, rejected = self._side(problem, pair.shared, pair.rejected)
        if prompt != other_prompt:  # one step, but not the other, shares a token with the prompt
            prompt = self.prompts.continuing(problem, pair.shared).ids
            chosen = self._apart(problem, pair.chosen.step)
            rejected = self._apart(problem, pair.rejected.step)
        return EncodedPair(
            row=pair.row,
            question=pair.question,
            prompt_ids=prompt,
            chosen_ids=chosen + self._end(pair.chosen),
            rejected_ids=rejected + self._end(pair.rejected),
        )

    def _side(
        self, problem: Problem, shared: str, side: PairSide
    ) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The prompt's ids and the step's, cut from those of the whole solution."""
        pieces = tuple(piece for piece in (shared, side.step, side.rest) if piece)
        found = self.prompts.prefixes(problem, pieces)
        root = self.prompts.root(problem)
        prompt = found[_prefix_id(problem, pieces[:1])].ids if shared else root.ids
        if side.rest:
            until_step = found[_prefix_id(problem, pieces[:-1])].ids
        else:
            until_step = self.prompts.continuing(problem, shared + side.step).ids
        if until_step[: len(prompt)] == prompt:
            return prompt, until_step[len(prompt) :]
        return prompt, self._apart(problem, side.step)

    def _apart(self, problem: Problem, step: str) -> tuple[int, ...]:
        """A step's ids by itself, as the engine goes on after a prompt that was cut."""
        num_root = len(self.prompts.root(problem).ids)
        return self.prompts.continuing(problem, step).ids[num_root:]

    def _end(self, side: PairSide) -> tuple[int, ...]:
        return (self.end_id,) if side.rest == "" and self.end_id is not None else ()


def _encoded(row: PairRow, encoder: PairEncoder, path: Path) -> EncodedPair:
    try:
        return encoder.encode(row)
    except DataError as error:
        raise DataError(f"{path}, row {row.row}: {error}") from error


def _prefix_id(problem: Problem, pieces: tuple[str, ...]) -> str:
    return Prefix(problem.problem_id, pieces).prefix_id


def _unfilled(rows: Iterable[PairRow], path: Path, template: str) -> Iterable[PairRow]:
    before, _, after = template.partition("{question}")
    for row in rows:
        refuse_filled(row, path, before=before, after=after)
        yield row
