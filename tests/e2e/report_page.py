# SPDX-License-Identifier: MIT
"""The page of tsrun report as Chromium shows it, without a network: what it says of itself is what
the log says, in windows of 400 to 1,600 pixels, light and dark."""

import atexit
import functools
import json
import os
import re

import pytest
import report
import report_browser
import report_command
import report_logs
import support

WIDTHS = (400, 800, 1200, 1600)
SCHEMES = ("light", "dark")
HOSTILE = ("</script><script>throw 1</script>", "\"><img src=http://h.invalid/x onerror=\"throw 2\">",
           "<style>@import 'http://h.invalid/y'</style>", "javascript:throw 3", "&lt;b&gt; ${7*7}")
LEAST_CONTRAST = 4.5  # of letters and their ground; WCAG 2, level AA
LEAST_LETTERS = 9  # pixels

# Of all letters that are seen: [text, height in pixels, contrast with what is behind].
LETTERS = """(() => {
	const shade = (text) => text.match(/[\\d.]+/g).map(Number);
	const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
		.map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
		.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
	function ground(node) {
		for (; node; node = node.parentElement) {
			const rgb = shade(getComputedStyle(node).backgroundColor);
			if (rgb.length < 4 || rgb[3] > 0)
				return rgb;
		}
		return [255, 255, 255];
	}
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
	for (let node = walker.nextNode(); node; node = walker.nextNode()) {
		const owner = node.parentElement, style = getComputedStyle(owner);
		const box = owner.getBoundingClientRect();
		if (!node.data.trim() || box.height < 2 || owner.closest("script, .unseen"))
			continue;
		const svg = owner.closest("svg");
		const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
		const [a, b] = [light(shade(svg ? style.fill : style.color)), light(ground(owner))];
		found.push([node.data, parseFloat(style.fontSize) * scale,
			(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]);
	}
	return found;
})()"""

SHOWN_PLOTS = """[...document.querySelectorAll(".plot")].map((plot) =>
	[...plot.querySelectorAll("svg")].filter((svg) => svg.getBoundingClientRect().width > 0).length)"""

TABLE = """[...document.querySelectorAll("#jobs-table tbody tr")].map((row) =>
	[...row.cells].map((cell) => cell.textContent))"""

def sweep():
    """Seven jobs, one of whom was killed, with names that mean no good, and a hole."""
    made_up = report_logs.sweep(7, 600, 2.0)
    for job, text in zip(made_up.jobs, HOSTILE):
        job.program = text
    made_up.group = HOSTILE[0]
    made_up.lines.clear()
    return made_up.run(200).run(280, writes=False).run(600)


place = functools.cache(support.lasting)


def made(name, text):
    """The path of the page of this log, made when it is first asked for."""
    report_command.need_matplotlib()
    path = os.path.join(place(), name)
    if not os.path.exists(path):
        done = report_command.report("-o", path, report_command.written(place(), text()))
        assert done.status == 0 and done.errors == "", done.errors
    return path


@functools.cache
def sweep_page():
    made_up = sweep()
    return made("sweep.html", made_up.text), made_up


@functools.cache
def chromium():
    one = report_browser.Browser().__enter__()
    atexit.register(one.__exit__)
    return one


def opened(path):
    """A browser, the same for all tests, that has this page open in a usual window."""
    chromium().look(1200, "light")
    chromium().open(path)
    return chromium()


@pytest.fixture
def browser():
    return opened(sweep_page()[0])


def numbers(browser):
    """{id: value} of what the page shows."""
    return dict(browser.tell(
        "[...document.querySelectorAll('data')].map((data) => [data.id, data.value])"))


