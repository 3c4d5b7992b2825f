"use strict";
// Tables sort by a click on a heading, and filter by words; both are part of the page's address.

const Tables = (() => {
  const FEWEST = 6; // rows from which a table has a field to filter it

  /** What a cell sorts by: its data-value, the number that it begins with, or its text. */
  function key(cell) {
    if (cell?.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = (cell?.textContent ?? "").trim();
    const number = /^[-+]?[\d,]*\.?\d+(e[-+]?\d+)?/i.exec(text);
    return number ? Number(number[0].replaceAll(",", "")) : text;
  }

  /** Numbers before words before what is none, whichever way (1 or -1) each of these goes. */
  function compare(a, b, way) {
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    if (typeof a === typeof b) return way * (a < b ? -1 : a > b ? 1 : 0);
    return typeof a === "number" ? -1 : 1;
  }

  /** Show the table as the address has it: rows in order, those that lack a word hidden, the heading marked. */
  function show(table, name) {
    const [, column, way] = /^(\d+)([ad])$/.exec(State.get(`sort.${name}`, "")) || [];
    const words = State.get(`filter.${name}`, "").toLowerCase().split(/\s+/).filter(Boolean);
    const body = table.tBodies[0];
    const rows = [...body.rows];
    rows.forEach((row, k) => (row.dataset.place ??= k));
    const own = (row) => Number(row.dataset.place);
    const order = column === undefined
      ? (a, b) => own(a) - own(b)
      : (a, b) => compare(key(a.cells[column]), key(b.cells[column]), way === "d" ? -1 : 1) || own(a) - own(b);
    rows.sort(order).forEach((row) => {
      body.append(row);
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    });
    [...table.tHead.rows[0].cells].forEach((head, k) => {
      const sorted = String(k) === column;
      if (sorted) head.setAttribute("aria-sort", way === "d" ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    const field = table.closest(".scroll")?.previousElementSibling?.querySelector("input");
    if (field && field !== document.activeElement) field.value = State.get(`filter.${name}`, "");
  }

  /** Give a table its buttons and its field; name: how the address calls it. */
  function equip(table, name) {
    if (!table.tHead || !table.tBodies.length) return;
    const place = table.closest("section").id;
    [...table.tHead.rows[0].cells].forEach((head, k) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.title = "sort by this column";
      head.append(button);
      button.addEventListener("click", () => {
        const now = State.get(`sort.${name}`);
        State.set(place, { [`sort.${name}`]: now === `${k}a` ? `${k}d` : now === `${k}d` ? null : `${k}a` });
      });
    });
    if (table.tBodies[0].rows.length >= FEWEST || table.dataset.live !== undefined) {
      const label = document.createElement("label");
      label.className = "filter";
      label.textContent = "filter rows ";
      const field = document.createElement("input");
      field.type = "search";
      label.append(field);
      table.closest(".scroll").before(label);
      field.addEventListener("input", () => State.set(place, { [`filter.${name}`]: field.value }));
    }
    State.listen(() => show(table, name));
    show(table, name);
  }

  document.querySelectorAll("main section").forEach((section) =>
    section.querySelectorAll("table").forEach((table, k) => equip(table, `${section.id}.${k}`))
  );
  return { show };
})();
