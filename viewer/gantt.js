// Rows over time: the steps of a schedule by rounds, as the simulator times them, or what a run measured. The playhead is
// the player's; a click puts it there.
import { blended, rankColour } from "tutti/colours.js";
import { tickOf, timeText } from "tutti/format.js";

// The least that is seen: this part of the time, and so many of its units.
const kLeastPart = 1e-9, kLeast = 1e-3;

export class GanttPane {
  // `source`: { rows, names, span, unit, boxes, timeOf(position), positionOf(time), note }; a box is
  // { row, begin, end, colour(theme), alpha, words, lane of lanes }, in the order of their begins.
  constructor(app, sources, title = "When") {
    this.app = app;
    this.sources = sources;
    this.title = title;
    this.window = null;  // what of the time is seen; null: all
  }

  get source() {
    return this.sources[this.app.options.clock] ?? Object.values(this.sources)[0];
  }

  hint() {
    return "drag to scrub, wheel to zoom";
  }

  controls() {
    const names = Object.keys(this.sources);
    return names.length > 1 ? [{ key: "clock", label: "by", values: names }] : [];
  }

  status() {
    return this.source.note ?? "";
  }

  place(width, height) {
    const left = 62, right = 14, top = 8, bottom = 24;
    const rows = this.source.rows;
    const row = Math.min(74, (height - top - bottom) / Math.max(rows, 1));
    const [begin, end] = this.window ?? [0, this.source.span];
    const scale = (width - left - right) / Math.max(end - begin, 1e-12);
    return { left, right: width - right, top, row, begin, end, scale, x: (time) => left + (time - begin) * scale };
  }

  draw(painter, theme) {
    const { source } = this;
    const area = this.place(painter.width, painter.height);
    const every = Math.ceil(11 / area.row);
    for (let row = 0; row < source.rows; ++row) {
      const y = area.top + row * area.row;
      painter.rect(area.left, y + area.row * 0.1, area.right - area.left, area.row * 0.8, { fill: theme.cell, alpha: 0.5 });
      if (row % every === 0)
        painter.text(area.left - 8, y + area.row / 2 + 3.5, source.names[row], {
          size: 10.5, align: "right", fill: this.app.chosen?.row === row ? theme.ink : theme.soft });
    }
    this.drawAxis(painter, theme, area);
    this.drawBoxes(painter, theme, area);
    const now = area.x(source.timeOf(this.app.position));
    if (now >= area.left - 1 && now <= area.right + 1) {
      const bottom = area.top + area.row * source.rows;
      painter.line([[now, area.top - 4], [now, bottom + 4]], { stroke: theme.ink, width: 1.5 });
      painter.line([[now - 5, area.top - 6], [now + 5, area.top - 6], [now, area.top + 1]], { fill: theme.ink, closed: true });
    }
  }

  drawAxis(painter, theme, area) {
    const { source } = this;
    if (!(area.end > area.begin)) return;
    const bottom = area.top + area.row * source.rows;
    const whole = source.unit === "round";
    const tick = Math.max(tickOf(area.end - area.begin, Math.max(2, (area.right - area.left) / 90)), whole ? 1 : 0);
    // Counted, because far from 0 a small tick added to a time may leave it as it is.
    const last = Math.floor(area.end / tick + 1e-6);
    for (let count = Math.ceil(area.begin / tick); count <= last; ++count) {
      const time = count * tick;
      const x = area.x(time);
      painter.line([[x, area.top], [x, bottom]], { stroke: theme.line, width: 1 });
      const words = source.unit === "us" ? timeText(Number(time.toPrecision(6))) : String(Number(time.toPrecision(6)));
      painter.text(x, bottom + 15, words, { size: 10, align: "center", fill: theme.soft });
    }
  }

  // What is done is strong, what is to come is faint, what is under way stands out.
  drawBoxes(painter, theme, area) {
    const now = this.source.timeOf(this.app.position);
    if (!painter.layer) {
      this.drawAll(painter, theme, area, (box) => (box.begin <= now && now < box.end ? 1 : box.end <= now ? 0.8 : 0.38));
      return;
    }
    const key = [this.app.options.clock, theme.name, area.begin, area.end].join(" ");
    const layer = painter.layer(this, key, (aside) => this.drawAll(aside, theme, area, () => 1));
    const at = Math.min(area.right, Math.max(area.left, area.x(now)));
    painter.strip(layer, 0, at, 0.8);
    painter.strip(layer, at, painter.width, 0.38);
    for (let i = this.firstAfter(now); i < this.source.boxes.length && this.source.boxes[i].begin <= now; ++i) {
      const box = this.source.boxes[i];
      if (now < box.end) this.drawBox(painter, theme, area, box, 1);
    }
  }

