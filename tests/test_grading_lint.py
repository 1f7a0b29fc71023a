"""No text of an answer can reach something that evaluates text, by reading the source.

Ruff bans the imports (pyproject.toml); this reads every call in grading/: no `eval`, `exec`,
`compile`, `sympify` and the like, no text to sympy or mpmath but the name of a symbol, and
nothing looked up or imported by a computed name.
"""

import ast
from pathlib import Path

import pytest

GRADING = Path(__file__).resolve().parents[1] / "grading"
LIBRARIES = {"sympy", "mpmath"}
BUILTINS = {"eval", "exec", "compile", "__import__", "globals", "locals", "vars", "breakpoint"}
EVALUATING = {
    "S", "N", "sympify", "nsimplify", "lambdify", "parse_expr", "parse_latex", "symbols", "var",
    "mpmathify", "mpf_from_str", "autowrap", "ufuncify", "plot", "preview", "eval_expr",
    "import_module",
}  # fmt: skip
NAMING = {"Symbol", "Dummy", "Function", "Wild", "MatrixSymbol"}
PROCESSES = {"subprocess", "pickle", "marshal", "shelve", "ctypes", "importlib", "code", "runpy"}
ALLOWED_IMPORTS = {("worker_process.py", "subprocess"), ("version.py", "importlib")}


def findings(source: str, name: str = "snippet.py") -> list[str]:
    """What the rules of this file refuse in a module, with line numbers."""
    return _Reader(name).read(ast.parse(source))


@pytest.mark.parametrize("path", sorted(GRADING.glob("*.py")), ids=lambda path: path.name)
def test_no_module_evaluates_text(path: Path) -> None:
    assert findings(path.read_text(), path.name) == []


def test_the_package_has_no_other_folders() -> None:
    folders = {path.name for path in GRADING.iterdir() if path.is_dir()}
    assert folders <= {"__pycache__"}


@pytest.mark.parametrize(
    "snippet",
    [
        "eval(answer)",
        "exec('x = 1')",
        "compile(answer, '', 'eval')",
        "__import__('os').system(answer)",
        "import builtins\nbuiltins.eval(answer)",
        "import sympy\nsympy.sympify(answer)",
        "import sympy\nsympy.S(answer)",
        "import sympy as sp\nsp.N(answer)",
        "import sympy\nsympy.nsimplify(number)",
        "from sympy import S as whole\nwhole(answer)",
        "from sympy.parsing.sympy_parser import parse_expr\nparse_expr(answer)",
        "from sympy.core import sympify\nsympify(answer)",
        "import sympy\nsympy.lambdify(x, answer)",
        "import sympy\nsympy.Integer('12')",
        "import sympy\nsympy.simplify(f'{answer}')",
        "import sympy\nsympy.Rational(node.value)",
        "import sympy\nsympy.Add(str(node), 1)",
        "import sympy\nsympy.symbols('x y')",
        "import mpmath\nmpmath.mpf('0.1')",
        "import mpmath\nmpmath.mpf(token.text)",
        "import mpmath\nmpmath.mpmathify(answer)",
        "import sympy\ngetattr(sympy, name)(1)",
        "import sympy\nsimplify = sympy.sympify",
        "from sympy import *",
        "import pickle\npickle.loads(answer)",
        "import importlib\nimportlib.import_module(answer)",
        "import os\nos.system(answer)",
        "from os import popen\npopen(answer)",
    ],
)
def test_the_rules_can_fail(snippet: str) -> None:
    assert findings(snippet)


def test_what_the_grader_may_do() -> None:
    allowed = (
        "import re, sympy, mpmath, os\n"
        "from sympy import Symbol as letter\n"
        "re.compile(answer)\n"
        "sympy.Symbol(node.value, real=True)\n"
        "letter('x')\n"
        "sympy.Rational(numerator, denominator)\n"
        "sympy.simplify(tree).equals(0)\n"
        "mpmath.mpf(numerator) / mpmath.mpf(10)\n"
        "os.getpid()\n"
    )
    assert findings(allowed) == []


class _Reader:
    def __init__(self, name: str) -> None:
        self._name = name
        self._found: list[str] = []
        self._libraries: dict[str, str] = {}  # local name → library
        self._members: dict[str, str] = {}  # local name → member of a library

    def read(self, tree: ast.Module) -> list[str]:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._imports(node)
            elif isinstance(node, ast.ImportFrom):
                self._imports_from(node)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and node.id in BUILTINS:
                self._refuse(node, f"`{node.id}`")
            elif isinstance(node, ast.Attribute):
                self._attribute(node)
            elif isinstance(node, ast.Call):
                self._call(node)
        return self._found

    def _refuse(self, node: ast.AST, what: str) -> None:
        self._found.append(f"{self._name}:{getattr(node, 'lineno', 0)}: {what}")

    def _imports(self, node: ast.Import) -> None:
        for alias in node.names:
            root = alias.name.partition(".")[0]
            if root in PROCESSES and (self._name, root) not in ALLOWED_IMPORTS:
                self._refuse(node, f"import of {alias.name}")
            if root in LIBRARIES:
                self._libraries[alias.asname or root] = root
                if "parsing" in alias.name:
                    self._refuse(node, f"import of {alias.name}")

    def _imports_from(self, node: ast.ImportFrom) -> None:
        root = (node.module or "").partition(".")[0]
        if root in PROCESSES | {"builtins"} and (self._name, root) not in ALLOWED_IMPORTS:
            self._refuse(node, f"import from {node.module}")
        for alias in node.names:
            if root == "os" and alias.name in ("system", "popen"):
                self._refuse(node, f"os.{alias.name}")
            if root not in LIBRARIES:
                continue
            if alias.name in EVALUATING | {"*"} or "parsing" in (node.module or ""):
                self._refuse(node, f"{alias.name} of {node.module}")
            self._members[alias.asname or alias.name] = alias.name

    def _attribute(self, node: ast.Attribute) -> None:
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        if owner in self._libraries and node.attr in EVALUATING | {"parsing"}:
            self._refuse(node, f"{owner}.{node.attr}")
        if owner == "builtins" or (owner == "os" and node.attr in ("system", "popen")):
            self._refuse(node, f"{owner}.{node.attr}")

    def _call(self, node: ast.Call) -> None:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "getattr":
            first = node.args[0]
            if isinstance(first, ast.Name) and first.id in self._libraries:
                self._refuse(node, f"getattr of {first.id}")
        member = self._member(function)
        if member is None or member in NAMING:
            return
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            if _is_text(argument):
                self._refuse(node, f"text for {member}: {ast.unparse(argument)}")

    def _member(self, function: ast.expr) -> str | None:
        if isinstance(function, ast.Name):
            return self._members.get(function.id)
        root = function
        while isinstance(root, ast.Attribute):
            root = root.value
        is_library = isinstance(root, ast.Name) and root.id in self._libraries
        return function.attr if is_library and isinstance(function, ast.Attribute) else None


def _is_text(argument: ast.expr) -> bool:
    if isinstance(argument, ast.Constant):
        return isinstance(argument.value, str)
    if isinstance(argument, ast.JoinedStr):
        return True
    if isinstance(argument, ast.Attribute):  # of a tree node or a token
        return argument.attr in ("value", "text")
    is_call = isinstance(argument, ast.Call) and isinstance(argument.func, ast.Name)
    return is_call and argument.func.id in ("str", "repr", "format")