def test_says_what_the_log_says(browser):
    _, made_up = sweep_page()
    found, rows = numbers(browser), browser.tell(TABLE)
    shown = browser.tell("document.getElementById('delivered').textContent")
    made_all, taken = (sum(getattr(job, name) for job in made_up.jobs) for name in ("made", "taken"))
    assert (found["made"], found["taken"], found["delivered"], found["jobs"]) == (
        str(made_all), str(taken), str(made_all + taken), "7")
    assert shown == format(made_all + taken, ",")
    assert abs(float(found["taken-share"]) - taken / (made_all + taken)) < 1e-9
    assert abs(float(found["saved"]) - sum(job.saved() for job in made_up.jobs)) < 1e-6
    assert found["reason-timeout"] == str(sum(job.late for job in made_up.jobs))
    by_begin = sorted(made_up.jobs, key=lambda job: (job.begin, job.name))
    assert len(rows) == len(by_begin)
    for number, (job, row) in enumerate(zip(by_begin, rows), 1):
        assert row[:4] == ["pid %d" % job.pid, job.program, "photos", "aligned 0"], row
        assert [found["job-%d-%s" % (number, what)] for what in ("made", "taken")] == [
            str(job.made), str(job.taken)]
        assert float(found["job-%d-saved" % number]) == job.saved()
        assert float(found["job-%d-cpu" % number]) == job.cpu()
        assert (row[-1] == "ended") == (not job.killed), row


def look_at(browser, width, scheme):
    """What must hold of any page in any window."""
    what = (width, scheme)
    browser.look(width, scheme)
    assert browser.tell("document.documentElement.scrollWidth") <= width, what
    shown = browser.tell(SHOWN_PLOTS)
    assert set(shown) <= {1}, (what, shown)
    letters = browser.tell(LETTERS)
    assert letters
    for text, height, contrast in letters:
        assert height >= LEAST_LETTERS, (what, text, height)
        assert contrast >= LEAST_CONTRAST, (what, text, contrast)
    return shown


def test_every_window(browser):
    """It fits, all letters can be read, and each plot is there once."""
    path, _ = sweep_page()
    grounds = set()
    for width in WIDTHS:
        for scheme in SCHEMES:
            assert len(look_at(browser, width, scheme)) == 6
            grounds.add((scheme, browser.tell("getComputedStyle(document.body).backgroundColor")))
    assert browser.requests == ["file://" + path] and browser.complaints == []
    assert len(grounds) == 2, grounds


def test_names_do_nothing(browser):
    """They stand there as they are, and nothing comes of them."""
    path, _ = sweep_page()
    text = browser.tell("document.body.textContent")
    assert all(name in text for name in HOSTILE)
    assert browser.tell("document.title").startswith(HOSTILE[0])
    assert browser.tell("document.querySelectorAll('img, iframe, link, object, base').length") == 0
    assert browser.tell("document.scripts.length - document.querySelectorAll("
                        "'figure script[type=\"application/json\"]').length") == 1
    assert browser.requests == ["file://" + path] and browser.complaints == []


def test_the_policy_holds(browser):
    """Even what got in would load nothing and run nothing."""
    assert browser.tell("fetch('data:,x').then(() => 'loaded', () => 'refused')") == "refused"
    assert browser.tell("""(() => {
			const script = document.createElement("script");
			script.textContent = "window.ran = true";
			document.body.append(script);
			return window.ran === undefined;
		})()""")
    assert browser.tell("""new Promise((done) => {
			const image = new Image();
			image.onload = () => done("loaded");
			image.onerror = () => done("refused");
			image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
		})""") == "refused"
    assert any("Content Security Policy" in text for text in browser.complaints)


def values(browser):
    return browser.tell("[...document.querySelectorAll('#chart-1 .legend .value')]"
                        ".map((value) => value.textContent)")


