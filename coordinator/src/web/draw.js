"use strict";
// Elements, tables, charts and the timeline. Everything that comes from a job is set as text or as
// an attribute, never as markup.
const SVG = new Set(["svg", "rect", "text", "line", "title", "g", "path", "circle"]);
function node(name, attributes, ...children) {
  const it = SVG.has(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value != null) it.setAttribute(key, value);
  for (const child of children.flat(3)) if (child != null) it.append(child);
  return it;
}
// Makes an element like another one and leaves what is alike alone: focus, selection and scrolling stay.
function patch(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName) return old.replaceWith(wanted);
  if (old.nodeType === Node.TEXT_NODE) { if (old.data !== wanted.data) old.data = wanted.data; return; }
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  patchChildren(old, [...wanted.childNodes]);
}
function patchChildren(parent, wanted) {
  const had = [...parent.childNodes];
  wanted.forEach((child, i) => i < had.length ? patch(had[i], child) : parent.append(child));
  had.slice(wanted.length).forEach(child => child.remove());
}
function duration(s) {
  if (s == null || !isFinite(s)) return "–";
  s = Math.max(0, Math.round(s));
  if (s < 60) return s + " s";
  if (s < 3600) return Math.floor(s / 60) + " min " + s % 60 + " s";
  if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
}
const fixed = (value, digits) => value == null ? "–" : value.toFixed(digits);
const short = value => value == null ? "–" : Math.abs(value) >= 1e5 || value !== 0 && Math.abs(value) < 1e-3 ? value.toExponential(1) : String(+value.toPrecision(3));
// Neighbouring numbers get colours far apart.
const colour = id => `hsl(${Math.round(id * 137.5 % 360)} 55% var(--hue))`;
const narrow = () => document.documentElement.clientWidth <= 640;
// Room for a drawing, in pixels: text in it is then as large as other text.
const room = () => Math.max(280, Math.min(document.documentElement.clientWidth, 1280) - (narrow() ? 42 : 62));
// A header that begins with # is for numbers, one with ~ for text that may break.
function table(caption, header, rows) {
  const kind = header.map(name => name[0] === "#" ? "number" : name[0] === "~" ? "text" : "");
  const label = header.map(name => name.replace(/^[#~]/, ""));
  const cell = (value, i) => node("td", { class: (kind[i] + (value === "–" ? " empty" : "")).trim() || null, "data-label": label[i] }, node("span", {}, value));
  return node("div", { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    node("table", {}, node("thead", {}, node("tr", {}, label.map((name, i) => node("th", { scope: "col", class: kind[i] || null }, name)))),
      node("tbody", {}, rows.map(row => node("tr", {}, row.map(cell))))));
}
const section = (title, ...content) => node("section", { "aria-label": title }, node("h2", {}, title), ...content);
// A chart of one series [[x, y], ...]; `step` holds each value until the next, `band` is [[x, low, high], ...], `end` a line to compare with.
function chart(title, unit, points, { step = false, band = [], end = null, x = value => short(value), y = short, xName = "epochs" } = {}) {
  points = points.filter(point => point[1] != null && isFinite(point[1]));
  const head = node("h3", {}, title);
  if (!points.length) return node("div", {}, head, node("p", { class: "soft" }, "Nothing has been reported."));
  const width = narrow() ? room() : Math.floor((room() - 24) / 2), height = 150, left = 74, bottom = 18, top = 6;
  const xs = points.map(point => point[0]).concat(band.map(point => point[0]));
  const ys = points.map(point => point[1]).concat(band.flatMap(point => [point[1], point[2]]), end == null ? [] : [end]);
  let [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  if (x1 === x0) [x0, x1] = [x0 - 0.5, x1 + 0.5];
  if (y1 === y0) [y0, y1] = [y0 - (Math.abs(y0) || 1) / 2, y1 + (Math.abs(y1) || 1) / 2];
  const px = value => left + (value - x0) / (x1 - x0) * (width - left - 8), py = value => top + (y1 - value) / (y1 - y0) * (height - bottom - top);
  const at = (a, b) => `${px(a).toFixed(1)} ${py(b).toFixed(1)}`;
  const line = points.map(([a, b], i) => (i ? step ? `H ${px(a).toFixed(1)} V ${py(b).toFixed(1)}` : "L " + at(a, b) : "M " + at(a, b))).join(" ");
  const last = points[points.length - 1], first = points[0];
  const said = `${title}: ${y(first[1])} at first, ${y(last[1])} at last, between ${y(Math.min(...points.map(p => p[1])))} and ${y(Math.max(...points.map(p => p[1])))} ${unit}`;
  const drawing = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said },
    [y0, y1].map(value => node("line", { x1: left, x2: width, y1: py(value), y2: py(value), stroke: "var(--line)" })),
    [y0, y1].map(value => node("text", { class: "soft", x: left - 6, y: py(value) + (value === y1 ? 10 : 0), "text-anchor": "end" }, y(value))),
    band.length > 1 ? node("path", { fill: "var(--band)", d: "M " + band.map(p => at(p[0], p[1])).join(" L ") + " L " + band.slice().reverse().map(p => at(p[0], p[2])).join(" L ") + " Z" }) : null,
    node("path", { fill: "none", stroke: "var(--accent)", "stroke-width": 2, d: line }),
    points.length === 1 ? node("circle", { cx: px(first[0]), cy: py(first[1]), r: 3, fill: "var(--accent)" }) : null,
    end == null ? null : node("line", { x1: left, x2: width, y1: py(end), y2: py(end), stroke: "var(--bad)", "stroke-dasharray": "5 3" }),
    node("text", { class: "soft", x: left, y: height - 4 }, x(x0)), node("text", { class: "soft", x: width - 4, y: height - 4, "text-anchor": "end" }, `${x(x1)} ${xName}`));
  return node("div", {}, head, drawing, node("p", { class: "soft" }, `last: ${y(last[1])} ${unit}`));
}
// Devices for what is planned: a job keeps those that it has; others get what is free.
function lanesOf(state, lanes) {
  let before = new Map();
  lanes.forEach((lane, i) => { if (lane.job) before.set(lane.job, [...(before.get(lane.job) || []), i]); });
  return state.rounds.slice(1).map(round => {
    const free = new Set(lanes.keys()), now = new Map();
    for (const job of round.jobs) {
      const own = before.get(job.id);
      if (own && own.length === job.gpus) { own.forEach(i => free.delete(i)); now.set(job.id, own); }
    }
    for (const job of round.jobs) {
      if (now.has(job.id) || free.size < job.gpus) continue;
      const own = [...free].slice(0, job.gpus);
      own.forEach(i => free.delete(i)); now.set(job.id, own);
    }
    before = now;
    return { round, now };
  });
}
// Rounds of one job on one device that follow each other, with the same batch size, as one stretch.
function plannedOf(rounds) {
  const stretches = [], open = new Map();
  rounds.forEach(({ round, now: placed }, place) => {
    for (const job of round.jobs) for (const row of placed.get(job.id) || []) {
      const known = open.get(row);
      if (known && known.job === job.id && known.batch === job.batch && known.last === place - 1) {
        known.last = place; known.rounds[1] = round.round;
      } else {
        const stretch = { row, job: job.id, batch: job.batch, first: place, last: place, rounds: [round.round, round.round] };
        open.set(row, stretch); stretches.push(stretch);
      }
    }
  });
  return stretches;
}
function timeline(state) {
  const lanes = state.nodes.flatMap(machine => machine.devices.map(device => ({ machine: machine.name, index: device.index, job: device.job, state: machine.state })));
  if (!lanes.length) return section("Timeline", node("p", { class: "soft" }, "No machine has joined."));
  const width = room(), left = narrow() ? 74 : 130, lane = 28, now = state.now_unix_s, top = 18;
  const first = Math.min(now, ...state.stints.map(stint => stint.from));
  const past = Math.min(Math.max(now - first, state.round_s * 4), state.round_s * (narrow() ? 10 : 30));
  const ahead = Math.min((state.rounds.length - 1) * state.round_s + state.round_left_s, past * 0.6), span = past + ahead;
  const x = time => left + (time - (now - past)) / span * (width - left), height = top + lanes.length * lane + 40;
  const drawing = node("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": told(state) });
  const label = machine => narrow() && machine.length > 8 ? machine.slice(0, 7) + "…" : machine.slice(0, 16);
  lanes.forEach(({ machine, index, state: up }, row) => {
    const y = top + row * lane;
    drawing.append(node("g", {}, node("title", {}, `${machine}, device ${index}, ${up}`), node("text", { x: 0, y: y + 18, class: up === "up" ? null : "soft" }, `${label(machine)} ${index}`)),
      node("line", { x1: left, x2: width, y1: y + lane - 1, y2: y + lane - 1, stroke: "var(--line)" }));
    for (const stint of state.stints) if (stint.node === machine && stint.slots.includes(index)) drawing.append(...held(stint, y, { x, left, now, lane }));
  });
  const until = place => Math.min(x(now + state.round_left_s + place * state.round_s), width);
  for (const { row, job, batch, first, last, rounds } of plannedOf(lanesOf(state, lanes))) {
    const from = until(first), to = until(last + 1);
    if (from >= width - 2) continue;
    const said = first === last ? `round ${rounds[0]}` : `rounds ${rounds[0]} to ${rounds[1]}`, with_batch = to - from > 70 && batch ? ` · ${batch}` : "";
    drawing.append(node("g", {}, node("title", {}, `job ${job}, planned for ${said}${batch ? `, expected batch ${batch}` : ""}`),
      node("rect", { x: from + 1.5, y: top + row * lane + 4, width: Math.max(to - from - 3, 1), height: lane - 9, rx: 3, fill: "none", stroke: colour(job), "stroke-width": 1.5, "stroke-dasharray": "4 2" }),
      to - from > 9 * String(job).length + 8 ? node("text", { x: from + 6, y: top + row * lane + 18 }, job + with_batch) : null));
  }
  // A price stands once for all rounds that have it.
  const prices = state.rounds.slice(1).map(round => round.price == null ? null : short(round.price));
  prices.forEach((price, place) => {
    if (price == null || place && prices[place - 1] === price) return;
    const others = prices.findIndex((other, later) => later > place && other !== price), from = until(place), to = until(others < 0 ? prices.length : others);
    if (to - from > 38) drawing.append(node("text", { class: "soft", x: (from + to) / 2, y: top + lanes.length * lane + 14, "text-anchor": "middle" }, price));
  });
  drawing.append(node("line", { x1: x(now), x2: x(now), y1: top - 4, y2: height - 38, stroke: "var(--ink)", "stroke-width": 1.5 }),
    node("text", { x: Math.min(Math.max(x(now), left + 14), width - 14), y: 11, "text-anchor": "middle" }, "now"),
    node("text", { class: "soft", x: left, y: height - 8 }, duration(past) + " ago"), node("text", { class: "soft", x: width - 2, y: height - 8, "text-anchor": "end" }, "in " + duration(ahead)));
  if (state.rounds.some(round => round.price != null)) drawing.append(node("text", { class: "soft", x: 0, y: top + lanes.length * lane + 14 }, "price"));
  return section("Timeline", drawing, node("p", { class: "soft" }, node("span", { class: "key held" }), "held by a job (its number · batch size)", " ", node("span", { class: "key planned" }), "planned", " ", node("span", { class: "key now" }), "now"),
    node("p", { class: "soft" }, `A round lasts ${duration(state.round_s)}. Each colour is a job; a lighter stretch is another batch size. The price is what a device costs in a planned round.`));
}
// The rectangles of one stint, one for each batch size.
function held(stint, y, { x, left, now, lane }) {
  const cuts = (stint.batches || []).filter(change => change[0] < (stint.to ?? now)), parts = [];
  const begin = cuts.filter(change => change[0] <= stint.from).pop();
  let from = stint.from, batch = begin ? begin[1] : null;
  for (const [at, next] of cuts) if (at > stint.from) { parts.push([from, at, batch]); [from, batch] = [at, next]; }
  parts.push([from, stint.to ?? now, batch]);
  return parts.map(([from, to, batch], i) => {
    const a = Math.max(x(from), left), b = Math.max(x(to), left);
    if (b <= left) return null;
    const text = b - a > 64 && batch ? `${stint.job} · ${batch}` : b - a > 9 * String(stint.job).length + 8 ? String(stint.job) : null;
    return node("g", {}, node("title", {}, `job ${stint.job}${batch ? `, batch ${batch}` : ""}, ${duration(to - from)}`),
      node("rect", { x: a, y: y + 3, width: Math.max(b - a - 0.5, 1), height: lane - 7, rx: 2, fill: colour(stint.job), "fill-opacity": i % 2 ? 0.72 : 1 }),
      text ? node("text", { x: a + 4, y: y + 18, class: "on" }, text) : null);
  }).filter(it => it);
}
// The timeline in words, for who cannot see it.
function told(state) {
  const runs = state.nodes.flatMap(machine => machine.devices.map(device => `${machine.name} ${device.index}: ${device.job ? "job " + device.job : "idle"}`));
  const next = state.rounds[1];
  return `Now: ${runs.join(", ")}. ${next ? `Next round: ${next.jobs.map(job => "job " + job.id).join(", ") || "nothing"}.` : ""}`;
}
