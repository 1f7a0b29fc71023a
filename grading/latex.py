r"""LaTeX of an answer → the few spellings that the grammar knows.

Presentation goes: sizes, spacing, styles, colours, boxes, mathematics delimiters, alignment
environments. Text commands become `\text{…}`; synonyms (`\dfrac`, `\leqslant`, `\lbrace`)
become one name; doubled backslashes of a second escaping become single. Nothing here
decides what an answer means. Every pass is linear in the text.
"""

import re

__all__ = ["FUNCTION_NAMES", "UNIT_LETTERS", "is_balanced", "unify_latex"]


def unify_latex(text: str) -> str:
    r"""The same formula without presentation; words stay inside `\text{…}`."""
    if "{," in text or "\\," in text or "\\!" in text:
        text = _GROUPED.sub(_digits_only, text)
    if "\\" in text:
        text = _unescaped_twice(text)
        for trigger, pattern, replacement in _REWRITES:
            if trigger in text:
                text = pattern.sub(replacement, text)
        text = _COMMAND.sub(_uniform_command, text)
        text = _ENDS_OF_PROOF.sub("", text)
        if "\\begin" in text:
            text = _without_environments(text)
        if _WRAPPING.search(text) is not None:
            text = _unwrapped(_BOXES_SIDE_BY_SIDE.sub(r"},\\boxed", text))
        text = _SPACING.sub(" ", text)
    if "$" in text:
        text = text.replace("$", " ")
    if "&" in text and "\\begin" not in text:
        text = _ALIGNED_RELATION.sub("", text)
    if "~" in text:
        text = text.replace("~", " ")
    if "**" in text:
        bold = _BOLD.fullmatch(text.strip())
        text = bold[1] if bold is not None else text.replace("**", "^")
    return " ".join(text.split())


def is_balanced(text: str) -> bool:
    """Whether no bracket or brace is open at the end; the kinds are not told apart."""
    return len(_OPENER.findall(text)) == len(_CLOSER.findall(text))


_FUNCTION_WORDS = """
    sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh ln log exp gcd lcm max min det
    floor ceil sgn arcsinh arccosh arctanh arsinh arcosh artanh asinh acosh atanh asin acos atan
    csch sech coth arccot arcsec arccsc Re Im tr rank lim mod sign cis arg
"""
FUNCTION_NAMES = frozenset(_FUNCTION_WORDS.split())
"""Upright words that are functions, not units or prose."""
UNIT_LETTERS = frozenset("msghlLJNWVK")
"""Letters that are units when set upright after a number."""


_OPENER = re.compile(r"[(\[{]")
_CLOSER = re.compile(r"[)\]}]")
_ALIGNED_RELATION = re.compile(
    r"&\s*(?=[=<>]|\\(?:[lg]e|ne|in|approx|equiv)(?![A-Za-z]))|(?<=[=<>])\s*&"
)
_BOLD = re.compile(r"\*\*([^*]*)\*\*\.?")


_STYLES = """
    displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits mathstrut strut rm bf it
    sf tt cal centering noindent nonumber notag hfill null unboldmath boldmath Large large LARGE
    huge small normalsize protect allowbreak nobreak mathopen mathclose mathord mathpunct
"""
_ENDS_OF_PROOF = re.compile(
    r"\A\s*\\(?:therefore|implies|Rightarrow)(?![A-Za-z])"
    r"|\\(?:checkmark|blacksquare|square|Box|qed|QED|qedhere)[\s.$]{0,8}\Z"
)
_SIZES = """
    left right mleft mright middle big Big bigg Bigg bigl bigr bigm Bigl Bigr Bigm biggl biggr
    biggm Biggl Biggr Biggm
"""
_ANGLES = "angle measuredangle triangle"
_DELIMITERS = {
    "lvert": "|", "rvert": "|", "vert": "|", "lVert": "\\|", "rVert": "\\|", "Vert": "\\|",
    "lbrack": "[", "rbrack": "]", "lgroup": "(", "rgroup": ")", "lbrace": "\\{", "rbrace": "\\}",
    "lparen": "(", "rparen": ")", "quad": " ", "qquad": " ",
}  # fmt: skip
_SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "leq": "le", "leqq": "le", "leqslant": "le", "geq": "ge", "geqq": "ge", "geqslant": "ge",
    "neq": "ne", "longrightarrow": "to", "rightarrow": "to", "varnothing": "emptyset",
    "wedge": "land", "vee": "lor", "R": "mathbb{R}", "Z": "mathbb{Z}", "N": "mathbb{N}",
    "Q": "mathbb{Q}", "simeq": "approx", "thickapprox": "approx", "approxeq": "approx",
    "upi": "pi",
    **dict.fromkeys(
        ("textbf", "textit", "textrm", "textnormal", "textsf", "textup", "textsc", "mbox", "hbox",
         "emph"), "text",
    ),
}  # fmt: skip
_UNIFORM: dict[str, str] = {
    **dict.fromkeys(_STYLES.split(), ""),
    **_DELIMITERS,
    **{name: "\\" + synonym for name, synonym in _SYNONYMS.items()},
    "lt": "<", "gt": ">", "minus": "-", "degree": "^\\circ ", "degrees": "^\\circ ",
    **dict.fromkeys(("enspace", "enskip", "thinspace", "medspace", "thickspace", "negthinspace",
                     "space", "newline", "linebreak"), " "),
}  # fmt: skip
_DROPPED_WITH_POINT = frozenset(_SIZES.split())
_NAMING_LETTERS = frozenset(_ANGLES.split())
_COMMAND = re.compile(r"(?<!\\)\\([A-Za-z]+)(\s?\.(?!\d)|\s?(?=[A-Z]))?|\\\\\\([A-Za-z]+)")
_SPACING = re.compile(r"(?<!\\)\\[,;:!> ]|(?<!\\)\\(?=\s|$)")
_GROUPED = re.compile(
    r"(?<![\d.,])\d{1,3}(?:(?:\s?\{,\s?\}\s{0,2}\d{3})+|(?:,\s{0,2}\\!\s{0,2}\d{3})+"
    r"|(?:\\,\d{3})+|(?:\\!,\d{3})+)(?!\d)"
)
_NOT_DIGITS = re.compile(r"\D+")
_NEGATED_RELATIONS = {
    "=": "ne", "<": "ge", ">": "le", "in": "notin", "equiv": "nequiv", "mid": "nmid", "sim": "nsim",
    "cong": "ncong", "parallel": "nparallel", "subset": "nsubset", "subseteq": "nsubseteq",
    "supset": "nsupset", "supseteq": "nsupseteq", "exists": "nexists", "le": ">", "leq": ">",
    "ge": "<", "geq": "<",
}  # fmt: skip


