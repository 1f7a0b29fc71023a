"""Grade rows in this process while everything that evaluates text is booby-trapped.

Run as a process: rows come as JSON lines on stdin (`gold`, `prediction`, `form`), a report
goes to stdout. Both tiers run here, in the process that watches. Watched by an audit hook,
which no Python code can take off: compiling or executing text, starting a process, opening a
file to write, connecting; by a patch: sympy's string parser, to which `sympify`, `S`, `N`,
`simplify` and `nsimplify` hand every string. What an import does is allowed.
"""

import json
import resource
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

import sympy
from sympy.parsing import sympy_parser  # noqa: TID251 - to break it

from grading.equivalence import SYMBOLIC
from grading.extract import extract_answer
from grading.grade import compare_answers, compare_with

SECONDS_A_TIER = 2.0
MEMORY = 3 * 2**30
FORBIDDEN = {
    "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "pty.spawn",
    "subprocess.Popen", "socket.connect", "os.remove", "os.rename", "os.mkdir", "shutil.rmtree",
    "pickle.find_class", "ctypes.dlopen",
}  # fmt: skip

seen: list[str] = []
is_watching = False


class ForbiddenError(BaseException):
    """Not an Exception, so that no `except Exception` hides it."""


class OvertimeError(BaseException):
    """The tier took too long for this test; the pool would kill it."""


def refuse(what: str) -> NoReturn:
    seen.append(what)
    raise ForbiddenError(what)


def watch(event: str, arguments: tuple[object, ...]) -> None:
    if is_watching and _is_forbidden(event, arguments) and not _is_allowed():
        refuse(f"{event} {arguments!r:.200}")


def _is_forbidden(event: str, arguments: tuple[object, ...]) -> bool:
    if event == "compile":
        return str(arguments[1]).startswith("<")
    if event == "exec":
        return str(getattr(arguments[0], "co_filename", "<")).startswith("<")
    if event == "open":
        return isinstance(arguments[1], str) and bool(set(arguments[1]) & set("wax+"))
    return event in FORBIDDEN


def _is_allowed() -> bool:
    """An import, or sympy's writer of monomial products, which knows only a number of letters."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == "<frozen importlib._bootstrap>" or file.endswith("sympy/polys/monomials.py"):
            return True
        frame = frame.f_back
    return False


def _guarded(parse: Callable[..., object]) -> Callable[..., object]:
    def guarded(*arguments: object, **named: object) -> object:
        if is_watching and not _is_allowed():
            refuse(f"sympy's parser {arguments!r:.200}")
        return parse(*arguments, **named)

    return guarded


def _overtime(_: int, __: FrameType | None) -> NoReturn:
    raise OvertimeError


def attempt(action: Callable[[], object]) -> str:
    """ "" where it ends well; else what became of it."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS_A_TIER)
    try:
        action()
    except OvertimeError:
        return "overtime"
    except ForbiddenError:
        return "forbidden"
    except MemoryError:
        return "memory"
    except Exception as error:  # noqa: BLE001 - it is what this reports
        return f"{type(error).__name__}: {error}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def grade(row: dict[str, str]) -> tuple[str, str]:
    """What became of the fast and of the symbolic tier."""
    gold, answer = row["gold"], row["prediction"]

    def fast() -> None:
        nonlocal answer
        if row["form"] == "response":
            answer = extract_answer(answer).answer
        compare_answers(gold, answer)

    return attempt(fast), attempt(lambda: compare_with(SYMBOLIC, gold, answer))


def trap_test() -> list[str]:
    """Every trap must snap: what did not."""
    snapping: dict[str, Callable[[], object]] = {
        "eval": lambda: eval("1+1"),
        "exec": lambda: exec("x = 1"),
        "compile": lambda: compile("1", "<text>", "eval"),
        "import os": lambda: __import__("os").system("true"),
        "open": lambda: open("/dev/null", "w"),  # noqa: PTH123, SIM115
        "S": lambda: sympy.S("1+1"),  # noqa: TID251
        "N": lambda: sympy.N("1/3"),  # noqa: TID251
        "simplify": lambda: sympy.simplify("x+x"),
        "nsimplify": lambda: sympy.nsimplify("0.5"),  # noqa: TID251
        "lambdify": lambda: sympy.lambdify(sympy.Symbol("x"), "x+1"),  # noqa: TID251
    }
    return [name for name, action in snapping.items() if attempt(action) != "forbidden"]


def main() -> None:
    global is_watching
    rows = [json.loads(line) for line in sys.stdin]
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _overtime)
    for name in ("parse_expr", "eval_expr", "stringify_expr"):
        setattr(sympy_parser, name, _guarded(getattr(sympy_parser, name)))
    sys.addaudithook(watch)
    is_watching = True
    outcomes = [grade(row) for row in rows]
    violations = list(seen)
    not_snapping = trap_test()
    is_watching = False
    report = {"outcomes": outcomes, "violations": violations, "not_snapping": not_snapping}
    sys.stdout.write(json.dumps(report))


if __name__ == "__main__":
    main()
