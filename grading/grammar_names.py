r"""The closed vocabulary of the grammar: command names, their aliases, and plain words.

Texts of tokens are unique across kinds: a command keeps its backslash, so a table lookup by
text alone tells what a token is. A name outside these tables is `unsupported`, or is split
where it starts with one of them (`\cdotx`).
"""

_GREEK_NAMES = """
    alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi
    pi varpi rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Gamma Delta Theta
    Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar
"""
GREEK = frozenset("\\" + name for name in _GREEK_NAMES.split())

_SAME_NAME = """
    sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc sinh cosh tanh coth sech csch
    ln exp floor ceil det tr rank dim deg re im conj arg sgn
"""
FUNCTIONS = {
    **{"\\" + name: name for name in _SAME_NAME.split()},
    **{f"\\{prefix}{name}": f"arc{name}" for name in ("sin", "cos", "tan", "cot", "sec", "csc")
       for prefix in ("a", "Arc")},
    **{f"\\{prefix}{name}": f"arc{name}"
       for name in ("sinh", "cosh", "tanh", "coth", "sech", "csch")
       for prefix in ("a", "ar", "arc", "Ar")},
    "\\tg": "tan", "\\ctg": "cot", "\\cosec": "csc", "\\arctg": "arctan", "\\arcctg": "arccot",
    "\\sh": "sinh", "\\ch": "cosh", "\\th": "tanh", "\\cth": "coth",
    "\\log": "ln", "\\lg": "ln", "\\ceiling": "ceil", "\\Re": "re", "\\Im": "im", "\\real": "re",
    "\\imag": "im", "\\Arg": "arg", "\\sign": "sgn", "\\signum": "sgn", "\\trace": "tr",
    "\\Tr": "tr", "\\rk": "rank", "\\cis": "cis", "\\abs": "abs",
}  # fmt: skip
"""Command → value of the FUNC node; `log`, `lg`, `cis` and `abs` are rewritten on reading."""

_INVERTIBLE_NAMES = "sin cos tan cot sec csc sinh cosh tanh coth sech csch"
INVERTIBLE = frozenset(_INVERTIBLE_NAMES.split())
"""Functions whose power -1 is the inverse function."""

N_ARY = {"\\gcd": "gcd", "\\lcm": "lcm", "\\max": "max", "\\min": "min", "\\hcf": "gcd"}

RELATIONS = {
    "=": "=", "==": "=", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "!=": "!=",
    "\\lt": "<", "\\gt": ">",
    "\\le": "<=", "\\leq": "<=", "\\leqslant": "<=", "\\leqq": "<=",
    "\\ge": ">=", "\\geq": ">=", "\\geqslant": ">=", "\\geqq": ">=",
    "\\ne": "!=", "\\neq": "!=", "\\in": "in", "\\notin": "notin",
    "\\subset": "subset", "\\subseteq": "subseteq", "\\subsetneq": "subset",
    "\\supset": "supset", "\\supseteq": "supseteq", "\\supsetneq": "supset",
    "\\sim": "~", "\\approx": "approx", "\\simeq": "approx", "\\cong": "cong", "\\equiv": "equiv",
    "\\parallel": "parallel", "\\perp": "perp", "\\bot": "perp", "\\mid": "divides",
    "\\propto": "propto", "\\nequiv": "not-equiv", "\\nmid": "not-divides", "\\nsim": "not-~",
    "\\ncong": "not-cong", "\\nparallel": "not-parallel", "\\nsubseteq": "not-subseteq",
    "\\nsubset": "not-subset", "\\nsupseteq": "not-supseteq", "\\nsupset": "not-supset",
}  # fmt: skip
"""Token → operator of a REL node."""

NEGATED = {
    "=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "in": "notin", "notin": "in",
}  # fmt: skip

ARROWS = frozenset(("\\to", "\\rightarrow", "\\Rightarrow", "\\longrightarrow", "\\Longrightarrow"))
ELLIPSES = frozenset(("\\ldots", "\\dots", "\\cdots", "\\dotsc", "\\dotsb", "\\hdots"))
TIMES = frozenset(("*", "\\times", "\\cdot"))
ACCENTS = {
    "\\bar": "bar", "\\overline": "bar", "\\vec": "vec", "\\overrightarrow": "vec",
    "\\hat": "hat", "\\widehat": "hat", "\\tilde": "tilde", "\\widetilde": "tilde",
    "\\dot": "dot", "\\ddot": "ddot", "\\underline": "underline",
}  # fmt: skip
FIGURES = frozenset(("\\angle", "\\triangle", "\\odot", "\\measuredangle"))
_MATRIX_NAMES = "matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix array"
MATRICES = frozenset(_MATRIX_NAMES.split())
_SYSTEM_NAMES = "cases dcases rcases aligned align gathered gather split"
SYSTEMS = frozenset(_SYSTEM_NAMES.split())

