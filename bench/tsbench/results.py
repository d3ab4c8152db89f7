# SPDX-License-Identifier: MIT
"""Results as JSON, and from them the tables and plots of docs/performance.md."""
import json
import os
import textwrap

BEGIN = "<!-- results: made by scripts/bench, do not edit -->"
END = "<!-- end of results -->"

LABEL = 52  # characters of a line beside a plot, which needs the room


def save(directory, name, result):
    """Write @result, complete or not at all."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name + ".json")
    with open(path + ".new", "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
        file.write("\n")
    os.replace(path + ".new", path)
    return path


def load_all(directory, names):
    """The results that exist, in the order of @names."""
    found = {}
    for name in names:
        try:
            with open(os.path.join(directory, name + ".json"), encoding="utf-8") as file:
                found[name] = json.load(file)
        except FileNotFoundError:
            pass
    return found


def number(value, unit=""):
    # Prices below one millisecond have bars of two digits behind the point.
    text = f"{value:.1f}" if unit and unit != "ms" else f"{value:.3f}"
    return f"{text} {unit}".strip()


def verdict(row):
    return {True: "PASS", False: "MISS", None: ""}[row["passed"]]


def bar(row):
    if row["bar"] is None:
        return "none"
    return ("<= " if row["below"] else ">= ") + f"{row['bar']:g} {row['unit']}".strip()


def _table(result):
    spread = "quartiles" if result.get("quartiles") else "min ... max"
    lines = [f"| what | measured | {spread} | bar | |", "|---|---|---|---|---|"]
    for row in result["rows"]:
        unit = row["unit"]
        lines.append(f"| {row['label']} | {number(row['value'], unit)} | "
                     f"{number(row['min'], unit)} ... {number(row['max'], unit)} | "
                     f"{bar(row)} | {verdict(row)} |")
    return lines


def _conditions(result):
    machine, settings = result["machine"], result["settings"]
    parts = [f"{machine['cpu']}, {settings.get('bench_cores', machine['cores'])} cores",
             f"{machine['memory_gib']} GiB", f"{machine['system']}, kernel {machine['kernel']}"]
    versions = settings.get("versions", machine["versions"])
    parts += [f"{name} {version}" for name, version in versions.items()]
    if "jobs" in settings:
        parts.append(f"K = {settings['jobs']}")
    if "workers" in settings:
        parts.append(f"{settings['workers']} worker each")
    if "images" in settings:
        rings = settings["images"] / settings["ring_images"]
        parts.append(f"{settings['images']} copies of {settings['photos']}, "
                     f"{settings['photo_bytes'] / 1000:.0f} KB each = {rings:.0f} rings of "
                     f"{settings['ring']}")
    return "; ".join(parts) + f". Revision {machine['commit']}, {result['when'][:10]}."


def render(document, plots, results):
    """Replace what lies between the marks in @document; other text stays."""
    lines = [BEGIN, ""]
    for name, result in results.items():
        lines += [f"### {result['title']}", ""] + _table(result)
        for note in result.get("notes", []):
            lines += ["", note]
        lines += ["", _conditions(result), ""]
        relative = os.path.relpath(os.path.join(plots, name + ".svg"),
                                   os.path.dirname(document))
        lines += [f"![{result['title']}]({relative})", "",
                  f"Raw samples: `bench/results/{name}.json`", ""]
    lines.append(END)
    with open(document, encoding="utf-8") as file:
        text = file.read()
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    with open(document, "w", encoding="utf-8") as file:
        file.write(head + "\n".join(lines) + tail)


def plot(directory, name, result):
    """All samples of each row beside its bar, as SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    # The same input must give the same file, or every run would change the repository.
    matplotlib.rcParams["svg.hashsalt"] = "tsshim"
    os.makedirs(directory, exist_ok=True)
    figure, all_axes = pyplot.subplots(
        1 + ("curve" in result), squeeze=False, layout="constrained",
        figsize=(8, 0.9 + 0.55 * len(result["rows"]) + 2.5 * ("curve" in result)))
    _plot_rows(all_axes[0][0], result["rows"])
    if "curve" in result:
        _plot_curve(all_axes[1][0], result["curve"])
    figure.savefig(os.path.join(directory, name + ".svg"), bbox_inches="tight",
                   metadata={"Date": None})
    pyplot.close(figure)


def _relative(value, bar):
    """@value in bars; what must be nothing at all is met on the line; itself without a bar."""
    if bar is None:
        return value
    return value / bar if bar else 1 + value


def _plot_rows(axes, rows):
    for at, row in enumerate(reversed(rows)):
        relative = [_relative(sample, row["bar"]) for sample in row["samples"]]
        axes.plot(relative, [at] * len(relative), "o", color="tab:blue", alpha=0.35, ms=5)
        axes.plot([_relative(row["value"], row["bar"])], [at], "|", color="black", ms=18, mew=2)
    axes.axvline(1, color="tab:red", lw=1)
    labels = [row["label"] + ("" if row["below"] else " (more is better)") for row in rows]
    axes.set_yticks(range(len(rows)), [textwrap.fill(label, LABEL) for label in reversed(labels)])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("measured / bar (dots: samples, black: median, red: bar)")
    axes.spines[["top", "right"]].set_visible(False)


def _plot_curve(axes, curve):
    axes.plot(curve["x"], curve["y"], "o-", color="tab:blue")
    axes.set_xscale("log", base=2)
    axes.set_xticks(curve["x"], [str(x) for x in curve["x"]])
    axes.set_ylim(bottom=0)
    axes.set_xlabel(curve["xlabel"])
    axes.set_ylabel(curve["ylabel"])
    axes.spines[["top", "right"]].set_visible(False)
