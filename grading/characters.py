r"""Unicode, HTML and control characters of an answer → ASCII and LaTeX commands.

Covers minus signs, full-width forms, vulgar fractions, super- and subscripts, roots, Greek,
set and order signs, foreign digits, zero-width characters, `<sup>`/`<sub>`, and the control
characters that a careless unescape makes of `\frac`, `\text`, `\binom`, `\right`. Characters
that reorder what a reader sees (bidirectional overrides) are left in place, so that the
grammar refuses the text.
"""

import re
import unicodedata
from fractions import Fraction

__all__ = ["unify_characters"]


def unify_characters(text: str) -> str:
    """The same answer in ASCII as far as this module knows the characters; linear."""
    if not text.isascii():
        text = _unify_unicode(text)
    if _CONTROL.search(text) is not None or text.startswith(("ext{", "rac{")):
        text = _repair_escapes(text)
    if "<" in text and "</" in text:
        text = _HTML_SCRIPT.sub(_script_of_html, text)
    if "&" in text and ";" in text:
        text = _ENTITY.sub(lambda match: _ENTITIES[match[1]], text)
    return text


_SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺⁽⁾ⁿⁱˣ", "0123456789-+()nix", strict=True))
_SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₋₊ₐₑₒₓᵢⱼₖₗₘₙₚₛₜ", "0123456789-+aeoxijklmnpst", strict=True))
_SUPERSCRIPT_RUN = re.compile("[" + "".join(_SUPERSCRIPTS) + "]+")
_SUBSCRIPT_RUN = re.compile("[" + "".join(_SUBSCRIPTS) + "]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_ROOT = re.compile(r"([√∛∜])\s?(?:(\d+(?:\.\d+)?)|([A-Za-z])(?![A-Za-z]))?")
_ROOT_COMMANDS = {"√": "\\sqrt", "∛": "\\sqrt[3]", "∜": "\\sqrt[4]"}

_GREEK_SMALL = """
    alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho
    - sigma tau upsilon phi chi psi omega
"""
_GREEK_CAPITAL = {
    "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma",
    "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
_COMMANDS = {
    "×": "times", "⋅": "cdot", "·": "cdot", "∙": "cdot", "∞": "infty", "≤": "le", "≥": "ge",
    "⩽": "le", "⩾": "ge", "≦": "le", "≧": "ge", "≠": "ne", "±": "pm", "∓": "mp", "∪": "cup",
    "∩": "cap", "∈": "in", "∉": "notin", "⊂": "subset", "⊆": "subseteq", "⊃": "supset",
    "⊇": "supseteq", "∖": "setminus", "∅": "emptyset", "≈": "approx", "≡": "equiv", "…": "ldots",
    "⋯": "cdots", "∀": "forall", "∃": "exists", "∧": "land", "∨": "lor", "¬": "neg", "∠": "angle",
    "△": "triangle", "∑": "sum", "∏": "prod", "∫": "int", "→": "to", "⇒": "Rightarrow",
    "⌊": "lfloor", "⌋": "rfloor", "⌈": "lceil", "⌉": "rceil", "⟨": "langle", "⟩": "rangle",
    "∂": "partial", "∥": "parallel", "⊥": "perp", "∼": "sim", "≅": "cong", "ℓ": "ell",
    "ℏ": "hbar", "∘": "circ", "∣": "mid",
}  # fmt: skip
_NAMED_SETS = {"ℝ": "R", "ℤ": "Z", "ℕ": "N", "ℚ": "Q", "ℂ": "C"}
_PLAIN = {
    "÷": "/", "⁄": "/", "∕": "/", "∗": "*", "°": "^\\circ ", "º": "^\\circ ", "˚": "^\\circ ",
    "¢": " cents ", "、": ",", "。": ".",
    "：": ":", "“": '"', "”": '"', "‘": "'", "’": "'", "′": "'", "″": "''", "【": "[", "】": "]",
    "｡": ".", "٪": "%", "\u2028": " ", "\u2029": " ",
}  # fmt: skip
_MINUS = "−–—‐‑‒﹣－"
_INVISIBLE = (
    "\u00ad\u061c\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u2060\u2061\u2062"
    "\u2063\u2064\u2066\u2067\u2068\u2069\ufe0e\ufe0f\ufeff"
)
_SIGNS: dict[int, str] = {
    **dict.fromkeys(map(ord, _MINUS), "-"),
    **dict.fromkeys(map(ord, _INVISIBLE), ""),
    **{
        code: f"\\{name} "
        for code, name in enumerate(_GREEK_SMALL.split(), start=ord("α"))
        if name != "-"
    },
    **{ord(sign): f"\\{name} " for sign, name in (_COMMANDS | _GREEK_CAPITAL).items()},
    **{ord(sign): f"\\mathbb{{{letter}}}" for sign, letter in _NAMED_SETS.items()},
    **{ord(sign): plain for sign, plain in _PLAIN.items()},
}

_CONTROL = re.compile("[\x07\x08\x0b\x0c\r\t\n]")
_ESCAPED = re.compile(
    "\x07(?=lpha|pprox|ngle|rc(?:sin|cos|tan))"
    "|\x08(?=inom|eta|egin|oxed|ar\\{|f\\b|oldsymbol|mod|ig)"
    "|\x0b(?=ec|ert|ar(?:phi|epsilon|theta|nothing))"
    "|\x0c(?=rac|loor|orall|box)"
    "|\r(?=ight|angle|ceil|floor|ho\\b|brace)"
    "|\t(?=ext(?:bf|it|rm)?\\{\\s*[A-Za-z(]|imes|heta|an[\\\\({^]|frac|au\\b|binom|riangle)"
    "|\n(?=eq\\b|otin\\b)"
)
_TEXT_AT_START = re.compile(r"ext\{\s*[A-Za-z(]")
_ESCAPE_LETTERS = {
    "\x07": "\\a", "\x08": "\\b", "\x0b": "\\v", "\x0c": "\\f", "\r": "\\r", "\t": "\\t",
    "\n": "\\n",
}  # fmt: skip

_HTML_SCRIPT = re.compile(r"<(su[pb])>([^<>]{0,200})</\1>")
_ENTITIES = {
    "lt": "<", "gt": ">", "le": "\\le ", "ge": "\\ge ", "ne": "\\ne ", "amp": "&", "nbsp": " ",
    "times": "\\times ", "minus": "-", "deg": "^\\circ ", "pi": "\\pi ", "infin": "\\infty ",
}  # fmt: skip
_ENTITY = re.compile("&(" + "|".join(_ENTITIES) + ");")


def _unify_unicode(text: str) -> str:
    text = _SUPERSCRIPT_RUN.sub(
        lambda run: "^{" + "".join(_SUPERSCRIPTS[sign] for sign in run[0]) + "}", text
    )
    text = _SUBSCRIPT_RUN.sub(
        lambda run: "_{" + "".join(_SUBSCRIPTS[sign] for sign in run[0]) + "}", text
    )
    text = _VULGAR.sub(_vulgar_fraction, text)
    text = _ROOT.sub(_root, text).translate(_SIGNS)
    if text.isascii():
        return text
    text = unicodedata.normalize("NFKC", text).translate(_SIGNS)
    return text if text.isascii() else _NOT_ASCII_DIGIT.sub(_ascii_digit, text)


_NOT_ASCII_DIGIT = re.compile(r"(?![0-9])\d")


def _ascii_digit(match: re.Match[str]) -> str:
    return str(unicodedata.decimal(match[0]))


def _vulgar_fraction(match: re.Match[str]) -> str:
    value = Fraction(unicodedata.numeric(match[0])).limit_denominator(10)
    return f"\\frac{{{value.numerator}}}{{{value.denominator}}}"


def _root(match: re.Match[str]) -> str:
    command = _ROOT_COMMANDS[match[1]]
    operand = match[2] or match[3]
    return f"{command}{{{operand}}}" if operand else command + " "


def _repair_escapes(text: str) -> str:
    text = _ESCAPED.sub(lambda match: _ESCAPE_LETTERS[match[0]], text)
    # A caller may have stripped the tab or form feed at the start.
    if text.startswith("rac{"):
        return "\\f" + text
    return "\\t" + text if _TEXT_AT_START.match(text) is not None else text


def _script_of_html(match: re.Match[str]) -> str:
    sign = "^" if match[1] == "sup" else "_"
    return f"{sign}{{{match[2]}}}"
