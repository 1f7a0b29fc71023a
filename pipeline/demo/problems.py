"""The bundled demo domain: seeded multi-step arithmetic word problems.

A problem is a story about one running quantity: a start and a few events, each of
which asks for one or two lines of arithmetic. `demo_problem("train", 17)` is a pure
function of its arguments, so the exact truth of every step can be computed again
from the problem's id alone (`pipeline.demo.truth`). Splits draw from disjoint seeds.

Not covered: anything but whole numbers from 0 to `MAX_VALUE`.
"""

import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

MAX_VALUE = 150
MIN_STEPS = 3
MAX_STEPS = 8


class EventKind(StrEnum):
    """What happens to the running quantity; the sentence is in `SENTENCES`."""

    GAIN = "gain"
    LOSE = "lose"
    PACKS = "packs"
    TIMES = "times"
    SHARE = "share"
    FRACTION = "fraction"
    MORE = "more"
    FEWER = "fewer"
    INVERSE_FEWER = "inverse-fewer"
    INVERSE_MORE = "inverse-more"
    TOGETHER = "together"


LINES_PER_EVENT = {EventKind.PACKS: 2, EventKind.FRACTION: 2}
"""How many lines of arithmetic an event asks for; one where not named here."""

NEW_OWNER = {
    EventKind.MORE,
    EventKind.FEWER,
    EventKind.INVERSE_FEWER,
    EventKind.INVERSE_MORE,
}
"""Events after which the story is about somebody else's quantity."""


@dataclass(frozen=True, slots=True)
class Event:
    """One sentence of the story. `owner` is whose quantity is the running one after it.

    `amount` is the number in the sentence; `size` is the number in a pack (PACKS only).
    """

    kind: EventKind
    amount: int
    size: int
    owner: str
    sentence: str


@dataclass(frozen=True, slots=True)
class DemoProblem:
    """A generated problem. `gold_answer` is a whole number in decimal digits."""

    problem_id: str
    question: str
    gold_answer: str
    start: int
    thing: str
    events: tuple[Event, ...]


def demo_problem(split: str, index: int) -> DemoProblem:
    """The problem number `index` (from 0) of `split`, the same on every machine."""
    rng = random.Random(demo_seed(split, index))
    return _write_problem(rng, f"demo-{split}-{index:06d}", _WEIGHTS)


def comparison_lesson(split: str, index: int) -> DemoProblem:
    """A problem in which most events compare two people, to learn from: not of the domain,
    where comparisons are seldom and so are learnt late.
    """
    rng = random.Random(demo_seed(f"{split}/comparisons", index))
    weights = {kind: 6 if kind in NEW_OWNER else 1 for kind in EventKind}
    return _write_problem(rng, f"lesson-{split}-{index:06d}", weights)


