"""Text that wraps between words, but not between a number and its unit."""

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.text import Text

_BEFORE_A_UNIT = re.compile(r"(?<=\d) (?=(?:%|s|min|h|points?|[KMG]iB)(?:\W|$))")
_GLUE = "\xa0"
"""No space to textwrap, which wraps here; to rich it is one."""


@dataclass(frozen=True, slots=True)
class Figures:
    """A renderable text, plain and without markup."""

    text: str

    def __rich_console__(
        self,
        console: Console,  # rich's protocol
        options: ConsoleOptions,
    ) -> Iterator[Text]:
        """Its lines, none wider than there is room."""
        for line in self._glued().splitlines():
            wrapped = textwrap.wrap(line, options.max_width, break_on_hyphens=False)
            yield from (Text(part.replace(_GLUE, " ")) for part in wrapped or [""])

    def __rich_measure__(
        self,
        console: Console,
        options: ConsoleOptions,
    ) -> Measurement:
        """From the longest word to the longest line."""
        glued = self._glued()
        words = [len(word) for word in glued.split(" ")]
        lines = [len(line) for line in glued.splitlines()]
        return Measurement(max(words), max(lines, default=0)).with_maximum(options.max_width)

    def _glued(self) -> str:
        return _BEFORE_A_UNIT.sub(_GLUE, self.text)
