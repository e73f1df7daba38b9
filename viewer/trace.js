// A trace of a real run: what every rank did when, measured beside predicted, and who waited for whom. Of many ranks,
// neighbours share a row.
import { blended, heatColour } from "tutti/colours.js";
import { element } from "tutti/elements.js";
import { bytesText, plural, timeText } from "tutti/format.js";
import { GanttPane } from "tutti/gantt.js";

const kStride = 7;  // rank, row, category, name, begin, duration, detail
const kMostRows = 64;

const kColours = {
  call: (theme) => theme.accent, step: (theme) => blended(theme.accent, theme.computing, 0.5), wait: (theme) => theme.faint,
  train: (theme) => theme.cell, span: (theme) => theme.computing, bucket: (theme) => theme.warm };

// There may be very many, so that words are made for the one that is looked at.
class TraceBox {
  constructor(rank, row, lane, lanes, begin, end, name, category) {
    Object.assign(this, { rank, row, lane, lanes, begin, end, name, label: name, category });
    this.colour = kColours[category] ?? kColours.call;
  }

  get words() {
    return wordsOf(this);
  }
}

export function traceModel(app) {
  const document_ = app.document;
  const read = readEvents(document_);
  const source = {
    rows: read.rows, lanes: read.lanes, names: Array.from({ length: read.rows }, (_, row) => labelOf(read, row)),
    span: document_.span_us, unit: "us", boxes: read.boxes, timeOf: (position) => position, positionOf: (time) => time,
    note: `measured: ${plural(read.boxes.length, "event")} in ${timeText(document_.span_us)}` };
  return {
    title: document_.title, layout: "two",
    detail: plural(document_.ranks, "rank") + (read.each > 1 ? ` in groups of ${read.each}` : ""),
    chips: [["measured"], [plural(read.calls.length, "call")], ...(document_.notes ?? []).map((note) => [note, "bad"])],
    panes: {
      gantt: new GanttPane(app, { measured: source }, "What the ranks did"), matrix: new WaitsPane(app, read),
      cost: new PredictedPane(app, read.calls) },
    read, length: document_.span_us, pace: document_.span_us / 15, rows: read.rows, columns: 1, seek: () => {},
    stepFrom: (position, by) => nearestBegin(read.starts, position, by, document_.span_us),
    where: (position) => `${timeText(position)} of ${timeText(document_.span_us)}`,
    tell: (detail) => tellBox(app, detail, read),
  };
}

function readEvents({ ranks, events, names, categories, calls, rows }) {
  const boxes = new Array(events.length / kStride), found = [], starts = new Set();
  const each = Math.ceil(ranks / kMostRows), rowCount = Math.ceil(ranks / each);
  const waits = Array.from({ length: rowCount }, () => new Float64Array(rowCount));
  const lanes = Math.max(1, rows.length);
  for (let i = 0; i < boxes.length; ++i) {
    const at = i * kStride;
    const category = categories[events[at + 2]], name = names[events[at + 3]];
    const begin = events[at + 4], end = begin + events[at + 5], detail = events[at + 6];
    const rank = events[at], row = Math.floor(rank / each);
    const box = new TraceBox(rank, row, events[at + 1], lanes, begin, end, name, category);
    if (category === "call" && detail >= 0) {
      const [bytes, algorithm, predicted, waited] = calls[detail];
      box.call = { bytes, algorithm: names[algorithm] ?? "", predicted, waited, measured: end - begin - waited };
      found.push(box);
      starts.add(begin);
    }
    if (category === "wait" && detail >= 0 && detail < ranks) {
      box.peer = detail;
      waits[row][Math.floor(detail / each)] += events[at + 5];
    }
    if (each > 1) box.label = undefined;  // those of neighbours would lie on each other
    boxes[i] = box;
  }
  return { ranks, each, rows: rowCount, boxes, lanes, calls: found, waits, starts: [...starts].sort((a, b) => a - b) };
}

// On an axis, and in a sentence.
function labelOf({ each }, row) {
  return each === 1 ? `rank ${row}` : `from ${row * each}`;
}

function nameOf({ ranks, each }, row) {
  const first = row * each, last = Math.min(ranks, first + each) - 1;
  return first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
}

function wordsOf({ rank, name, begin, end, call }) {
  if (!call) return `rank ${rank}: ${name}, ${timeText(end - begin)}`;
  const expected = call.predicted >= 0 ? `, predicted ${timeText(call.predicted)}` : "";
  const before = call.waited > 0 ? `, after it had waited ${timeText(call.waited)}` : "";
  return `rank ${rank}: ${name} of ${bytesText(call.bytes)} by ${call.algorithm || "no row"}, measured ${timeText(call.measured)}${expected}${before}`;
}

function nearestBegin(starts, position, by, span) {
  if (by > 0) return starts.find((time) => time > position + 1e-6) ?? span;
  return starts.findLast((time) => time < position - 1e-6) ?? 0;
}

