"""What `stepmark solve` shows: ranked solutions with step scores, or the search's tree.

Texts come from a language model and are shown as `flows.display` shows them: plain, control
characters made visible.
"""

from collections import Counter

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.style import Style
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from flows.display import colour_of, printable
from search.solver import SearchResult, Solution, StopReason
from search.tree import Node, NodeState

MAX_CHILDREN = 8
MAX_NODES = 200
"""Shown of a tree; `--json` has all."""
_MARKS = {NodeState.OPEN: "", NodeState.FINISHED: " ■", NodeState.CUT_OFF: " … cut off"}
_STOPPED = {
    StopReason.COMPLETE: "",
    StopReason.BUDGET: ", ended by the budget",
    StopReason.AGREEMENT: ", ended early: the solutions agree",
}


def answer_sentence(result: SearchResult) -> Text:
    """The answer, the votes beside it, and what it cost."""
    return Text.assemble(
        "Answer: ",
        (_short(result.answer), "bold"),
        f" ({result.method}, {result.aggregation} of step scores; majority vote ",
        _short(result.majority_answer),
        ", weighted vote ",
        _short(result.weighted_answer),
        f"). {len(result.solutions)} solutions, {result.num_tokens} generated tokens"
        f"{_STOPPED[result.stopped]}.",
    )


def solutions_panel(result: SearchResult, *, limit: int) -> RenderableType:
    """The best distinct solutions, each step coloured by its score; the picked one is marked."""
    parts: list[RenderableType] = [Text(printable(result.question), "italic")]
    counts = Counter(solution.text for solution in result.solutions)
    distinct = list({solution.text: solution for solution in result.solutions}.values())
    shown = distinct[:limit]
    if result.picked is not None and result.picked.text not in {one.text for one in shown}:
        shown.append(result.picked)  # a vote's may rank lower
    for solution in shown:
        is_picked = result.picked is not None and solution.text == result.picked.text
        parts += [Text(""), _heading(solution, counts[solution.text], is_picked=is_picked)]
        parts.append(_steps(solution))
    num_left = len(distinct) - len(shown)
    if num_left > 0:
        parts += [Text(""), Text(f"and {num_left} other solutions", "dim")]
    return Panel(Group(*parts), title=Text(str(result.method)))


def search_tree(result: SearchResult) -> RenderableType:
    """The trees with what each step adds, its value, draws and visits."""
    picked = _picked_path(result)
    top = Tree(Text(printable(result.question), "italic"))
    num_left = MAX_NODES
    for root in result.roots:
        branch = top
        if len(result.roots) > 1:
            branch = top.add(Text(f"tree {root.tree_index + 1}", "dim"))
        waiting = [(root, branch)]
        while waiting:
            node, place = waiting.pop(0)
            ranked = sorted(
                node.children, key=lambda child: (id(child) not in picked, -child.value)
            )
            for child in ranked[:MAX_CHILDREN]:
                if num_left <= 0:
                    break
                num_left -= 1
                waiting.append((child, place.add(_node_text(child, id(child) in picked))))
            num_hidden = len(ranked) - MAX_CHILDREN
            if num_hidden > 0:
                place.add(Text(f"and {num_hidden} more", "dim"))
    return top


def _heading(solution: Solution, count: int, *, is_picked: bool) -> Text:
    mark = "➤ " if is_picked else "  "
    cut_off = ", cut off" if solution.is_cut_off else ""
    times = f", found {count} times" if count > 1 else ""
    return Text(
        f"{mark}{solution.score:.3f}  answer {_short(solution.answer)}  "
        f"({solution.tokens} tokens{cut_off}{times})",
        "bold" if is_picked else "",
    )


def _steps(solution: Solution) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(overflow="fold")
    for step, score in zip(solution.steps, solution.step_scores, strict=True):
        style = Style(color=colour_of(score))
        grid.add_row(Text(f"  {score:.2f}", style), Text(printable(step.strip()), style))
    return grid


def _node_text(node: Node, is_picked: bool) -> Text:
    style = Style(color=colour_of(node.value), bold=is_picked)
    counts = f" ×{node.num_draws}" if node.num_draws > 1 else ""
    counts += f" v{node.visits}" if node.visits else ""
    piece = " ".join(printable(node.last_piece).split())
    mark = " ➤" if is_picked and node.state is NodeState.FINISHED else ""
    return Text(f"{node.value:.2f} {piece}", style) + Text(f"{counts}{_MARKS[node.state]}{mark}")


def _picked_path(result: SearchResult) -> set[int]:
    """The nodes that lead to the picked solution, by identity."""
    if result.picked is None:
        return set()
    for root in result.roots:
        for node in root.walk():
            if node.text == result.picked.text and node.state is not NodeState.OPEN:
                return {id(one) for one in node.path()}
    return set()


def _short(answer: str) -> str:
    return " ".join(printable(answer).split())[:60] or "none"
