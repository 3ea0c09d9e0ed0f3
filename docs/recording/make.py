"""Makes an animated SVG from frames of a terminal: `make.py FRAMES SVG`.

FRAMES is a folder of files NUMBER-MILLISECONDS.ansi, each what `tmux capture-pane -e -p -N` wrote. The SVG shows
each for its time, over and over, by CSS alone, so that it also plays where scripts are forbidden.
Rows that several frames show are drawn once and used again.
"""

import re
import sys
import unicodedata
from html import escape
from pathlib import Path

COLUMN_COUNT, ROW_COUNT = 92, 27
CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, MARGIN = 9.6, 20, 16, 14
BACKGROUND, FOREGROUND = "#16181d", "#d8dce3"
# The 16 colours that a terminal chooses itself.
NAMED = (
    "#3b4048 #e06c75 #98c379 #e5c07b #61afef #c678dd #56b6c2 #d8dce3 "
    "#7f848e #ff8a93 #b5e08f #ffd68f #82c4ff #dd9cf0 #76d2de #ffffff"
).split()
FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace"
CHUNK = re.compile(r"\x1b\[([0-9;:]*)m|([^\x1b])")


def indexed(number):
    """A colour of the palette of 256."""
    if number < 16:
        return NAMED[number]
    if number >= 232:
        return "#" + f"{8 + 10 * (number - 232):02x}" * 3
    number -= 16
    return "#" + "".join(f"{55 + 40 * level if level else 0:02x}" for level in (number // 36, number // 6 % 6, number % 6))


def restyled(style, codes):
    """The style after an escape that selects another."""
    style = dict(style)
    codes = [int(code or 0) for code in re.split("[;:]", codes)]
    while codes:
        code = codes.pop(0)
        if code == 0:
            style = {}
        elif code in (38, 48):
            key = "ink" if code == 38 else "paper"
            if codes.pop(0) == 5:
                style[key] = indexed(codes.pop(0))
            else:
                style[key] = "#" + "".join(f"{codes.pop(0):02x}" for _ in range(3))
        elif code in (39, 49):
            style.pop("ink" if code == 39 else "paper", None)
        elif code in range(30, 38) or code in range(90, 98):
            style["ink"] = NAMED[code - 30 if code < 90 else code - 82]
        elif code in range(40, 48) or code in range(100, 108):
            style["paper"] = NAMED[code - 40 if code < 100 else code - 92]
        elif code in (1, 2, 3, 4, 7):
            style[{1: "bold", 2: "faint", 3: "slanted", 4: "underlined", 7: "swapped"}[code]] = True
        elif code in (22, 23, 24, 27):
            for key in {22: ("bold", "faint"), 23: ("slanted",), 24: ("underlined",), 27: ("swapped",)}[code]:
                style.pop(key, None)
    return style


def runs(line, style):
    """The runs of one style in a line, as (column, width, text, style), and the style at its end."""
    found, column = [], 0
    for codes, character in CHUNK.findall(line):
        if not character:
            style = restyled(style, codes)
            continue
        width = 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if found and found[-1][3] == style:
            found[-1][1] += width
            found[-1][2] += character
        else:
            found.append([column, width, character, style])
        column += width
    return found, style


def drawn(found):
    """The SVG of a row at the top left corner."""
    papers, inks = [], []
    for column, width, text, style in found:
        ink, paper = style.get("ink", FOREGROUND), style.get("paper")
        if style.get("swapped"):
            ink, paper = paper or BACKGROUND, ink
        x, length = round(column * CELL_WIDTH, 1), round(width * CELL_WIDTH, 1)
        if paper:
            papers.append(f'<rect x="{x}" width="{length}" height="{CELL_HEIGHT}" fill="{paper}"/>')
        if not text.strip():
            continue
        start = len(text) - len(text.lstrip())
        text, x = text.strip(), round((column + start) * CELL_WIDTH, 1)
        attributes = f' fill="{ink}"' if ink != FOREGROUND else ""
        attributes += ' font-weight="bold"' if style.get("bold") else ""
        attributes += ' font-style="italic"' if style.get("slanted") else ""
        attributes += ' text-decoration="underline"' if style.get("underlined") else ""
        attributes += ' opacity=".6"' if style.get("faint") else ""
        # The length keeps the columns straight whatever font the reader has.
        length = round(sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text) * CELL_WIDTH, 1)
        inks.append(f'<text x="{x}" y="15" textLength="{length}"{attributes}>{escape(text, quote=False)}</text>')
    return "".join(papers + inks)


def svg(frames):
    """The animation of frames: a list of (milliseconds, text)."""
    total = sum(duration for duration, _ in frames)
    rows, pictures, rules, start = {}, [], [], 0
    for number, (duration, text) in enumerate(frames):
        uses, style = [], {}
        for row, line in enumerate(text.split("\n")[:ROW_COUNT]):
            found, style = runs(line, style)
            content = drawn(found)
            if content:
                name = rows.setdefault(content, f"r{len(rows)}")
                uses.append(f'<use href="#{name}" y="{row * CELL_HEIGHT}"/>')
        pictures.append(f'<g id="f{number}">{"".join(uses)}</g>')
        # Each frame runs the same animation, visible for its own share of the time.
        begin, end = 100 * start / total, 100 * (start + duration) / total
        before = f"0%{{visibility:hidden}}{begin:.3f}%{{visibility:visible}}" if start else "0%{visibility:visible}"
        after = f"{end:.3f}%{{visibility:hidden}}" if start + duration < total else ""
        rules.append(f"@keyframes k{number}{{{before}{after}100%{{visibility:{'hidden' if after else 'visible'}}}}}")
        rules.append(f"#f{number}{{visibility:hidden;animation:k{number} {total / 1000:g}s step-end infinite}}")
        start += duration
    width = round(COLUMN_COUNT * CELL_WIDTH + 2 * MARGIN, 1)
    height = ROW_COUNT * CELL_HEIGHT + 2 * MARGIN
    definitions = "\n".join(f'<g id="{name}">{content}</g>' for content, name in rows.items())
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" height="{height}" role="img">
<title>foldback in pi, recorded from a terminal</title>
<style>
text{{white-space:pre;font-size:{FONT_SIZE}px;font-family:{FONTS}}}
rect{{shape-rendering:crispEdges}}
{chr(10).join(rules)}
</style>
<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>
<defs>
{definitions}
</defs>
<g fill="{FOREGROUND}" transform="translate({MARGIN} {MARGIN})">
{chr(10).join(pictures)}
</g>
</svg>
"""


def main(folder, target):
    paths = sorted(Path(folder).glob("*.ansi"))
    frames = [(int(path.stem.split("-")[1]), path.read_text(encoding="utf-8")) for path in paths]
    Path(target).write_text(svg(frames), encoding="utf-8")


main(*sys.argv[1:])