def _negated(match: re.Match[str]) -> str:
    negated = _NEGATED_RELATIONS.get(match[1].removeprefix("\\"))
    if negated is None:
        return match[0]
    return f" {negated} " if negated in "<>" else f"\\{negated} "


_REWRITES = tuple(
    (trigger, re.compile(pattern), replacement)
    for trigger, pattern, replacement in (
        ("\\n", r"(?<!\\)\\n(?![A-Za-z])", " "),
        ("\\left", r"\\m?left\s?\.", " "),
        ("\\right", r"\\m?right\s?\.", " "),
        ("\\not", r"\\not\s?(=|<|>|\\[a-z]+)", _negated),
        ("{\\", r"\{\s?\\(?:rm|bf|it|sf|tt)(?![A-Za-z])\s?([A-Za-z. ]+)\}", r"\\text{\1}"),
        ("space", r"\\[hv]space\*?\s?\{[^{}]*\}", " "),
        ("phantom", r"\\[hv]?phantom\s?\{[^{}]*\}", " "),
        ("\\label", r"\\label\s?\{[^{}]*\}", " "),
        ("\\tag", r"\\tag\*?\s?\{[^{}]*\}", " "),
        ("color", r"\\(?:text)?color\s?\{[^{}]*\}(?=\s?\{)", r"\\ensuremath"),
        ("\\color", r"\\color\s?\{[^{}]*\}", ""),
        ("\\circ", r"\^\s?\{\s?\\circ\s?\}", r"^\\circ "),
        ("\\prime", r"\^\s?\{\s?\\prime\s?\}|\^\s?\\prime(?![A-Za-z])", "'"),
        ("\\", r"(?<=\d)\\[;: ](?=\d{3}(?!\d))", " "),
        ("\\%", r"\\%", "%"),
        ("\\\\", r"\\\\\s?\[\d+(?:pt|em|ex|mm|cm)\]", r"\\\\"),
        ("\\(", r"(?<!\\)\\[()]", " "),
        ("\\)", r"(?<!\\)\\[()]", " "),
        ("\\[", r"(?<!\\)\\[\[\]]", " "),
        ("\\]", r"(?<!\\)\\[\[\]]", " "),
    )
)


def _digits_only(match: re.Match[str]) -> str:
    return _NOT_DIGITS.sub("", match[0])


def _uniform_command(match: re.Match[str]) -> str:
    name, after = match[1], match[2] or ""
    if name is None:
        return "\\\\" + _COMMAND.sub(_uniform_command, match[0][2:])
    uniform = _UNIFORM.get(name)
    if uniform is not None:
        return uniform + after
    if name in _DROPPED_WITH_POINT:
        return "" if "." in after else after
    if name in _NAMING_LETTERS and match[2] is not None and "." not in after:
        return after
    if name[:-1] in _DELIMITERS:
        return _DELIMITERS[name[:-1]] + name[-1] + after
    return match[0]


# -- a second escaping ------------------------------------------------------------------

_DOUBLED = re.compile(r"(?<!\\)\\\\(?=[A-Za-z])")
_SINGLE = re.compile(r"(?<!\\)\\(?=[A-Za-z])")
_KNOWN_DOUBLED = re.compile(
    r"(?<!\\)\\\\(?=(?:[dt]?frac|sqrt|left|right|pi|text|le|leq|ge|geq|lt|gt|cdot|times|infty|in"
    r"|cup|cap|boxed|sin|cos|tan|ln|log|circ|big|Big|bigg|Bigg|alpha|beta|theta|pm|ne|neq|mathrm"
    r"|mathbf|mathbb|quad|binom)(?![A-Za-z]))"
)


