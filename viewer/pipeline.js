// A pipeline: what its stages compute when, and how far each micro-batch has come on each stage.
import { blended } from "tutti/colours.js";
import { element } from "tutti/elements.js";
import { GanttPane } from "tutti/gantt.js";
import { plural } from "tutti/format.js";

const kLetters = { forward: "F", backward: "B", "input gradient": "I", "weight gradient": "W" };

function colourOf(work, chunk) {
  return (theme) => {
    const base = { forward: theme.accent, backward: theme.computing, "input gradient": theme.computing, "weight gradient": theme.warm }[work];
    return blended(base, theme.pane, Math.min(0.45, chunk * 0.22));
  };
}

export function pipelineModel(app) {
  const document_ = app.document;
  const boxes = document_.programs.flatMap(({ stage, steps }) => steps.filter((step) => step.action).map(({ action }) => ({
    row: stage, begin: action.begin, end: action.end, label: `${kLetters[action.work]}${action.microbatch}`,
    words: `stage ${stage}: ${action.work} of micro-batch ${action.microbatch}` +
      (document_.chunks > 1 ? ` on chunk ${action.chunk}` : "") + `, ${action.begin} to ${action.end}`,
    action, colour: colourOf(action.work, action.chunk) })));
  boxes.sort((a, b) => a.begin - b.begin);
  const times = [...new Set(boxes.flatMap((box) => [box.begin, box.end]))].sort((a, b) => a - b);
  const names = document_.programs.map(({ stage }) => `stage ${stage}`);
  const source = {
    rows: names.length, names, span: document_.span, unit: "forward", boxes,
    timeOf: (position) => position, positionOf: (time) => time,
    note: `a bubble of ${(100 * document_.bubble).toFixed(1)} %; times in forwards` };
  return {
    title: `pipeline by ${document_.schedule}`, layout: "two", boxes,
    detail: `${plural(document_.stages, "stage")}, ${plural(document_.microbatches, "micro-batch")}`.replace("batchs", "batches"),
    chips: [["✓ verified", "good"], [`bubble ${(100 * document_.bubble).toFixed(1)} %`], [`takes ${document_.span}`]],
    panes: { gantt: new GanttPane(app, { pipeline: source }, "What the stages compute"),
      matrix: new ProgressPane(app, boxes, document_), cost: new HeldPane(app, boxes, document_) },
    length: document_.span, pace: document_.span / 12, rows: document_.stages, columns: document_.microbatches,
    seek: () => {},
    stepFrom: (position, by) => (by > 0 ? times.find((time) => time > position + 1e-9) ?? document_.span
      : times.findLast((time) => time < position - 1e-9) ?? 0),
    where: (position) => `at ${Number(position.toFixed(2))} of ${document_.span} forwards`,
    tell: (detail) => tellStage(app, document_, boxes, detail),
  };
}

function tellStage(app, document_, boxes, detail) {
  const { chosen } = app;
  const key = JSON.stringify([chosen?.row, app.position]);
  if (detail.dataset.key === key) return;
  detail.dataset.key = key;
  if (!chosen) return detail.replaceChildren(element("h2", {}, "Choose"), element("p", {}, "Click a stage or an action."));
  const own = boxes.filter((box) => box.row === chosen.row);
  const busy = own.reduce((sum, box) => sum + box.end - box.begin, 0);
  detail.replaceChildren(element("h2", {}, `Stage ${chosen.row}`),
    element("p", {}, `works ${busy} of ${document_.span}, keeps activations of at most ${document_.programs[chosen.row].activations_held}`),
    element("ol", {}, ...own.map((box) => element("li", {
      class: box.begin <= app.position && app.position < box.end ? "now" : box.end <= app.position ? "done" : "" },
      box.words.slice(box.words.indexOf(": ") + 2)))));
}

// Stage by micro-batch: waiting, forward done, all done.
class ProgressPane {
  constructor(app, boxes, document_) {
    this.app = app;
    this.boxes = boxes;
    this.document = document_;
    this.title = "How far each micro-batch is";
  }

  hint() {
    return "stage × micro-batch: forward, then backward";
  }