function tellBox(app, detail, read) {
  const box = app.chosen?.box;
  const key = box ? wordsOf(box) : "none";
  if (detail.dataset.key === key) return;
  detail.dataset.key = key;
  if (!box) {
    detail.replaceChildren(element("h2", {}, "Choose"), element("p", {}, "Click a call, a step or a wait. The wheel zooms."));
    return;
  }
  const rows = [["rank", String(box.rank)], ["what", `${box.category}: ${box.name}`], ["from", timeText(box.begin)], ["took", timeText(box.end - box.begin)]];
  if (box.call) {
    rows.push(["bytes", bytesText(box.call.bytes)], ["by", box.call.algorithm], ["waited", timeText(box.call.waited)]);
    if (box.call.predicted >= 0) rows.push(["measured", timeText(box.call.measured)], ["predicted", timeText(box.call.predicted)]);
  }
  detail.replaceChildren(element("h2", {}, box.name),
    element("table", {}, ...rows.map(([name, value]) => element("tr", {}, element("td", {}, name), element("td", {}, value)))));
}

// Who waited for whom, and how long in all.
class WaitsPane {
  constructor(app, read) {
    this.app = app;
    this.read = read;
    this.waits = read.waits;
    this.most = Math.max(1e-9, ...this.waits.map((row) => Math.max(...row)));
    this.title = "Who waited for whom";
  }

  hint() {
    return `a row waits for a column; the most is ${timeText(this.most)}`;
  }

  place(width, height) {
    const ranks = this.waits.length, cell = Math.min((width - 70) / ranks, (height - 30) / ranks, 60);
    return { cell, left: 56, top: 22 };
  }

  draw(painter, theme) {
    const { cell, left, top } = this.place(painter.width, painter.height);
    const every = Math.ceil(14 / cell), everyColumn = Math.ceil((6 + 6 * String(this.read.ranks).length) / cell);
    this.waits.forEach((row, rank) => {
      if (rank % every === 0)
        painter.text(left - 8, top + (rank + 0.5) * cell + 3.5, labelOf(this.read, rank), { size: 10, align: "right", fill: theme.soft });
      if (rank % everyColumn === 0)
        painter.text(left + (rank + 0.5) * cell, top - 6, String(rank * this.read.each), { size: 10, align: "center", fill: theme.soft });
      row.forEach((us, peer) => painter.rect(left + peer * cell, top + rank * cell, cell - 1, cell - 1, {
        fill: us > 0 ? heatColour(0.1 + (0.9 * us) / this.most, theme) : theme.cell }));
    });
  }

  hover(x, y, width, height) {
    const { cell, left, top } = this.place(width, height);
    const rank = Math.floor((y - top) / cell), peer = Math.floor((x - left) / cell);
    const us = this.waits[rank]?.[peer];
    if (us === undefined) return null;
    return `${nameOf(this.read, rank)} waited ${timeText(us)} for ${nameOf(this.read, peer)}`;
  }
}

// Predicted to the right, measured upwards, from when all ranks had come: what lies above the line took longer than it
// should.
class PredictedPane {
  constructor(app, calls) {
    this.app = app;
    this.calls = calls.filter(({ call }) => call.predicted > 0);
    this.title = "Predicted beside measured";
    const all = this.calls.flatMap(({ call }) => [call.predicted, Math.max(0.01, call.measured)]);
    // Whole decades, so that both axes have ticks.
    this.low = 10 ** Math.floor(Math.log10(all.reduce((low, us) => Math.min(low, us), Infinity)));
    this.high = 10 ** Math.ceil(Math.log10(all.reduce((high, us) => Math.max(high, us), 0)));
  }

  hint() {
    return this.calls.length === 0 ? "no call has a prediction" : "a dot is a call; on the line it took what was predicted";
  }

  place(width, height) {
    const span = Math.log(this.high / this.low) || 1;
    const scale = (us) => Math.log(us / this.low) / span;
    return { x: (us) => 58 + (width - 74) * scale(us), y: (us) => height - 30 - (height - 44) * scale(us) };
  }

  draw(painter, theme) {
    if (this.calls.length === 0) return;
    const { x, y } = this.place(painter.width, painter.height);
    for (let us = this.low; us <= this.high * 1.001; us *= 10) {
      painter.line([[58, y(us)], [painter.width - 16, y(us)]], { stroke: theme.line });
      painter.text(51, y(us) + 3.5, timeText(us), { size: 10, align: "right", fill: theme.soft });
      painter.text(Math.min(x(us), painter.width - 22), painter.height - 14, timeText(us), { size: 10, align: "center", fill: theme.soft });
    }
    painter.line([[x(this.low), y(this.low)], [x(this.high), y(this.high)]], { stroke: theme.faint, dash: [4, 3] });
    const seen = new Set();
    for (const { begin, call } of this.calls) {
      const [px, py] = [x(call.predicted), y(Math.max(0.01, call.measured))];
      const key = Math.round(px) * 10000 + Math.round(py);
      if (seen.has(key)) continue;
      seen.add(key);
      painter.circle(px, py, 3, { fill: call.measured > 2 * call.predicted ? theme.bad : theme.accent, alpha: begin <= this.app.position ? 0.9 : 0.35 });
    }
  }

  hover(x, y, width, height) {
    if (this.calls.length === 0) return null;
    const area = this.place(width, height);
    const near = this.calls.find(({ call }) =>
      Math.hypot(area.x(call.predicted) - x, area.y(Math.max(0.01, call.measured)) - y) < 6);
    return near ? wordsOf(near) : null;
  }
}
