"use strict";
// The statistics of the page: those of analysis/equal_cost.py and analysis/statistics.py, over the problems chosen.
//
// data.after (at numbers of evaluations) and data.within (at budgets) hold means over seeds, by method, problem and
// place; weight: the seeds behind each, by problem and place. So a mean over the cells of a data set is the weighted
// mean over its problems, and the mean over data sets has the t interval of their means.

const Statistics = (() => {
  const NONE = 65535;
  const ZERO = 65534;

  /** Numbers from 16 bits each, evenly spaced in the logarithm (front.py, `packed`); two more codes: none (NaN), zero. */
  function unpack({ low, high, data }) {
    const bytes = atob(data);
    const values = new Float64Array(bytes.length / 2);
    for (let k = 0; k < values.length; k++) {
      const code = bytes.charCodeAt(2 * k) + 256 * bytes.charCodeAt(2 * k + 1);
      const known = Math.exp(low + ((high - low) * code) / (ZERO - 1));
      values[k] = code === NONE ? NaN : code === ZERO ? 0 : known;
    }
    return values;
  }

  /** Data with its numbers unpacked, each a function (method, problem, place) => value. */
  function open(data) {
    const problems = data.problems.length;
    const table = (packed, places) => {
      const values = unpack(packed);
      return (method, problem, place) => values[(method * problems + problem) * places + place];
    };
    return {
      ...data,
      cost: table(data.after.cost, data.lengths.length),
      error: table(data.after.error, data.lengths.length),
      errorWithin: table(data.within.error, data.budgets.length),
      datasets: [...new Set(data.problems.map((p) => p.dataset))],
      pipelines: [...new Set(data.problems.map((p) => p.pipeline))],
      tasks: [...new Set(data.problems.map((p) => p.task))],
      families: [...new Set(data.methods.map((m) => m.family))],
    };
  }

  /** The positions of the problems that a filter leaves: names of data sets, pipelines and tasks that are out. */
  function chosen(data, { datasets = [], pipelines = [], tasks = [], flat = true } = {}) {
    const out = (p) =>
      datasets.includes(p.dataset) || pipelines.includes(p.pipeline) || tasks.includes(p.task) || (!flat && p.flat);
    return data.problems.map((_, k) => k).filter((k) => !out(data.problems[k]));
  }

  /** Mean over data sets of their weighted means, and its 95 % t interval (NaN for one data set). */
  function overDatasets(data, problems, value, weight) {
    const sums = new Map();
    for (const p of problems) {
      const w = weight(p);
      if (!w) continue;
      const [total, seeds] = sums.get(data.problems[p].dataset) || [0, 0];
      sums.set(data.problems[p].dataset, [total + w * value(p), seeds + w]);
    }
    const means = [...sums.values()].map(([total, seeds]) => total / seeds);
    const count = means.length;
    const mean = count ? means.reduce((a, b) => a + b, 0) / count : NaN;
    const square = means.reduce((a, b) => a + (b - mean) ** 2, 0);
    const arm = count > 1 ? data.quantiles[count - 2] * Math.sqrt(square / (count - 1) / count) : NaN;
    return { value: mean, low: mean - arm, high: mean + arm, datasets: count };
  }

  /** Of every method: cost and error after the evaluations at `place` of data.lengths. */
  function after(data, problems, place) {
    const weight = (p) => data.after.weight[p][place];
    return data.methods.map((method, m) => ({
      ...method,
      cost: overDatasets(data, problems, (p) => data.cost(m, p, place), weight),
      error: overDatasets(data, problems, (p) => data.error(m, p, place), weight),
    }));
  }

  /** Of every method: the error within the budget at `place` of data.budgets, and the paired difference to EI's. */
  function within(data, problems, place) {
    const weight = (p) => data.within.weight[p][place];
    const error = (m, p) => data.errorWithin(m, p, place);
    const rows = data.methods.map((method, m) => ({
      ...method,
      error: overDatasets(data, problems, (p) => error(m, p), weight),
      off: overDatasets(data, problems, (p) => error(m, p) - error(0, p), weight),
      first: false,
      won: NaN,
    }));
    // of each family the method of the lowest mean, one for all problems, and the share of problems that it wins
    const best = data.families.map((family) => {
      const own = rows.map((_, m) => m).filter((m) => rows[m].family === family);
      return own.reduce((a, b) => (rows[b].error.value < rows[a].error.value ? b : a));
    });
    const there = problems.filter(weight);
    const won = new Map(best.map((m) => [m, 0]));
    for (const p of there) {
      const lowest = Math.min(...best.map((m) => error(m, p)));
      const equal = best.filter((m) => error(m, p) === lowest);
      for (const m of equal) won.set(m, won.get(m) + 1 / equal.length);
    }
    for (const m of best) Object.assign(rows[m], { first: true, won: there.length ? won.get(m) / there.length : NaN });
    return rows;
  }

  return { unpack, open, chosen, overDatasets, after, within };
})();

if (typeof module !== "undefined") module.exports = Statistics;
