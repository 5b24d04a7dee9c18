"""Rows of a comparison as text, JSON and HTML."""
import html
import json
import math
import os
import platform

UNITS = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
COLOURS = {"syncline": "#0b6e4f", "openmpi": "#c44900", "mpich": "#4a4e9b", "gloo": "#8a8a8a", "limit": "#000000"}
WIDTH, HEIGHT, MARGIN = 520, 300, 48


def size_name(size):
    for unit, factor in UNITS.items():
        if size % factor == 0:
            return f"{size // factor} {unit}iB"
    return f"{size} B"


def heading(network, ranks, rounds, limit):
    where = "hosts at " + network.name if network.rate_limited else network.name
    return (f"all_reduce, f32 sum, in place, {ranks} ranks, {where}, {rounds} rounds\n{limit.describe()}\n"
            "median us [min..max], times syncline's, share of the limit, processor s for each GB moved")


def text_of(rows):
    if not rows:
        return "no result"
    cells = []
    for row in rows:
        ratio = f"{row['ratio']:.2f}x" if row["ratio"] else "-"
        cells.append(f"{row['peer']} {row['p50_us']:.2f} [{row['min_us']:.2f}..{row['max_us']:.2f}] {ratio} "
                     f"{100 * row['share']:.0f}% {row['cpu_s_per_gb']:.2f}")
    return f"{size_name(rows[0]['bytes']):>8}  " + "  ".join(cells)


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        model = next((line.split(":")[1].strip() for line in file if line.startswith("model name")), platform.machine())
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


def json_of(rows):
    return json.dumps({"schema": "syncline.peers/2", "machine": machine(), "rows": rows}, indent=1) + "\n"


def groups_of(rows):
    """{(network, ranks): rows}, in the order of the run."""
    groups = {}
    for row in rows:
        groups.setdefault((row["network"], row["ranks"]), []).append(row)
    return groups


def plot(rows):
    """Time over size, both logarithmic, a line for each library and one for the limit."""
    lines = {}
    for row in rows:
        lines.setdefault(row["peer"], []).append((row["bytes"], row["p50_us"]))
        if row["peer"] == "syncline":
            lines.setdefault("limit", []).append((row["bytes"], row["limit_us"]))
    points = [point for line in lines.values() for point in line]
    spans = [(math.log10(min(values)), math.log10(max(values))) for values in zip(*points)]

    def at(point):
        (x, (x_low, x_high)), (y, (y_low, y_high)) = ((math.log10(value), span) for value, span in zip(point, spans))
        return (MARGIN + (x - x_low) / max(x_high - x_low, 1e-9) * (WIDTH - 2 * MARGIN),
                HEIGHT - MARGIN - (y - y_low) / max(y_high - y_low, 1e-9) * (HEIGHT - 2 * MARGIN))

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" role="img">']
    for size in sorted({point[0] for point in points}):
        x, _ = at((size, 10**spans[1][0]))
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - MARGIN / 3:.0f}" font-size="9" text-anchor="middle">{size_name(size)}</text>')
    for power in range(math.ceil(spans[1][0]), math.floor(spans[1][1]) + 1):
        _, y = at((10**spans[0][0], 10**power))
        parts.append(f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="4" y="{y + 3:.1f}" font-size="9">{10**power:g} us</text>')
    for index, (name, line) in enumerate(lines.items()):
        colour = COLOURS.get(name, "#666")
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(at, line))
        dashes = ' stroke-dasharray="4 3"' if name == "limit" else ""
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'
                     f'<text x="{MARGIN + 4}" y="{MARGIN / 2 + 11 * index:.0f}" font-size="10" fill="{colour}">{html.escape(name)}</text>')
    return "".join(parts) + "</svg>"


def table(rows):
    head = ("size", "library", "median us", "min..max", "times syncline's", "share of the limit", "processor s / GB")
    lines = ["<table><tr>" + "".join(f"<th>{name}</th>" for name in head) + "</tr>"]
    for row in rows:
        ratio = f"{row['ratio']:.2f}" if row["ratio"] else "-"
        cells = (size_name(row["bytes"]), html.escape(row["peer"]), f"{row['p50_us']:.2f}", f"{row['min_us']:.2f}..{row['max_us']:.2f}",
                 ratio, f"{100 * row['share']:.0f} %", f"{row['cpu_s_per_gb']:.2f}")
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "\n".join(lines) + "</table>"


def html_of(rows):
    about = machine()
    parts = ['<!doctype html><html lang="en"><meta charset="utf-8"><title>all_reduce side by side</title><style>'
             "body{font-family:sans-serif;max-width:60em;margin:2em auto}td,th{padding:.2em .7em;text-align:right}"
             "tr:nth-child(even){background:#f4f4f4}</style>"
             f"<h1>all_reduce side by side</h1><p>f32 sum, in place, results verified; {html.escape(about['cpu'])}, {about['cores']} cores, "
             f"Linux {html.escape(about['kernel'])}. Limits were measured in the same run.</p>"]
    for (network, ranks), own in groups_of(rows).items():
        parts.append(f"<h2>{html.escape(network)}, {ranks} ranks</h2>{plot(own)}{table(own)}")
    return "\n".join(parts) + "</html>\n"