  place(width, height) {
    return { left: 64, top: 22, cell: (width - 78) / this.document.microbatches,
      row: Math.min(72, (height - 30) / this.document.stages) };
  }

  draw(painter, theme) {
    const { left, top, cell, row } = this.place(painter.width, painter.height);
    const now = this.app.position, part = new Map();
    for (const { row: stage, begin, end, action } of this.boxes) {
      const key = `${stage} ${action.microbatch} ${action.work === "forward" ? 0 : 1}`;
      const [done, all] = part.get(key) ?? [0, 0];
      part.set(key, [done + Math.max(0, Math.min(now, end) - begin), all + end - begin]);
    }
    for (let stage = 0; stage < this.document.stages; ++stage) {
      const y = top + stage * row;
      painter.text(left - 9, y + row / 2 + 3.5, `stage ${stage}`, { size: 10.5, align: "right", fill: theme.soft });
      for (let batch = 0; batch < this.document.microbatches; ++batch) {
        const x = left + batch * cell + 1, width = cell - 2;
        painter.rect(x, y + 1, width, row - 2, { fill: theme.cell, radius: 3 });
        [theme.accent, theme.computing].forEach((colour, way) => {
          const [done, all] = part.get(`${stage} ${batch} ${way}`) ?? [0, 1];
          if (done > 0) painter.rect(x, y + 1 + way * (row - 2) / 2, (width * done) / all, (row - 2) / 2, { fill: colour });
        });
      }
    }
    const every = Math.ceil(18 / cell);
    for (let batch = 0; batch < this.document.microbatches; batch += every)
      painter.text(left + (batch + 0.5) * cell, top - 7, String(batch), { size: 10.5, align: "center", fill: theme.soft });
  }

  click(x, y, width, height) {
    const { left, top, cell, row } = this.place(width, height);
    const stage = Math.floor((y - top) / row), batch = Math.floor((x - left) / cell);
    const inside = stage >= 0 && stage < this.document.stages && batch >= 0 && batch < this.document.microbatches;
    this.app.choose(inside ? { row: stage, column: batch } : null);
  }
}

// Activations that each stage keeps over time: forwards whose backward has not ended.
class HeldPane {
  constructor(app, boxes, document_) {
    this.app = app;
    this.document = document_;
    this.title = "Activations kept";
    this.lines = document_.programs.map(({ stage }) => {
      let held = 0;
      const points = [[0, 0]];
      const events = boxes.filter((box) => box.row === stage).flatMap(({ begin, end, action }) =>
        action.work === "forward" ? [[begin, 1]] : action.work === "input gradient" ? [] : [[end, -1]]);
      for (const [time, by] of events.sort((a, b) => a[0] - b[0] || a[1] - b[1])) {
        points.push([time, held], [time, (held += by)]);
      }
      return [...points, [document_.span, held]];
    });
  }

  hint() {
    return "by stage, over time";
  }

  draw(painter, theme) {
    // One by one: of many stages and micro-batches there are more points than a call takes arguments.
    const most = this.lines.flat().reduce((high, [, held]) => Math.max(high, held), 1);
    const left = 34, top = 12, width = painter.width - 50, height = painter.height - 34;
    const x = (time) => left + (width * time) / this.document.span, y = (held) => top + height * (1 - held / most);
    for (let held = 0; held <= most; held += Math.ceil(most / 6)) {
      painter.line([[left, y(held)], [left + width, y(held)]], { stroke: theme.line });
      painter.text(left - 6, y(held) + 3.5, String(held), { size: 10, align: "right", fill: theme.soft });
    }
    this.lines.forEach((points, stage) => {
      const chosen = this.app.chosen?.row === stage;
      painter.line(points.map(([time, held]) => [x(time), y(held)]), {
        stroke: blended(theme.accent, theme.warm, stage / Math.max(1, this.lines.length - 1)), width: chosen ? 3 : 1.6,
        alpha: this.app.chosen && !chosen ? 0.35 : 1 });
    });
    painter.line([[x(this.app.position), top], [x(this.app.position), top + height]], { stroke: theme.ink });
  }
}
