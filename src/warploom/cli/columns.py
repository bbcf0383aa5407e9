"""Lines of text in columns, measured as a terminal draws them."""

import shutil
import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

from warploom.domain.texts import inert

_GAP: Final = "  "
_LEAST: Final = 12


def cut(text: str, room: int) -> str:
    """Shorten a text to `room` columns with an ellipsis."""
    clean = inert(text)
    if cell_len(clean) <= room:
        return clean
    return set_cell_size(clean, max(0, room - 1)).rstrip() + "…"


def column(texts: Sequence[str]) -> list[str]:
    """Fill texts up with blanks to the width of the widest."""
    widest = max(map(cell_len, texts), default=0)
    return [text + " " * (widest - cell_len(text)) for text in texts]


def table(rows: Sequence[Sequence[str]], flexible: int, width: int | None = None) -> list[str]:
    """Align rows of one length in columns; a column without any text is left out.

    Where the lines are wider than `width` (None for any width), the column of number `flexible` is shortened first, then
    the ends of lines.
    """
    columns = [column([inert(cell) for cell in cells]) for cells in zip(*rows, strict=True)]
    if columns and width is not None:
        over = sum(_wide(cells) for cells in columns) + len(_GAP) * (len(columns) - 1) - width
        room = max(_LEAST, _wide(columns[flexible]) - max(0, over))
        columns[flexible] = column([cut(cell.rstrip(), room) for cell in columns[flexible]])
    shown = [cells for cells in columns if _wide(cells)]
    lines = [_GAP.join(cells).rstrip() for cells in zip(*shown, strict=True)]
    return lines if width is None else [cut(line, width) for line in lines]


def terminal_width() -> int | None:
    """Return how wide the terminal is; None where nobody looks and nothing need be cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _wide(cells: Sequence[str]) -> int:
    return cell_len(cells[0]) if cells else 0
