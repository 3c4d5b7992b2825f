"use strict";
// What the charts of the page are drawn with: elements, numbers as text, scales, axes, marks that tell what they are.

const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  function element(name, attributes = {}, ...children) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  const digits = (value) => (Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 10 ? 1 : 2);
  const say = (value, d = digits(value)) => (Number.isFinite(value) ? value.toFixed(d).replace("-", "−") : "–");
  const withInterval = (e, d = digits(e.value)) =>
    Number.isFinite(e.low) ? `${say(e.value, d)} [${say(e.low, d)}, ${say(e.high, d)}]` : say(e.value, d);

  /** A linear or, over more than a factor of five, logarithmic scale from a domain to pixels, and its ticks. */
  function scale(low, high, from, to) {
    const log = low > 0 && high > 5 * low;
    const f = log ? Math.log : (x) => x;
    const place = (x) => from + ((f(x) - f(low)) / (f(high) - f(low) || 1)) * (to - from);
    const ticks = [];
    if (log) {
      for (let ten = 10 ** Math.floor(Math.log10(low)); ten <= high; ten *= 10)
        for (const k of high > 300 * low ? [1] : [1, 2, 5]) if (k * ten >= low && k * ten <= high) ticks.push(k * ten);
    } else {
      const rough = (high - low) / 5 || 1;
      const ten = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((k) => k * ten).find((s) => s >= rough);
      for (let x = Math.ceil(low / step) * step; x <= high + 1e-9; x += step) ticks.push(Number(x.toFixed(10)));
    }
    return { place, ticks, low, high, log, inside: (x) => x >= low && x <= high };
  }

  function mark(shape, x, y, r) {
    const path = {
      square: `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`,
      diamond: `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`,
      triangle: `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.1 * r}h${-2.4 * r}z`,
      cross: `M${x - r} ${y - r}l${2 * r} ${2 * r}M${x + r} ${y - r}l${-2 * r} ${2 * r}`,
    }[shape];
    return path ? element("path", { d: path }) : element("circle", { cx: x, cy: y, r });
  }

  /** How the marks of a view say what they are: a text beside what is pointed at, or focused. */
  function teller(root) {
    const tip = root.querySelector(".tip");
    return (node, text, x, y) => {
      node.setAttribute("tabindex", "0");
      node.setAttribute("role", "img");
      node.setAttribute("aria-label", text);
      const open = () => {
        tip.textContent = text;
        tip.hidden = false;
        const box = node.ownerSVGElement.getBoundingClientRect();
        const own = root.getBoundingClientRect();
        const left = box.left - own.left + x + 12;
        tip.style.left = `${Math.max(0, Math.min(left, own.width - tip.offsetWidth))}px`;
        tip.style.top = `${box.top - own.top + y - tip.offsetHeight - 10}px`;
      };
      node.addEventListener("pointerenter", open);
      node.addEventListener("focus", open);
      for (const leave of ["pointerleave", "blur"]) node.addEventListener(leave, () => (tip.hidden = true));
    };
  }

  function axes(svg, x, y, box, names) {
    for (const tick of x.ticks)
      svg.append(
        element("line", { class: "grid", x1: x.place(tick), x2: x.place(tick), y1: box.top, y2: box.bottom }),
        element("text", { x: x.place(tick), y: box.bottom + 16, "text-anchor": "middle" }, String(tick))
      );
    for (const tick of y ? y.ticks : [])
      svg.append(
        element("line", { class: "grid", x1: box.left, x2: box.right, y1: y.place(tick), y2: y.place(tick) }),
        element("text", { x: box.left - 6, y: y.place(tick) + 4, "text-anchor": "end" }, String(tick))
      );
    svg.append(element("text", { x: (box.left + box.right) / 2, y: box.bottom + 34, "text-anchor": "middle" }, names[0]));
    if (names[1])
      svg.append(element("text", { x: 13, y: (box.top + box.bottom) / 2, "text-anchor": "middle",
        transform: `rotate(-90 13 ${(box.top + box.bottom) / 2})` }, names[1]));
  }

  /** Room for both ends of a range, a twentieth on either side. */
  function range(values) {
    const found = values.filter(Number.isFinite);
    if (!found.length) return [0, 1];
    const [low, high] = [Math.min(...found), Math.max(...found)];
    if (low > 0 && high > 5 * low) return [low / 1.1, high * 1.1];
    const room = high - low > 1e-9 * Math.abs(high) ? 0.06 * (high - low) : 0.5; // rounding noise is no range
    return [low - room, high + room];
  }

  /** Values and the ends of intervals, these no further off than the values are apart. */
  function withEnds(values, ends) {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const spread = high - low || 1;
    return [...values, ...ends.filter(Number.isFinite).map((e) => Math.min(Math.max(e, low - spread), high + spread))];
  }

  function prepare(svg, height) {
    const width = Math.max(280, Math.round(svg.parentElement.clientWidth || 640));
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("height", height);
    return width;
  }

  return { element, say, withInterval, scale, mark, axes, range, withEnds, prepare, teller };
})();