def demo_seed(split: str, index: int) -> int:
    """The seed of problem `index` of `split`; distinct pairs have distinct seeds."""
    digest = hashlib.sha256(f"stepmark-demo/{split}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "big")


def event_value(event: Event, value: int) -> int:
    """The running value after `event`, when it was `value` before."""
    match event.kind:
        case EventKind.GAIN | EventKind.MORE | EventKind.INVERSE_FEWER | EventKind.TOGETHER:
            return value + event.amount
        case EventKind.LOSE | EventKind.FEWER | EventKind.INVERSE_MORE:
            return value - event.amount
        case EventKind.PACKS:
            return value + event.amount * event.size
        case EventKind.TIMES:
            return value * event.amount
        case EventKind.SHARE:
            return value // event.amount
        case EventKind.FRACTION:
            return value - value // event.amount


NAMES: tuple[str, ...] = (
    "Mia",
    "Tom",
    "Ana",
    "Ben",
    "Eva",
    "Leo",
    "Zoe",
    "Sam",
    "Ida",
    "Max",
    "Lia",
    "Jon",
)
THINGS = (
    "apples", "books", "coins", "cards", "eggs", "pens", "stamps", "shells", "marbles", "plums",
)  # fmt: skip
STARTS = ("{a} has {k} {t}.", "{a} starts with {k} {t}.", "There are {k} {t} in the box of {a}.")
SENTENCES: dict[EventKind, tuple[str, ...]] = {
    EventKind.GAIN: ("{a} buys {k} more.", "{a} finds {k} {t}.", "A friend gives {a} {k} {t}."),
    EventKind.LOSE: ("{a} gives away {k} of them.", "{a} loses {k} {t}.", "{a} sells {k} {t}."),
    EventKind.PACKS: ("{a} buys {k} packs of {s} {t}.", "{a} gets {k} bags with {s} {t} each."),
    EventKind.TIMES: (
        "Then the number of {t} of {a} becomes {k} times as large.",
        "{a} trades the {t} for {k} times as many.",
    ),
    EventKind.SHARE: (
        "{a} splits the {t} into {k} equal parts and keeps one.",
        "{a} shares the {t} equally among {k} people, {a} too.",
    ),
    EventKind.FRACTION: (
        "{a} gives away one part in {k} of the {t}.",
        "{a} loses 1/{k} of the {t}.",
    ),
    EventKind.MORE: ("{b} has {k} more {t} than {a}.", "{b} owns {k} {t} more than {a}."),
    EventKind.FEWER: ("{b} has {k} fewer {t} than {a}.",),
    EventKind.INVERSE_FEWER: ("{a} has {k} fewer {t} than {b}.", "That is {k} fewer than {b} has."),
    EventKind.INVERSE_MORE: ("{a} has {k} more {t} than {b}.", "That is {k} more than {b} has."),
    EventKind.TOGETHER: ("{b} adds {k} {t} to those of {a}.", "{a} gets {k} {t} from {b}."),
}


_WEIGHTS = {
    EventKind.GAIN: 4,
    EventKind.LOSE: 4,
    EventKind.PACKS: 2,
    EventKind.TIMES: 2,
    EventKind.SHARE: 2,
    EventKind.FRACTION: 2,
    EventKind.MORE: 1,
    EventKind.FEWER: 1,
    EventKind.INVERSE_FEWER: 1,
    EventKind.INVERSE_MORE: 1,
    EventKind.TOGETHER: 1,
}


def _write_problem(
    rng: random.Random, problem_id: str, weights: Mapping[EventKind, int]
) -> DemoProblem:
    owner, *others = rng.sample(NAMES, MAX_STEPS + 2)
    thing = rng.choice(THINGS)
    start = rng.randint(5, 60)
    sentences = [rng.choice(STARTS).format(a=owner, k=start, t=thing)]
    num_lines = rng.randint(MIN_STEPS, MAX_STEPS)
    value = start
    events: list[Event] = []
    while num_lines > 0:
        event = _draw_event(rng, value, owner, others, thing, weights)
        cost = LINES_PER_EVENT.get(event.kind, 1) if event is not None else 0
        if event is None or cost > num_lines:
            continue
        others = [name for name in others if name != event.owner]
        num_lines -= cost
        value, owner = event_value(event, value), event.owner
        events.append(event)
        sentences.append(event.sentence)
    question = f"{' '.join(sentences)} How many {thing} does {owner} have?"
    return DemoProblem(problem_id, question, str(value), start, thing, tuple(events))


def _draw_event(
    rng: random.Random,
    value: int,
    owner: str,
    others: list[str],
    thing: str,
    weights: Mapping[EventKind, int],
) -> Event | None:
    """A random event that keeps the running value within 2..MAX_VALUE, or None."""
    (kind,) = rng.choices(tuple(weights), weights=tuple(weights.values()))
    other = rng.choice(others)
    amount, size = rng.randint(2, 60), 0
    if kind is EventKind.PACKS:
        amount, size = rng.randint(2, 9), rng.randint(2, 9)
    elif kind in {EventKind.TIMES, EventKind.SHARE, EventKind.FRACTION}:
        amount = rng.randint(2, 5)
    if kind in {EventKind.SHARE, EventKind.FRACTION} and value % amount:
        return None
    sentence = rng.choice(SENTENCES[kind]).format(a=owner, b=other, k=amount, s=size, t=thing)
    event = Event(kind, amount, size, other if kind in NEW_OWNER else owner, sentence)
    return event if 2 <= event_value(event, value) <= MAX_VALUE else None
