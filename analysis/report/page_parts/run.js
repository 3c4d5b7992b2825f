"use strict";
// One run, step by step: the front that its models saw before each choice, what was chosen, and what came of it.

(() => {
  const root = document.querySelector("[data-run]");
  if (!root) return;
  const data = JSON.parse(document.getElementById("run-data").textContent);
  const PLACE = root.closest("section").id;
  const { element, mark, axes, range, scale, prepare } = Charts;
  const telling = Charts.teller(root);
  const input = root.querySelector("input[name=step]");
  const STAR = "#D55E00";
  const three = (value) => (value === null ? "–" : Number(value.toPrecision(3)).toString());
  input.max = data.steps.length - 1;

  /** One scale for all steps, so that fronts can be compared. */
  const everyCost = data.steps.flatMap((step) => step.cost);
  const costs = [Math.min(...everyCost) / 1.3, Math.max(...everyCost) * 1.3];

  function line(step, x, y) {
    return step.cost.map((cost, k) => `${k ? `H${x.place(cost)}V` : `M${x.place(cost)} `}${y.place(step.ei[k])}`).join("");
  }

  function show() {
    const at = data.steps.findIndex((step) => step.evaluation === Number(State.get("step", "NaN")));
    const k = at < 0 ? 0 : at;
    const now = data.steps[k];
    input.value = k;
    root.querySelector("output").textContent = now.evaluation;
    input.setAttribute("aria-valuetext", `evaluation ${now.evaluation}`);
    const svg = root.querySelector("svg");
    const height = 300;
    const width = prepare(svg, height);
    const box = { left: 62, right: width - 14, top: 12, bottom: height - 44 };
    const x = scale(...costs, box.left, box.right);
    const y = scale(...range([0, 1]), box.bottom, box.top);
    axes(svg, x, y, box, ["predicted cost (s)", "EI (highest = 1)"]);
    if (data.acceptable !== null)
      svg.append(element("line", { class: "reference", x1: box.left, x2: box.right, y1: y.place(data.acceptable), y2: y.place(data.acceptable) }));
    if (k) svg.append(element("path", { class: "family", stroke: "#777", d: line(data.steps[k - 1], x, y) }));
    svg.append(element("path", { class: "way", stroke: "#0072B2", d: line(now, x, y) }));
    now.cost.forEach((cost, i) => {
      const [px, py, own] = [x.place(cost), y.place(now.ei[i]), i === now.chosen];
      const group = element("g", { class: "point", fill: own ? STAR : "#0072B2", stroke: own ? STAR : "#0072B2" });
      group.append(mark(own ? "diamond" : "circle", px, py, own ? 6 : 3));
      telling(group, `${own ? "chosen: " : ""}predicted cost ${three(cost)} s, EI ${three(now.ei[i])} of the highest`, px, py);
      svg.append(group);
    });
    root.querySelector(".answer").textContent =
      `Evaluation ${now.evaluation}: predicted to cost ${three(now.predicted)} s, it cost ${three(now.paid)} s; ` +
      (now.error === null ? "it failed" : `its error is ${three(now.error)}`) +
      `, the best so far ${three(now.best)}. Spent in total: ${three(now.spent)} s.`;
  }

  input.addEventListener("input", () => {
    const k = Number(input.value);
    State.set(PLACE, { step: k ? String(data.steps[k].evaluation) : null });
  });
  root.hidden = false;
  State.listen(show);
  new ResizeObserver(show).observe(root.querySelector(".charts"));
  show();
})();
