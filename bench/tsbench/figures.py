# SPDX-License-Identifier: MIT
"""Line plots for pages of docs/, each on a light and on a dark ground."""
import os

# Ground, text and grid of a page, then lines: told apart by their marks as well.
THEMES = {"": ("#ffffff", "#1f2328", "#d1d9e0",
               ("#6e7781", "#0969da", "#bc4c00", "#1a7f37", "#8250df")),
          "-dark": ("#0d1117", "#e6edf3", "#30363d",
                    ("#9198a1", "#4493f8", "#f0883e", "#3fb950", "#ab7df8"))}
MARKS = "os^Dv"


def _settings(ground, text, grid):
    return {"svg.hashsalt": "tsshim",  # the same input must give the same file
            "figure.facecolor": ground, "savefig.facecolor": ground, "axes.facecolor": ground,
            "text.color": text, "axes.labelcolor": text, "axes.edgecolor": grid,
            "xtick.color": text, "ytick.color": text, "grid.color": grid,
            "legend.frameon": False, "legend.fontsize": 9, "axes.grid": True,
            "axes.grid.which": "major", "grid.linewidth": .6, "axes.axisbelow": True}


def _line(axes, number, line, colors, text):
    color = text if line.get("reference") else colors[number % len(colors)]
    look = ({"ls": "--", "lw": 1.2} if line.get("reference") else
            {"ls": "" if line.get("points") else "-", "marker": MARKS[number % len(MARKS)],
             "ms": 5, "lw": 1.6})
    axes.errorbar(line["x"], line["y"], line.get("error"), color=color, label=line["label"],
                  capsize=3 if "error" in line else 0, **look)


def _draw(axes, figure, colors, text):
    for line in figure["lines"]:
        _line(axes, line.get("look", 0), line, colors, text)
    axes.set_xscale("log", base=2)
    axes.set_yscale(figure.get("yscale", "log"))
    ticks = sorted({x for line in figure["lines"] for x in line["x"]})
    axes.set_xticks(ticks, [str(x) for x in ticks])
    axes.minorticks_off()
    if figure.get("yscale") == "linear":
        axes.set_ylim(bottom=0)
    axes.set_xlabel(figure["xlabel"])
    axes.set_ylabel(figure["ylabel"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend()


def draw(directory, figures):
    """Write each of @figures into @directory: NAME.svg and NAME-dark.svg.

    Each has "name", "xlabel", "ylabel" and "lines" with "label", "x", "y", and where wanted: "look",
    the number of a colour and a mark; "reference", a dashed line; "points", no line; "error".
    """
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    os.makedirs(directory, exist_ok=True)
    for figure in figures:
        for suffix, (ground, text, grid, colors) in THEMES.items():
            with matplotlib.rc_context(_settings(ground, text, grid)):
                drawn, axes = pyplot.subplots(figsize=(8, 4.2), layout="constrained")
                _draw(axes, figure, colors, text)
                drawn.savefig(os.path.join(directory, figure["name"] + suffix + ".svg"),
                              metadata={"Date": None})
                pyplot.close(drawn)
