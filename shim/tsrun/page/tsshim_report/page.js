// SPDX-License-Identifier: MIT
// Reading a plot: by pointer, finger or arrow keys, the values of one moment stand in the legend.
"use strict";
(() => {
	const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

	const told = (value) => value === null ? "n/a" : digits.format(value);

	function moment(data, at) {
		const since = Math.round(data.width * (at + 0.5));
		const parts = [Math.floor(since / 3600), Math.floor(since / 60) % 60, since % 60];
		const when = new Date((data.begin + since) * 1000).toLocaleString("en-GB");
		return parts.map((n) => String(n).padStart(2, "0")).join(":") + " since it begins, " + when;
	}

	function follow(figure) {
		const data = JSON.parse(figure.querySelector("script").textContent);
		const plot = figure.querySelector(".plot"), rule = figure.querySelector(".rule");
		const output = figure.querySelector("output");
		const values = figure.querySelectorAll(".legend .value");
		const count = data.panels[0].rows.length ? data.panels[0].rows[0].length : 0;
		let at = -1;

		// As far as the axis reaches, which is less than the plot.
		function extent() {
			const narrow = getComputedStyle(plot.querySelector(".wide")).display === "none";
			return data.extents[narrow ? "narrow" : "wide"];
		}

		function clear() {
			at = -1;
			rule.style.display = "none";
			output.textContent = "";
			values.forEach((value) => { value.textContent = ""; });
		}

		function show(next) {
			at = Math.max(0, Math.min(count - 1, next));
			const [from, to] = extent();
			rule.style.display = "block";
			rule.style.left = 100 * (from + (to - from) * Math.min(1, (at + 0.5) / data.parts)) + "%";
			output.textContent = moment(data, at);
			values.forEach((value, row) => {
				value.textContent = data.panels
					.map((panel) => (panel.title ? panel.title.toLowerCase() + " " : "") + told(panel.rows[row][at]))
					.join(", ");
			});
		}

		plot.addEventListener("pointermove", (event) => {
			const box = plot.getBoundingClientRect(), [from, to] = extent();
			const share = ((event.clientX - box.left) / box.width - from) / (to - from);
			if (count > 0)
				show(Math.floor(share * data.parts));
		});
		plot.addEventListener("pointerleave", clear);
		plot.addEventListener("blur", clear);
		plot.addEventListener("keydown", (event) => {
			const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 }[event.key];
			if (event.key === "Escape")
				clear();
			else if (count > 0 && step) {
				show(at < 0 ? (step > 0 ? 0 : count - 1) : at + step);
				event.preventDefault();
			}
		});
	}

	document.querySelectorAll("figure.chart").forEach(follow);
})();