def test_keys_and_pointer_read_a_plot(browser):
    told = json.loads(browser.tell("document.querySelector('#chart-1 script').textContent"))
    rows = told["panels"][0]["rows"]
    for width in (400, 1600):
        browser.look(width, "light")
        browser.tell("document.querySelector('#chart-1 .plot').focus()")
        for _ in range(3):
            browser.key("ArrowRight")
        for shown, row in zip(values(browser), rows):
            assert shown == ("n/a" if row[2] is None else shown) and (
                row[2] is None or abs(float(shown) - row[2]) <= 0.005 * row[2]), (shown, row[2])
        assert browser.tell("document.querySelector('#chart-1 output').textContent")
        browser.key("Escape")
        assert values(browser) == [""] * len(values(browser))
        browser.tell("document.querySelector('#chart-1').scrollIntoView()")
        browser.settle()
        # The middle of the axis is the middle of the values.
        left, top, wide = browser.tell("""(() => {
				const box = document.querySelector("#chart-1 .plot").getBoundingClientRect();
				return [box.left, box.top, box.width];
			})()""")
        begin, end = told["extents"]["narrow" if width == 400 else "wide"]
        browser.point(left + wide * (begin + end) / 2, top + 20)
        middle = int(told["parts"] / 2)
        shown = support.wait_until(lambda: values(browser)[0], "a value at the pointer")
        assert abs(float(shown) - rows[0][middle]) <= 0.005 * rows[0][middle], shown
    assert browser.complaints == []


def test_keys_reach_all_that_moves(browser):
    browser.look(400, "light")
    stops = browser.tell("document.querySelectorAll('[tabindex=\"0\"]').length")
    assert stops == browser.tell("document.querySelectorAll('.plot, .scroll').length") == 8
    assert browser.tell("[...document.querySelectorAll('[tabindex]')]"
                        ".every((node) => node.getAttribute('aria-label'))")
    assert browser.tell("[...document.querySelectorAll('th')].every((cell) => cell.scope)")
    repeated = browser.tell("""(() => {
			const names = [...document.querySelectorAll("[id]")].map((node) => node.id);
			return names.filter((name, at) => names.indexOf(name) !== at);
		})()""")
    assert repeated == [], repeated


def test_axes_say_where_values_are():
    """A label stands where a line of its value would: read back from the picture."""
    text = "".join(
        report.line(at, report.job(order="strict", epoch=at / 8000, behind=0.0125), every=10.0)
        for at in range(0, 1000, 10))
    browser = opened(made("axes.html", lambda: text))
    for size in ("wide", "narrow"):
        labels = browser.tell("""[...document.querySelectorAll("#chart-1 .%s text")]
				.filter((node) => getComputedStyle(node).textAnchor === "end")
				.map((node) => [Number(node.textContent), Number(node.getAttribute("y"))])""" % size)
        # Two panels, from below: the position to 0.12, behind it 0.0125.
        for panel in (labels[:len(labels) // 2], labels[len(labels) // 2:]):
            assert len(panel) >= 3 and panel[0][0] == 0, labels
            scales = [(panel[0][1] - y) / value for value, y in panel[1:]]
            assert max(scales) < 1.01 * min(scales), (size, panel)


def test_it_can_be_printed(browser):
    browser.look(400, "dark")
    printed = browser.printed()
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 12


@support.whole
def test_many_jobs_huge_ones_and_none():
    """Of 64 the largest are told apart, and the table has all."""
    many = made("many.html", lambda: report_logs.sweep(64, 600, 20.0).run(600).text())
    none = made("none.html", lambda: report.line(0))
    browser = opened(many)
    for width in (400, 1600):
        look_at(browser, width, "dark")
    assert browser.tell("document.querySelectorAll('#jobs-table tbody tr').length") == 64
    assert browser.tell("document.querySelectorAll('#chart-1 .legend li').length") == 6
    assert "59 other jobs" in browser.tell("document.querySelector('#chart-1').textContent")
    # Numbers and times of any size, and rates of next to nothing.
    browser.open(made("huge.html", lambda: report.counts(0, 3, 1) + report.line(
        9e8, report.job("x" * 64, sample={"produced": 2**64 - 1, "saved_seconds": 9e11})) +
        report.counts(9.5e8, 3, 2)))
    for width in (400, 800):
        look_at(browser, width, "dark")
    browser.open(none)
    look_at(browser, 400, "light")
    assert browser.tell("document.getElementById('nothing').textContent")
    assert browser.complaints == []
