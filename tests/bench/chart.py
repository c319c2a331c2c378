"""The picture: for each row a bar per contestant, on a scale of its own. Plain SVG, no library."""

from __future__ import annotations

from html import escape

from bench.figures import BARE, OURS, Row, show

# Those of which a picture tells something.
CHOSEN = ["echo", "through", "flood", "screen", "failed", "list100", "many", "private"]
WIDTH, LABEL, BAR_END = 860, 150, 640
LINE, GAP = 20, 34
OURS_COLOUR, PEER_COLOUR, BARE_COLOUR = "#2f6fdb", "#9aa5b1", "#d5dae0"


def svg(rows: list[Row]) -> str:
    chosen = [row for key in CHOSEN for row in rows if row.key == key and OURS in row.figures]
    parts: list[str] = []
    y = 10
    for row in chosen:
        y += GAP
        better = "more is better" if row.unit.endswith("/s") else "less is better"
        parts.append(_text(LABEL, y, f"{row.title} ({row.unit}, {better})", 'class="title"'))
        names = [name for name in row.figures if name != BARE]
        most = max(row.median(name) for name in names) or 1
        for name in names:
            y += LINE
            parts += _bar(row, name, y, most)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y + 20}" font-family="sans-serif">',
            "<style>text{font-size:13px;fill:#444}.title{font-weight:bold;fill:#222}</style>",
            f'<rect width="{WIDTH}" height="{y + 20}" fill="#fff"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _bar(row: Row, name: str, y: int, most: float) -> list[str]:
    scale = (BAR_END - LABEL) / most
    median = row.median(name)
    length = max(1.0, median * scale)
    colour = OURS_COLOUR if name.startswith(OURS) else PEER_COLOUR
    parts = [
        _text(LABEL - 8, y + 4, name, 'text-anchor="end"'),
        f'<rect x="{LABEL}" y="{y - 7}" width="{length:.1f}" height="14" fill="{colour}"/>',
    ]
    told = f"{show(median)}"
    if name == OURS and BARE in row.figures:
        bare = min(row.median(BARE), median)
        parts.append(f'<rect x="{LABEL}" y="{y - 7}" width="{bare * scale:.1f}" height="14" fill="{BARE_COLOUR}"/>')
        told += f" (interpreter: {show(bare)})"
    return [*parts, _text(LABEL + length + 6, y + 4, told)]


def _text(x: float, y: float, content: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y}" {more}>{escape(content)}</text>'
