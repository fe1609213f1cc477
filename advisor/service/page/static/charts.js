// Charts of tables that stand in the page: a row is a point, its data-* are the numbers.
import { keys } from "./chart_keys.js";
import { shape } from "./shapes.js";

const HEIGHT = 352;
const SMALL = 208;
const drawn = new Map();

export function draw(place) {
  if (!window.uPlot) return window.addEventListener("load", () => window.uPlot && draw(place), { once: true });
  const kind = KINDS[place.dataset.plot];
  const rows = rowsOf(place.dataset.table);
  drawn.get(place)?.destroy();
  if (!rows.length) return undefined;
  const chart = new window.uPlot(kind(place, rows), columns(place, rows), place);
  drawn.set(place, chart);
  keys(place, chart, rows);
  for (const [old, one] of drawn) if (!old.isConnected) { one.destroy(); drawn.delete(old); }
  return undefined;
}

new ResizeObserver(() => resize()).observe(document.documentElement);
document.addEventListener("recolour", () => { for (const place of [...drawn.keys()]) if (place.isConnected) draw(place); });

function resize() {
  for (const [place, chart] of drawn) {
    if (!place.isConnected || chart.width === place.clientWidth) continue;
    chart.setSize({ width: place.clientWidth, height: chart.height });
    place.dispatchEvent(new Event("resized"));
  }
}

export function rowsOf(id) {
  const number = (text) => (text === undefined || text === "" ? null : Number(text));
  return [...document.querySelectorAll(`#${CSS.escape(id)} tbody tr[data-x]`)].map((row) => ({
    x: number(row.dataset.x), lower: number(row.dataset.lower), median: number(row.dataset.median), upper: number(row.dataset.upper),
    kind: row.dataset.kind, front: row.dataset.front !== undefined, said: row.dataset.said,
  })).sort((one, other) => one.x - other.x);
}

function columns(place, rows) {
  const column = (name) => rows.map((row) => row[name]);
  return [column("x"), column("lower"), column("median"), column("upper")];
}

const KINDS = {
  "price-rate": (place, rows) => options(place, rows, { log: true, hook: (u) => { front(u, rows); target(u, place); marks(u, rows); } }),
  curve: (place, rows) => options(place, rows, { small: true, logX: true, hook: (u) => { band(u, rows); marks(u, rows); target(u, place); } }),
};

function options(place, rows, { log = false, logX = log, small = false, hook }) {
  const target = Number(place.dataset.target) || null;
  const most = Math.max(...rows.map((row) => row.upper ?? row.median ?? row.lower), target ?? 0);
  const least = Math.min(...rows.map((row) => row.lower), target ?? Infinity);
  const x = rows.map((row) => row.x);
  const range = [Math.min(...x) / (logX ? 1.25 : 1), Math.max(...x) * (logX ? 1.25 : 1)];
  const heights = log ? [least / 1.5, most * 1.4] : [0, most * 1.12];
  return {
    width: place.clientWidth, height: small ? SMALL : HEIGHT, legend: { show: false }, cursor: { show: false }, padding: [12, 12, 0, 0],
    scales: { x: { time: false, distr: logX ? 3 : 1, range: () => range }, y: { distr: log ? 3 : 1, range: () => heights } },
    axes: [axis(place.dataset.x, logX, 46, small), axis(place.dataset.y, log, 66)],
    series: [{}, hidden(), hidden(), hidden()], hooks: { draw: [hook] },
  };
}

function axis(label, log, size, doubled = false) {
  const ink = colour("--soft");
  const grid = { stroke: colour("--line"), width: 1 };
  const plain = { stroke: ink, grid, ticks: grid, label, labelSize: 22, size, font: "12px system-ui", labelFont: "12px system-ui" };
  const told = (one) => Number(one.toPrecision(3)).toLocaleString("en");
  if (!log) return { ...plain, values: (u, splits) => splits.map(told) };
  return { ...plain, splits: (u, at, least, most) => (doubled ? doublings(least, most) : marksOf(least, most)), filter: (u, splits) => splits, values: (u, splits) => splits.map(told) };
}