  drawAll(painter, theme, area, alphaOf) {
    const { source } = this;
    // Boxes narrower than a pixel share one, so that a long trace is drawn as quickly as a short one.
    const filled = new Float64Array(source.rows * (source.lanes ?? 1)).fill(-1);
    for (let i = this.firstAfter(area.begin); i < source.boxes.length && source.boxes[i].begin <= area.end; ++i) {
      const box = source.boxes[i];
      if (box.end < area.begin) continue;
      const lane = box.row * (source.lanes ?? 1) + (box.lane ?? 0), x = area.x(box.begin);
      if ((box.end - box.begin) * area.scale < 0.7) {
        if (x < filled[lane] + 0.7) continue;
        filled[lane] = x;
      }
      this.drawBox(painter, theme, area, box, alphaOf(box));
    }
  }

  drawBox(painter, theme, area, box, alpha) {
    const x = Math.max(area.left, area.x(box.begin)), end = Math.min(area.right, area.x(box.end));
    const width = Math.max(0.7, end - x), height = (area.row * 0.8) / (box.lanes ?? 1);
    const y = area.top + box.row * area.row + area.row * 0.1 + height * (box.lane ?? 0);
    painter.rect(x, y + Math.min(0.5, height * 0.25), width, Math.max(height - 1, height * 0.5), {
      fill: box.colour(theme), alpha, radius: width > 6 && height > 8 ? 2.5 : 0 });
    if (box.label && width > 7 * box.label.length + 4 && height > 11)
      painter.text(x + width / 2, y + height / 2 + 3.6, box.label, {
        size: 10, align: "center", weight: 600, fill: theme.name === "dark" ? "#0d1117" : "#ffffff" });
  }