ALIASES = {
    "\\lbrack": "[", "\\rbrack": "]", "\\lgroup": "(", "\\rgroup": ")", "\\lparen": "(",
    "\\rparen": ")", "\\lbrace": "\\{", "\\rbrace": "\\}", "\\vert": "|", "\\lvert": "|",
    "\\rvert": "|", "\\|": "|", "\\Vert": "|", "\\lVert": "|", "\\rVert": "|",
    "\\ulcorner": "\\lceil", "\\urcorner": "\\rceil", "\\llcorner": "\\lfloor",
    "\\lrcorner": "\\rfloor", "**": "^", "\\ast": "*", "\\colon": ":", "\\bmod": "\\mod",
    "\\vee": "\\lor", "\\wedge": "\\land", "\\backslash": "\\setminus",
    "\\smallsetminus": "\\setminus", "\\bigcup": "\\cup", "\\bigcap": "\\cap",
    "\\exponentialE": "e", "\\imaginaryI": "i", "\\imaginaryJ": "i", "\\lnot": "\\neg",
    "\\leqslant": "\\le", "\\geqslant": "\\ge", "\\varnothing": "\\emptyset", "\\div": "/",
    "\\R": "\\mathbb R", "\\N": "\\mathbb N", "\\Z": "\\mathbb Z", "\\Q": "\\mathbb Q",
    "\\dfrac": "\\frac", "\\tfrac": "\\frac", "\\cfrac": "\\frac", "\\dbinom": "\\binom",
    "\\tbinom": "\\binom", "\\fbox": "\\boxed", "\\intercal": "\\top", "\\lcurly": "\\{",
    "\\rcurly": "\\}", "′": "'", "\\pod": "\\pmod", "\\degree": "°", "\\imath": "i", "\\jmath": "j",
}  # fmt: skip

_BLANK_NAMES = """
    quad qquad left right mleft mright displaystyle textstyle limits nolimits hline mathbf
    boldsymbol bm pmb mathcal mathscr mathfrak mathsf mathit rm bf it big Big bigg Bigg bigl bigr
    Bigl Bigr , ; : ! >
"""
BLANKS = frozenset("\\" + name for name in _BLANK_NAMES.split()) | {"\\ ", "~"}
"""Spacing, size and type face: no meaning here."""

_OTHER_COMMANDS = """
    frac sqrt binom choose over pm mp infty emptyset cup cap setminus mod pmod neg forall exists
    nexists lor land and int iint iiint sum prod lim partial lceil rceil lfloor rfloor langle rangle
    boxed variable top prime circ not
"""
_UNREAD_COMMANDS = """
    oint coprod nabla aleph complement therefore because implies impliedby iff mapsto
    longmapsto Leftrightarrow Longleftrightarrow leftrightarrow leftarrow Leftarrow uparrow
    downarrow hookrightarrow ni oplus otimes ominus bullet star dagger square Box
    blacksquare diamond checkmark vdots ddots color textcolor colorbox underbrace overbrace
    stackrel overset underset xrightarrow xleftarrow label tag ref hspace vspace phantom cancel
    newline text operatorname mathrm mathbb begin end sup inf limsup liminf Pr ker hom asymp ll gg
    prec succ preceq succeq triangleq doteq vdash models sharp flat natural wp Vdash lfloor
"""
_PROGRAM_NAMES = """
    def gdef edef xdef let newcommand renewcommand providecommand newenvironment input include
    write immediate openout read csname expandafter usepackage documentclass catcode loop repeat
"""
PROGRAM_COMMANDS = frozenset("\\" + name for name in _PROGRAM_NAMES.split())
"""What programs TeX states nothing: no answer holds it."""
COMMANDS = frozenset(
    {"\\" + name for name in (_OTHER_COMMANDS + _UNREAD_COMMANDS).split()}
    | GREEK
    | FUNCTIONS.keys()
    | N_ARY.keys()
    | {name for name in RELATIONS if name[0] == "\\"}
    | ARROWS
    | ELLIPSES
    | (TIMES - {"*"})
    | ACCENTS.keys()
    | FIGURES
    | {name for name in ALIASES if name[0] == "\\"}
    | BLANKS
)
"""Every command that is never split."""
LONGEST_COMMAND = max(map(len, COMMANDS))

_AMBIGUOUS_LETTERS = frozenset(
    ("xi", "ell", "re", "im", "arg", "th", "ch", "sh", "Pi", "dim", "tr")
)
PLAIN_WORDS = {
    **{
        name[1:]: name
        for name in (*GREEK, *FUNCTIONS, *N_ARY, "\\sqrt", "\\mod", "\\pm", "\\cdot", "\\times")
        if name[1:] not in _AMBIGUOUS_LETTERS
    },
    "infinity": "\\infty", "infty": "\\infty", "inf": "\\infty", "oo": "\\infty", "or": "\\lor",
    "and": "\\and", "union": "\\cup", "OR": "\\lor", "AND": "\\and",
}  # fmt: skip
"""Words without a backslash that stand for a command."""
BEFORE_BRACKET = {"Re": "\\Re", "Im": "\\Im", "arg": "\\arg", "re": "\\re", "im": "\\im",
                  "tr": "\\tr", "dim": "\\dim"}  # fmt: skip
"""Plain words that are commands only where a bracket follows."""
BEFORE_BRACE = {
    **{name[1:]: name for name in ACCENTS},
    "frac": "\\frac", "dfrac": "\\frac", "binom": "\\binom", "boxed": "\\boxed", "sqrt": "\\sqrt",
}  # fmt: skip
"""Commands that lost their backslash; they count only where a brace follows."""