// 1, 2 and 5 of each power of ten; over a wide range the powers alone.
function marksOf(least, most) {
  const steps = Math.log10(most / least) > 3 ? [1] : [1, 2, 5];
  const found = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); power += 1)
    for (const step of steps) if (step * 10 ** power >= least && step * 10 ** power <= most) found.push(step * 10 ** power);
  return found;
}

// 1, 2, 4, 8: what vCPUs and RAM come in.
function doublings(least, most) {
  const found = [];
  for (let one = 2 ** Math.ceil(Math.log2(least)); one <= most; one *= 2) found.push(one);
  return found;
}

function hidden() { return { paths: () => null, points: { show: false } }; }

export function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function marks(u, rows) {
  const pen = u.ctx;
  pen.save();
  for (const row of rows) {
    const x = u.valToPos(row.x, "x", true);
    const ink = colour(INKS[row.kind] ?? "--soft");
    if (row.upper !== null && row.kind !== "step") interval(u, pen, x, row, ink);
    shape(pen, row.kind, x, u.valToPos(row.median ?? row.lower, "y", true), ink, window.devicePixelRatio, colour("--card"));
  }
  pen.restore();
}

const INKS = { pick: "--blue", front: "--green", other: "--soft", now: "--blue", was: "--soft" };

function interval(u, pen, x, row, ink) {
  const [low, high] = [u.valToPos(row.lower, "y", true), u.valToPos(row.upper, "y", true)];
  const cap = 5 * window.devicePixelRatio;
  pen.strokeStyle = ink;
  pen.lineWidth = 1.6 * window.devicePixelRatio;
  pen.beginPath();
  pen.moveTo(x, low); pen.lineTo(x, high);
  for (const y of [low, high]) { pen.moveTo(x - cap, y); pen.lineTo(x + cap, y); }
  pen.stroke();
}

// Specs that none other beats in price and sure rate, as steps.
function front(u, rows) {
  const pen = u.ctx;
  pen.save();
  pen.strokeStyle = colour("--green");
  pen.lineWidth = 2 * window.devicePixelRatio;
  pen.beginPath();
  let y = null;
  for (const row of rows.filter((one) => one.front)) {
    const x = u.valToPos(row.x, "x", true);
    if (y === null) pen.moveTo(x, u.bbox.top + u.bbox.height);
    else pen.lineTo(x, y);
    y = u.valToPos(row.lower, "y", true);
    pen.lineTo(x, y);
  }
  pen.stroke();
  pen.restore();
}

function band(u, rows) {
  const pen = u.ctx;
  const at = (row, name) => [u.valToPos(row.x, "x", true), u.valToPos(row[name], "y", true)];
  pen.save();
  pen.fillStyle = colour("--blue-soft");
  pen.beginPath();
  rows.forEach((row) => pen.lineTo(...at(row, "lower")));
  [...rows].reverse().forEach((row) => pen.lineTo(...at(row, "upper")));
  pen.fill();
  pen.strokeStyle = colour("--blue");
  pen.lineWidth = 2 * window.devicePixelRatio;
  pen.beginPath();
  rows.forEach((row) => pen.lineTo(...at(row, "median")));
  pen.stroke();
  pen.restore();
}

function target(u, place) {
  const wanted = Number(place.dataset.target);
  if (!wanted) return;
  const pen = u.ctx;
  const ratio = window.devicePixelRatio;
  const y = u.valToPos(wanted, "y", true);
  pen.save();
  pen.strokeStyle = pen.fillStyle = colour("--orange");
  pen.lineWidth = 2 * ratio;
  pen.setLineDash([6 * ratio, 4 * ratio]);
  pen.beginPath();
  pen.moveTo(u.bbox.left, y); pen.lineTo(u.bbox.left + u.bbox.width, y);
  pen.stroke();
  pen.font = `600 ${12 * ratio}px system-ui`;
  pen.textAlign = "right";
  pen.setLineDash([]);
  pen.strokeStyle = colour("--card");
  pen.lineWidth = 4 * ratio;
  const told = [`${place.dataset.targetName} ${wanted.toLocaleString("en")}`, u.bbox.left + u.bbox.width - 6 * ratio, y - 6 * ratio];
  pen.strokeText(...told);
  pen.fillText(...told);
  pen.restore();
}
