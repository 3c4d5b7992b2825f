"use strict";
// The front that answers questions: error against cost after so many evaluations, and who is best at which cost.

(() => {
  const root = document.querySelector("[data-front]");
  if (!root) return;
  const data = Statistics.open(JSON.parse(document.getElementById("front-data").textContent));
  const PLACE = root.closest("section").id;
  const form = root.querySelector("form");
  const { element, say, withInterval, scale, mark, axes, range, withEnds, prepare } = Charts;
  const telling = Charts.teller(root);
  const RIVALS = ["diamond", "triangle", "cross", "square"];

  const shapes = new Map(data.families.map((family) => [family, "circle"]));
  shapes.set("CEI", "square");
  data.families.filter((f) => !["EI-n", "EI^alpha", "CEI"].includes(f)).forEach((f, k) => shapes.set(f, RIVALS[k % 4]));

  // The controls: what they show comes of the address, and goes into it.

  const parameters = (family) =>
    data.methods.filter((m) => m.family === family && m.parameter !== null).sort((a, b) => a.parameter - b.parameter);
  const sliders = {
    n: { values: data.lengths, usual: data.lengths.length - 1, text: (v) => `${v}` },
    alpha: { values: parameters("EI^alpha").map((m) => m.parameter), text: (v) => `${v}` },
    lam: { values: parameters("CEI").map((m) => m.parameter), text: (v) => `${v}` },
    at: { values: data.budgets, usual: data.budgets.indexOf(40), text: (v) => `${v} %` },
  };
  for (const [name, slider] of Object.entries(sliders)) {
    slider.input = form.elements[name];
    slider.output = slider.input.parentElement.querySelector("output");
    slider.usual ??= Math.floor(slider.values.length / 2);
    slider.input.max = Math.max(slider.values.length - 1, 0);
    slider.input.parentElement.hidden = slider.values.length < 2;
    slider.input.addEventListener("input", () => {
      const k = Number(slider.input.value);
      State.set(PLACE, { [name]: k === slider.usual ? null : String(slider.values[k]) });
    });
  }
  const groups = { tasks: data.tasks, pipelines: data.pipelines, datasets: data.datasets };
  for (const [name, options] of Object.entries(groups)) {
    const place = form.querySelector(`[data-options=${name}]`);
    for (const option of options) {
      const label = document.createElement("label");
      const box = document.createElement("input");
      Object.assign(box, { type: "checkbox", value: option, name });
      label.append(box, ` ${option}`);
      place.append(label);
      box.addEventListener("change", () => {
        const out = [...place.querySelectorAll("input")].filter((b) => !b.checked).map((b) => b.value);
        State.set(PLACE, { [`no-${name}`]: out.map(encodeURIComponent).join(",") }); // names may have commas
      });
    }
    for (const button of place.querySelectorAll("button"))
      button.addEventListener("click", () =>
        State.set(PLACE, { [`no-${name}`]: button.value === "all" ? null : options.map(encodeURIComponent).join(",") })
      );
    place.closest("fieldset").hidden = options.length < 2;
  }
  form.elements.flat.addEventListener("change", () => State.set(PLACE, { flat: form.elements.flat.checked ? null : "no" }));
  form.elements.flat.parentElement.hidden = !data.problems.some((p) => p.flat);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.elements.reset.addEventListener("click", () =>
    State.set(PLACE, Object.fromEntries(
      [...Object.keys(sliders), "flat", ...Object.keys(groups).map((g) => `no-${g}`)].map((k) => [k, null])
    ))
  );

  /** The view that the address asks for; the controls follow. */
  function view() {
    const found = {};
    for (const [name, slider] of Object.entries(sliders)) {
      const at = slider.values.indexOf(Number(State.get(name, "NaN")));
      found[name] = at < 0 ? slider.usual : at;
      slider.input.value = found[name];
      slider.output.textContent = slider.values.length ? slider.text(slider.values[found[name]]) : "";
      slider.input.setAttribute("aria-valuetext", slider.output.textContent);
    }
    const out = {};
    for (const name of Object.keys(groups)) {
      out[name] = State.list(`no-${name}`);
      form.querySelectorAll(`input[name=${name}]`).forEach((box) => (box.checked = !out[name].includes(box.value)));
    }
    out.flat = State.get("flat") !== "no";
    form.elements.flat.checked = out.flat;
    found.problems = Statistics.chosen(data, out);
    return found;
  }

  const isChosen = (method, now) =>
    method.family === "EI-n" ||
    (method.parameter !== null &&
      ((method.family === "EI^alpha" && method.parameter === sliders.alpha.values[now.alpha]) ||
        (method.family === "CEI" && method.parameter === sliders.lam.values[now.lam])));

  // The charts.

  function drawFront(rows, now) {
    const svg = root.querySelector("svg.front-plot");
    const height = 400;
    const width = prepare(svg, height);
    const box = { left: 70, right: width - 14, top: 12, bottom: height - 44 };
    const strong = rows.filter((r) => isChosen(r, now));
    const reach = (name) => withEnds(rows.map((r) => r[name].value), strong.flatMap((r) => [r[name].low, r[name].high]));
    const x = scale(...range([0, ...reach("cost")]), box.left, box.right);
    const y = scale(...range(reach("error")), box.bottom, box.top);
    axes(svg, x, y, box, [`cost (% of EI's after ${data.n})`, `error (% of EI's after ${data.n})`]);
    const clip = element("g", { "clip-path": "url(#front-clip)" });
    svg.append(element("clipPath", { id: "front-clip" }, element("rect", { x: box.left, y: box.top,
      width: box.right - box.left, height: box.bottom - box.top })), clip);

    // the way of each chosen method through the numbers of evaluations; of EI: what stopping it early buys
    const every = data.lengths.map((_, k) => Statistics.after(data, now.problems, k));
    for (const row of strong) {
      const m = data.methods.findIndex((other) => other.name === row.name);
      const points = every.map((all) => [x.place(all[m].cost.value), y.place(all[m].error.value)]);
      clip.append(element("polyline", { class: "way", points: points.map((p) => p.join()).join(" "), stroke: row.colour }));
      for (const [k, [px, py]] of points.entries()) {
        const dot = element("circle", { cx: px, cy: py, r: 2.2, fill: row.colour });
        telling(dot, `${row.label} after ${data.lengths[k]} evaluations: cost ${withInterval(every[k][m].cost)} %, ` +
          `error ${withInterval(every[k][m].error, 2)} %`, px, py);
        clip.append(dot);
      }
    }
    for (const family of data.families) {
      const own = rows.filter((r) => r.family === family && r.parameter !== null).sort((a, b) => a.parameter - b.parameter);
      if (own.length > 1)
        clip.append(element("polyline", { class: "family", stroke: own[Math.floor(own.length / 2)].colour,
          points: own.map((r) => `${x.place(r.cost.value)},${y.place(r.error.value)}`).join(" ") }));
    }
    const taken = rows.map((r) => [x.place(r.cost.value) - 6, y.place(r.error.value) - 6, 12, 12]);
    for (const row of [...rows].sort((a, b) => isChosen(a, now) - isChosen(b, now))) {
      const [px, py, big] = [x.place(row.cost.value), y.place(row.error.value), isChosen(row, now)];
      const group = element("g", { class: big ? "point chosen" : "point", fill: row.colour, stroke: row.colour });
      if (Number.isFinite(row.error.low))
        clip.append(element("path", { class: big ? "arms chosen" : "arms", stroke: row.colour,
          d: `M${px} ${y.place(row.error.low)}L${px} ${y.place(row.error.high)}M${x.place(row.cost.low)} ${py}L${x.place(row.cost.high)} ${py}` }));
      group.append(mark(shapes.get(row.family), px, py, big ? 6 : 4.2));
      const text = row.parameter !== null && row.family in { "EI^alpha": 1, CEI: 1 } ? String(row.parameter) : row.label;
      const spot = place(text, px, py, taken, box);
      const label = element("text", { class: "label", x: spot[0], y: spot[1] + 11, style: `fill: ${row.colour}` }, text);
      if (big) label.style.fontWeight = "700"; // an attribute would lose to the sheet's `font`
      telling(group, `${row.label} after ${sliders.n.values[now.n]} evaluations: cost ${withInterval(row.cost)} % of EI's, ` +
        `error ${withInterval(row.error, 2)} % of EI's`, px, py);
      svg.append(label, group);
    }
  }

  /** The free place for a label nearest to its point; rectangles taken are [left, top, width, height]. */
  function place(text, px, py, taken, box) {
    const [w, h] = [text.length * 6.6, 13];
    let best = [px + 8, py - 14];
    let least = Infinity;
    for (const ring of [9, 14, 20, 28])
      for (let k = 0; k < 16; k++) {
        const [cx, cy] = [px + (ring + w / 2) * Math.cos((k * Math.PI) / 8 - 0.6), py + (ring + h / 4) * Math.sin((k * Math.PI) / 8 - 0.6)];
        const spot = [cx - w / 2, cy - h / 2, w, h];
        const over = taken.filter(([l, t, a, b]) => spot[0] < l + a && l < spot[0] + w && spot[1] < t + b && t < spot[1] + h).length;
        const out = spot[0] < box.left || spot[0] + w > box.right + 10 || spot[1] < box.top - 8 || spot[1] + h > box.bottom;
        const bad = ring + 100 * over + 500 * out;
        if (bad < least) [least, best] = [bad, spot];
      }
    taken.push([best[0], best[1], w, h]);
    return best;
  }

  function drawRanking(rows, percent) {
    const svg = root.querySelector("svg.ranking-plot");
    const sorted = [...rows].filter((r) => Number.isFinite(r.error.value)).sort((a, b) => a.error.value - b.error.value);
    const height = 60 + 19 * sorted.length;
    const width = prepare(svg, height);
    const box = { left: 92, right: width - 14, top: 8, bottom: height - 44 };
    const ends = sorted.flatMap((r) => [r.error.low, r.error.high]);
    const x = scale(...range(withEnds(sorted.map((r) => r.error.value), ends)), box.left, box.right);
    axes(svg, x, null, box, [`best error at ${percent} % of EI's cost (% of EI's after ${data.n})`]);
    const ei = rows[0].error.value;
    svg.append(element("line", { class: "reference", x1: x.place(ei), x2: x.place(ei), y1: box.top, y2: box.bottom }));
    sorted.forEach((row, k) => {
      const [px, py] = [x.place(row.error.value), box.top + 12 + 19 * k];
      const group = element("g", { class: "point", fill: row.colour, stroke: row.colour });
      if (Number.isFinite(row.error.low)) {
        const clamp = (e) => Math.max(box.left, Math.min(box.right, x.place(e)));
        group.append(element("path", { class: "arms chosen", d: `M${clamp(row.error.low)} ${py}H${clamp(row.error.high)}` }));
      }
      group.append(mark(shapes.get(row.family), px, py, 4.4));
      telling(group, tellOfBudget(row, percent), px, py);
      const label = element("text", { x: box.left - 8, y: py + 4, "text-anchor": "end" }, row.label);
      if (row.first) label.style.fontWeight = "700";
      svg.append(label, group);
    });
  }

  const tellOfBudget = (row, percent) =>
    `${row.label} at ${percent} % of EI's cost: error ${withInterval(row.error, 2)} % of EI's` +
    (row.family === "EI-n" ? "" : `, minus EI's at that cost ${withInterval(row.off, 2)}`);

  /** One sentence: who is best, by how much, and whether that can be told from nothing. */
  function answer(rows, percent, problems) {
    const there = rows.filter((r) => Number.isFinite(r.error.value));
    if (!there.length) return "Nothing is left: choose more problems, or a larger cost.";
    const best = there.reduce((a, b) => (b.error.value < a.error.value ? b : a));
    const lead = `At ${percent} % of EI's cost ${best.family === "EI-n" ? "EI, merely stopped there," : best.label} has the ` +
      `lowest mean error of ${there.length} methods, ${withInterval(best.error, 2)} % of EI's after ${data.n}. `;
    let than = "";
    if (best.family !== "EI-n") {
      const told = !Number.isFinite(best.off.low) ? "one data set alone gives no interval"
        : best.off.high < 0 ? "so the gain is beyond the noise, apart from having been chosen as the best of many"
        : "which cannot be told from none";
      than = `EI stopped there has ${say(rows[0].error.value, 2)}; the paired difference is ${withInterval(best.off, 2)} points, ${told}. `;
    }
    return `${lead}${than}Over ${best.error.datasets} data sets, ${problems.length} problems.`;
  }

  function fillTable(ended, rows) {
    const body = root.querySelector("tbody");
    body.replaceChildren(...rows.map((row, m) => {
      const line = document.createElement("tr");
      const cell = (text, value) => {
        const made = document.createElement("td");
        made.textContent = text;
        if (value !== undefined) Object.assign(made.dataset, { value });
        if (value !== undefined) made.className = "number";
        line.append(made);
      };
      cell(row.label + (row.first ? " *" : ""));
      cell(withInterval(ended[m].cost), ended[m].cost.value);
      cell(withInterval(ended[m].error, 2), ended[m].error.value);
      cell(withInterval(row.error, 2), row.error.value);
      cell(m === 0 ? "–" : withInterval(row.off, 2), m === 0 ? 0 : row.off.value);
      cell(Number.isFinite(row.won) ? `${Math.round(100 * row.won)} %` : "", Number.isFinite(row.won) ? row.won : -1);
      line.dataset.numbers = JSON.stringify({ name: row.name, cost: ended[m].cost, after: ended[m].error, within: row.error, off: row.off, won: row.won, first: row.first });
      return line;
    }));
  }

  function show({ chartsOnly = false } = {}) {
    const now = view();
    const percent = data.budgets[now.at];
    const ended = Statistics.after(data, now.problems, now.n);
    const rows = Statistics.within(data, now.problems, now.at);
    root.querySelector(".answer").textContent = answer(rows, percent, now.problems.filter((p) => data.within.weight[p][now.at]));
    root.querySelectorAll("[data-n]").forEach((node) => (node.textContent = data.lengths[now.n]));
    root.querySelectorAll("[data-at]").forEach((node) => (node.textContent = percent));
    drawFront(ended.filter((r) => Number.isFinite(r.cost.value)), now);
    drawRanking(rows, percent);
    if (chartsOnly) return;
    fillTable(ended, rows);
    root.querySelector(".here").href = State.link(PLACE);
  }

  root.hidden = false;
  root.closest("section").querySelectorAll(".without-script").forEach((node) => node.remove());
  State.listen(show);
  new ResizeObserver(() => show({ chartsOnly: true })).observe(root.querySelector(".charts"));
  show();
})();
