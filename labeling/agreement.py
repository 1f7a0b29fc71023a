"""Agreement of labels with human ones, by question and steps.

A human label belongs to a prefix: the question and the steps up to the labelled one, with
white space made equal. Each distinct prefix counts once. Where people disagree the
majority counts; a tie is no label. Agreement by chance is taken out by Cohen's kappa (1960);
the first-error figures are ProcessBench's (arXiv 2412.06559): exact index on solutions with
an error, no error found on solutions without one, and the harmonic mean of the two.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pipeline.records import LabeledSolution


@dataclass(slots=True)
class HumanLabels:
    """Votes by prefix. About 150 bytes a labelled human step in memory."""

    _votes: dict[int, int] = field(default_factory=dict[int, int])
    _questions: set[int] = field(default_factory=set[int])
    num_steps: int = 0

    def tell(self, solution: LabeledSolution, *, hard_threshold: float = 0.0) -> None:
        """Add a solution whose hard labels are a human's; steps without a label are skipped."""
        self._questions.add(_question_key(solution.problem.question))
        for key, label in zip(_prefix_keys(solution), solution.labels, strict=True):
            if label.num_graded:
                self.num_steps += 1
                vote = 1 if label.hard_label(hard_threshold) else -1
                self._votes[key] = self._votes.get(key, 0) + vote

    def knows(self, question: str) -> bool:
        """Whether any human solution has this question."""
        return _question_key(question) in self._questions

    def label(self, prefix_key: int) -> bool | None:
        """Whether the prefix is right; None for an unknown one and for a tie."""
        vote = self._votes.get(prefix_key, 0)
        return vote > 0 if vote else None


@dataclass(slots=True)
class Agreement:
    """Our hard labels beside the human ones. `our_good_human_bad` and so on count prefixes;
    the other counts are of solutions.
    """

    human: HumanLabels
    hard_threshold: float
    both_good: int = 0
    both_bad: int = 0
    our_good_human_bad: int = 0
    our_bad_human_good: int = 0
    num_solutions: int = 0
    num_wrong_solutions: int = 0
    num_wrong_found: int = 0
    num_right_solutions: int = 0
    num_right_found: int = 0
    _seen: set[int] = field(default_factory=set[int])

    def tell(self, solution: LabeledSolution) -> None:
        """Compare a solution, as far as people labelled its prefixes."""
        if not self.human.knows(solution.problem.question):
            return
        self.num_solutions += 1
        human: list[bool | None] = []
        for key, label in zip(_prefix_keys(solution), solution.labels, strict=True):
            human.append(self.human.label(key))
            if human[-1] is not None and label.num_graded and key not in self._seen:
                self._seen.add(key)
                self._count(label.hard_label(self.hard_threshold), human[-1])
        self._tell_first_error(solution, human)

    def _count(self, ours: bool, humans: bool) -> None:
        if ours and humans:
            self.both_good += 1
        elif ours:
            self.our_good_human_bad += 1
        elif humans:
            self.our_bad_human_good += 1
        else:
            self.both_bad += 1

    def _tell_first_error(self, solution: LabeledSolution, human: Sequence[bool | None]) -> None:
        """Only where people labelled every step up to their first error, or all."""
        known = human[: human.index(False) + 1] if False in human else human
        if None in known:
            return
        ours = solution.first_error(self.hard_threshold)
        if False in known:
            self.num_wrong_solutions += 1
            self.num_wrong_found += ours == len(known) - 1
        else:
            self.num_right_solutions += 1
            self.num_right_found += ours == -1

    @property
    def num_prefixes(self) -> int:
        """Prefixes that both have a label of."""
        return self.both_good + self.both_bad + self.our_good_human_bad + self.our_bad_human_good

    @property
    def agreement(self) -> float | None:
        """The share of prefixes with equal labels; None for no prefix."""
        return (self.both_good + self.both_bad) / self.num_prefixes if self.num_prefixes else None

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None where one of the two has a single label for all."""
        total = self.num_prefixes
        ours, humans = (
            self.both_good + self.our_good_human_bad,
            self.both_good + self.our_bad_human_good,
        )
        by_chance = ours * humans + (total - ours) * (total - humans)  # of total squared
        if by_chance == total * total:
            return None
        equal = self.both_good + self.both_bad
        return (equal * total - by_chance) / (total * total - by_chance)

    @property
    def first_error_f1(self) -> float | None:
        """The harmonic mean of both accuracies; None where either has no solution."""
        if not (self.num_wrong_solutions and self.num_right_solutions):
            return None
        wrong = self.num_wrong_found / self.num_wrong_solutions
        right = self.num_right_found / self.num_right_solutions
        return 2 * wrong * right / (wrong + right) if wrong + right else 0.0


def _prefix_keys(solution: LabeledSolution) -> Iterator[int]:
    """The key of each prefix that ends with a step, in order."""
    running = hashlib.sha256(_plain(solution.problem.question))
    for step in solution.steps:
        running.update(b"\0" + _plain(step))
        yield _first_64_bits(running.digest())


def _question_key(question: str) -> int:
    return _first_64_bits(hashlib.sha256(_plain(question)).digest())


def _first_64_bits(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")


def _plain(text: str) -> bytes:
    return " ".join(text.replace("\0", " ").split()).encode("utf-8", "surrogatepass")