  // Boxes are in the order of their begins: none before this one reaches into what is seen.
  firstAfter(time) {
    const { source } = this;
    source.reach ??= source.boxes.reduce((most, box) => Math.max(most, box.end - box.begin), 0);
    let low = 0, high = source.boxes.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (source.boxes[middle].begin < time - source.reach) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  boxAt(x, y, width, height) {
    const area = this.place(width, height);
    const row = Math.floor((y - area.top) / area.row);
    const time = area.begin + (x - area.left) / area.scale;
    let found = null;
    const near = 2 / area.scale;
    for (let i = this.firstAfter(time); i < this.source.boxes.length; ++i) {
      const box = this.source.boxes[i];
      if (box.begin > time + near) break;
      if (box.row !== row || box.end < time - near) continue;
      const boxHeight = (area.row * 0.8) / (box.lanes ?? 1);
      const top = area.top + row * area.row + area.row * 0.1 + boxHeight * (box.lane ?? 0);
      if (y >= top - 1 && y <= top + boxHeight + 1) found = box;
    }
    return found;
  }

  hover(x, y, width, height) {
    return this.boxAt(x, y, width, height)?.words;
  }

  drag(x, y, width, height) {
    const area = this.place(width, height);
    const time = area.begin + (Math.min(Math.max(x, area.left), area.right) - area.left) / area.scale;
    this.app.seek(this.source.positionOf(time));
  }

  click(x, y, width, height) {
    const box = this.boxAt(x, y, width, height);
    this.app.choose(box ? { row: box.row, column: this.app.chosen?.column ?? 0, box } : null);
    this.drag(x, y, width, height);
  }

  wheel(x, delta, width, height) {
    const area = this.place(width, height);
    const time = area.begin + (x - area.left) / area.scale;
    const factor = delta > 0 ? 1.25 : 0.8;
    this.look(time - (time - area.begin) * factor, time + (area.end - time) * factor);
  }

  // At this part of the time; at all of it where there is no such part. What is seen is never so short that numbers
  // cannot tell its ends apart.
  look(from, to) {
    const { span } = this.source;
    let begin = Math.max(0, from), end = Math.min(span, to);
    const least = Math.min(span, Math.max(span * kLeastPart, kLeast));
    if (begin < end && end - begin < least) {
      begin = Math.max(0, Math.min((begin + end - least) / 2, span - least));
      end = begin + least;
    }
    this.window = !(begin < end) || (begin <= 0 && end >= span) ? null : [begin, end];
    this.app.changed();
  }

  // What is seen, for the address: with as many digits as it takes to tell where it is.
  windowText() {
    if (!this.window) return null;
    const [begin, end] = this.window, digits = Math.ceil(4 - Math.log10(end - begin));
    return this.window.map((time) => String(Number(time.toFixed(Math.max(0, Math.min(20, digits))))));
  }
}

// Steps by rounds: a box for every step that fired.
export function roundsSource(playback, document) {
  const boxes = [];
  const lanes = Math.max(1, ...document.programs.map((program) => program.lanes.length));
  playback.fired.forEach((fired, round) => {
    for (const { rank, lane, step } of fired) {
      const words = stepWords(document, rank, lane, step);
      const reduces = words.text.startsWith("reduce"), waits = words.text.startsWith("wait");
      boxes.push({
        row: rank, begin: round + 0.04, end: round + 0.96, lane, lanes, words: `rank ${rank}, ${words.name}: ${words.text}`,
        label: lanes === 1 ? String(step) : undefined, step: { rank, lane, step },
        colour: (theme) => (waits ? theme.faint : reduces ? theme.computing : theme.accent) });
    }
  });
  return {
    rows: playback.rows, lanes, names: rowNames(playback), span: Math.max(playback.length, 1), unit: "round", boxes,
    timeOf: (position) => position, positionOf: (time) => time,
    note: "a box is a step; copies, reductions and waits have their colours" };
}

export function rowNames(playback) {
  const each = playback.document.groups?.ranks ?? 1;
  return Array.from({ length: playback.rows }, (_, row) => (each === 1 ? `rank ${row}` : `from ${row * each}`));
}

export function stepWords(document, rank, lane, step) {
  document.textOfRank ??= document.programs.reduce((texts, program) => {
    for (const part of program.ranks.split(", ")) {
      const [first, last] = part.split("-").map(Number);
      for (let one = first; one <= (last ?? first); ++one) texts[one] = program;
    }
    return texts;
  }, []);
  const found = document.textOfRank[rank]?.lanes[lane];
  return { name: found ? `${found.name}.${step}` : "", text: textOf(document, found?.steps[step]) };
}

export function textOf({ words, texts }, number) {
  if (texts[number] === undefined) return "";
  const [form, ...numbers] = texts[number];
  return words[form].map((part, i) => part + (numbers[i] ?? "")).join("");
}

// Ranks that do the same at the same time are told together.
function* activitiesOf({ activities }) {
  for (const [kind, begin, end, lane, step, segment, ...who] of activities) {
    for (let i = 0; i < who.length; i += 2) yield { rank: who[i], peer: who[i + 1], kind, begin, end, lane, step, segment };
  }
}

// The same as the simulator times them. A round ends when the last of its steps does, so that the player can follow.
export function simulatedSource(playback, document) {
  const { timeline } = document;
  const roundOf = new Map();
  playback.fired.forEach((fired, round) => {
    for (const { rank, lane, step } of fired) roundOf.set(`${rank} ${lane} ${step}`, round);
  });
  const boxes = [], ends = new Array(playback.length).fill(0);
  const lanes = timeline.activities.some(([kind]) => kind === 0) ? 2 : 1;
  for (const { rank, kind, peer, begin, end, lane, step, segment } of activitiesOf(timeline)) {
    const round = roundOf.get(`${rank} ${lane} ${step}`);
    if (round !== undefined && segment === 0) ends[round] = Math.max(ends[round], end);
    const words = stepWords(document, rank, lane, step);
    boxes.push({
      row: rank, begin, end, lane: kind === 0 ? 1 : 0, lanes, step: { rank, lane, step },
      words: `rank ${rank} ${kind === 0 ? "computes" : `sends to ${peer}`}, ${timeText(begin)} to ${timeText(end)}` +
        ` (${words.name}${segment > 0 ? `, segment ${segment}` : ""}: ${words.text})`,
      label: kind === 0 ? undefined : `→${peer}`,
      colour: (theme) => (kind === 0 ? theme.computing : blended(theme.accent, rankColour(peer, playback.rows, theme), 0.55)) });
  }
  boxes.sort((a, b) => a.begin - b.begin);
  for (let round = 1; round < ends.length; ++round) ends[round] = Math.max(ends[round], ends[round - 1]);
  const times = [0, ...ends];
  return {
    rows: playback.rows, lanes, names: rowNames(playback), span: timeline.us, unit: "us", boxes,
    note: `simulated on ${timeline.topology}: ${timeText(timeline.us)}`,
    timeOf: (position) => {
      const at = Math.min(Math.floor(position), playback.length);
      return times[at] + ((times[at + 1] ?? times[at]) - times[at]) * (position - at);
    },
    positionOf: (time) => {
      let at = 0;
      while (at < playback.length && times[at + 1] <= time) ++at;
      const width = (times[at + 1] ?? times[at]) - times[at];
      return at + (width > 0 ? Math.min(1, (time - times[at]) / width) : 0);
    } };
}