def _unescaped_twice(text: str) -> str:
    r"""`\\frac` → `\frac`, but the row separator of a matrix stays."""
    if "\\\\" not in text:
        return text
    if _DOUBLED.search(text) is not None and _SINGLE.search(text) is None:
        return text.replace("\\\\", "\\")
    return text if "\\begin" in text else _KNOWN_DOUBLED.sub("\\\\", text)


# -- environments -------------------------------------------------------------------------

_ALIGNED = r"(?:align|equation|gather|gathered|aligned|split|multline|eqnarray|displaymath|math)"
_ALIGNMENT = re.compile(r"\\(?:begin|end)\s?\{" + _ALIGNED + r"(?:ed)?\*?\}(?:\{[lcr| ]*\})?")
_SYSTEM = re.compile(
    r"(?:\\begin\s?\{cases\}|\\\{\s*\\begin\s?\{(?:array|matrix)\}(?:\s?\{[lcr| ]*\})?)"
    r"((?:[^&\\]|\\(?!begin|end))*)\\end\s?\{(?:cases|array|matrix)\}(?!\s*\\\})"
)
_ROW_END = re.compile(r"\s*,?\s*\\\\\s*")
_ENDS_OF_ROWS = re.compile(r"^[\s,]+|[\s,]+$")


def _without_environments(text: str) -> str:
    if _ALIGNMENT.search(text) is not None:
        is_matrix_inside = "\\begin" in (text := _ALIGNMENT.sub(" ", text))
        if not is_matrix_inside:
            text = _rows_joined(text.replace("&", " "))
    return _SYSTEM.sub(lambda match: f" {_rows_joined(match[1])} ", text)


def _rows_joined(rows: str) -> str:
    """Rows become items, except that a row that begins with a relation goes on."""
    parts = [part for part in _ROW_END.split(rows) if part.strip()]
    joined = ""
    for part in parts:
        is_continued = part.lstrip().startswith(("=", "<", ">", "\\le", "\\ge", "+", "-"))
        joined += part if not joined or is_continued else ", " + part
    return _ENDS_OF_ROWS.sub("", joined)


# -- groups that only style ------------------------------------------------------------------

_WRAPPERS = """
    boxed fbox framebox underline mathbf boldsymbol bm mathrm mathit mathsf mathtt mathnormal
    mathscr mathcal pmb textcolor ensuremath displaylines cancel colorbox operatorname variable
    operatornamewithlimits mathop mathrel mathbin smash
"""
_WRAPPER = r"\\(" + "|".join(_WRAPPERS.split()) + r")(?![A-Za-z])\*?"
_WRAPPING = re.compile(_WRAPPER)
_SCANNED = re.compile(_WRAPPER + r"\s{0,3}(\{)?|\\.|[{}]", re.DOTALL)
_BOXES_SIDE_BY_SIDE = re.compile(r"\}[\s$]*\\boxed(?![A-Za-z])")
_UPRIGHT = frozenset(("mathrm", "mathsf", "mathtt", "mathbf", "mathit", "operatorname"))
_UPRIGHT_WORD = re.compile(r"[\s~]*([A-Za-z][A-Za-z. ]*)[\s~]*\}")


def _unwrapped(text: str) -> str:
    r"""Remove styling commands with their braces; upright words become `\text{…}`.

    One pass with a stack: `closers` says what each open brace closes with.
    """
    out: list[str] = []
    closers: list[str] = []
    position = 0
    for match in _SCANNED.finditer(text):
        if match.start() < position:
            continue
        out.append(text[position : match.start()])
        position = match.end()
        if match[1] is not None:
            position = _open_wrapper(text, match, out, closers)
        elif match[0] == "{":
            out.append("{")
            closers.append("}")
        elif match[0] == "}":
            out.append(closers.pop() if closers else "}")
        else:
            out.append(match[0])
    out.append(text[position:])
    return "".join(out)


def _open_wrapper(text: str, match: re.Match[str], out: list[str], closers: list[str]) -> int:
    """Handle one wrapping command; returns where the scan goes on."""
    if match[2] is None:
        return match.end(1)
    before = _last_sign(out)
    if match[1] in _UPRIGHT:
        word = _UPRIGHT_WORD.match(text, match.end())
        content = word[1].strip() if word is not None else ""
        if word is not None and content in FUNCTION_NAMES:
            out.append(f"\\{content} ")
            return word.end()
        is_unit = content in UNIT_LETTERS and (before.isdigit() or before in ("}", ")"))
        if word is not None and (len(content) > 1 or is_unit):
            out.append(f"\\text{{{content}}}")
            return word.end()
    is_script = before in ("^", "_")
    out.append("{" if is_script else "")
    closers.append("}" if is_script else "")
    return match.end()


def _last_sign(out: list[str]) -> str:
    for piece in reversed(out[-3:]):
        if (stripped := piece.rstrip(" ~\\")) != "":
            return stripped[-1]
    return ""
