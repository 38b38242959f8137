#!/usr/bin/env python3
"""bench/gpu/figure.py RESULTS [FIGURE]: the SVG of a results file: tokens/s, and the gap between the tokens of a stream, against the number of sequences.

RESULTS is a page of bench/results with the line `<!-- figure -->` ahead of a table whose rows are "| sequences | tokens/s | llama.cpp |" ("-" where
nothing was measured).  The figure is written beside it, with the name of the page."""
import math, os, sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 330, 250, 62, 34, 90
OURS, THEIRS = "#2563eb", "#d97706"


def points_of(page):
    """The rows of the table: sequences, tokens/s of llm-router and of llama.cpp; None: not measured."""
    lines = iter(page.splitlines())
    for line in lines:
        if line.strip() == "<!-- figure -->":
            break
    rows = []
    for line in lines:
        cells = [cell.strip().replace(",", "") for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|"):
            if rows:
                break
        elif cells[0].isdigit():
            rows.append((int(cells[0]), *(None if cell in ("-", "") else float(cell) for cell in cells[1:3])))
    if not rows:
        sys.exit("no table behind a line <!-- figure -->")
    return rows


def number(value):
    return f"{value / 1000:g} k" if value >= 1000 else f"{value:g}"


class Chart:
    """Both axes are logarithmic: x has a tick for each power of two, y for 1, 2 and 5 times a power of ten."""

    def __init__(self, left, title, series):
        points = [p for _, _, values in series for p in values]
        self.left, self.title, self.series = left, title, series
        self.x = (1, max(x for x, _ in points))
        ticks = [m * 10 ** e for e in range(-1, 6) for m in (1, 2, 5)]
        low, high = min(y for _, y in points), max(y for _, y in points)
        self.y = (max(t for t in ticks if t <= low), min(t for t in ticks if t >= high))
        self.ticks = [t for t in ticks if self.y[0] <= t <= self.y[1]]

    def at(self, x, y):
        across = math.log(x / self.x[0]) / math.log(self.x[1] / self.x[0])
        up = math.log(y / self.y[0]) / math.log(self.y[1] / self.y[0])
        return round(self.left + across * WIDTH, 1), round(TOP + (1 - up) * HEIGHT, 1)

    def draw(self):
        out = [f'<text x="{self.left}" y="{TOP - 14}" class="title">{self.title}</text>']
        for t in self.ticks:
            y = self.at(1, t)[1]
            out.append(f'<path class="grid" d="M{self.left} {y}h{WIDTH}"/><text x="{self.left - 6}" y="{y + 4}" text-anchor="end">{number(t)}</text>')
        x = 1
        while x <= self.x[1]:
            at = self.at(x, self.y[0])[0]
            out.append(f'<path class="grid" d="M{at} {TOP}v{HEIGHT}"/><text x="{at}" y="{TOP + HEIGHT + 16}" text-anchor="middle">{x}</text>')
            x *= 2
        for name, colour, values in self.series:
            places = [self.at(*p) for p in values]
            line = "L".join(f"{a} {b}" for a, b in places)
            out.append(f'<path fill="none" stroke="{colour}" stroke-width="2" d="M{line}"/>')
            out += [f'<circle cx="{a}" cy="{b}" r="3" fill="{colour}"><title>{name}, {x:g} sequences: {y:g}</title></circle>'
                    for (a, b), (x, y) in zip(places, values)]
        return "\n".join(out)


def figure(rows, source):
    ours = [(n, rate) for n, rate, _ in rows if rate]
    theirs = [(n, rate) for n, _, rate in rows if rate]
    gaps = [[(n, round(1000 * n / rate, 2)) for n, rate in side] for side in (ours, theirs)]
    second = LEFT + WIDTH + GAP
    charts = [Chart(LEFT, "tokens/s of all sequences", [("llm-router", OURS, ours), ("llama.cpp", THEIRS, theirs)]),
              Chart(second, "ms between two tokens of a sequence", [("llm-router", OURS, gaps[0]), ("llama.cpp", THEIRS, gaps[1])])]
    below = TOP + HEIGHT + 40
    key = "".join(f'<circle cx="{x}" cy="{below}" r="4" fill="{colour}"/><text x="{x + 9}" y="{below + 4}">{name}</text>'
                  for x, colour, name in ((LEFT, OURS, "llm-router"), (LEFT + 110, THEIRS, "llama.cpp (August 2026)")))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {second + WIDTH + 20} {below + 34}" font-family="sans-serif" font-size="12">\n'
            "<style>text{fill:#334155}.title{font-size:14px;font-weight:600}.grid{stroke:#cbd5e1;stroke-width:.6;fill:none}</style>\n"
            '<rect width="100%" height="100%" fill="#fff"/>\n'
            + "\n".join(chart.draw() for chart in charts)
            + f'\n{key}<text x="{LEFT + 310}" y="{below + 4}">sequences (across); one H200, gpt-oss-20b, random weights</text>'
            + f'\n<text x="{LEFT}" y="{below + 24}" font-size="10">{source}</text>\n</svg>\n')


def main():
    results = sys.argv[1]
    target = sys.argv[2] if len(sys.argv) > 2 else os.path.splitext(results)[0] + ".svg"
    text = figure(points_of(open(results).read()), f"made by bench/gpu/figure.py from bench/results/{os.path.basename(results)}")
    with open(target, "w") as out:
        out.write(text)


if __name__ == "__main__":
    main()
