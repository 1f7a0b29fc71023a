"""The tree that a search grows: a node is a question with the text written so far.

Equal texts drawn from one node are one child, which counts its draws. The JSON form is a
flat list in the order in which the nodes came about, each with its parent's place in it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class NodeState(StrEnum):
    """`open` can be continued; `finished` was ended by the model; `cut-off` by a limit."""

    OPEN = "open"
    FINISHED = "finished"
    CUT_OFF = "cut-off"


@dataclass(slots=True, eq=False)
class Node:
    """`text` is all that was written, a step's separator at its end included.

    `num_tokens` are the generated ones from the root to here, on this path alone.
    `step_scores` has one score for each of `steps`. `value` is the aggregate that says where to
    go on, `score` the one that ranks solutions.
    """

    text: str
    parent: "Node | None" = None
    state: NodeState = NodeState.OPEN
    depth: int = 0
    num_tokens: int = 0
    steps: tuple[str, ...] = ()
    step_scores: tuple[float, ...] = ()
    value: float = 0.0
    score: float = 0.0
    answer: str = ""
    """Of a node that is not open; "" where it has none."""
    num_draws: int = 1
    """How often its parent's samples came out as this text."""
    tree_index: int = 0
    """Of the independent tree it belongs to (DVTS); part of its samples' seeds."""
    num_drawn: int = 0
    """Samples drawn from here so far: the next seed."""
    visits: int = 0
    total_value: float = 0.0
    is_closed: bool = False
    """Nothing is left to find below it (MCTS)."""
    children: list["Node"] = field(default_factory=list["Node"])

    @property
    def last_piece(self) -> str:
        """What was written since the parent."""
        return self.text[len(self.parent.text) :] if self.parent else self.text

    def path(self) -> list["Node"]:
        """From the root to here, both included."""
        nodes: list[Node] = []
        node: Node | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def walk(self) -> Iterator["Node"]:
        """This node and all below it, a parent before its children."""
        waiting: list[Node] = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.children))


def tree_as_json(roots: list[Node]) -> list[dict[str, Any]]:
    """All nodes of the trees as JSON objects; `parent` is a place in the list, or None."""
    places: dict[int, int] = {}
    rows: list[dict[str, Any]] = []
    for root in roots:
        for node in root.walk():
            places[id(node)] = len(rows)
            rows.append(
                {
                    "id": len(rows),
                    "parent": None if node.parent is None else places[id(node.parent)],
                    "tree": node.tree_index,
                    "text": node.last_piece,
                    "state": node.state,
                    "step_scores": list(node.step_scores),
                    "value": node.value,
                    "score": node.score,
                    "answer": node.answer,
                    "draws": node.num_draws,
                    "visits": node.visits,
                    "mean_value": node.total_value / node.visits if node.visits else None,
                    "path_tokens": node.num_tokens,
                }
            )
    return rows
