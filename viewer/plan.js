// A plan: when its buckets of gradients travel behind backward, where a step's time goes, and what fills the memory.
import { rankColour } from "tutti/colours.js";
import { element } from "tutti/elements.js";
import { bytesText, timeText } from "tutti/format.js";
import { GanttPane } from "tutti/gantt.js";

const decimal = (bytes) => bytesText(bytes, 1000);

export function planModel(app) {
  const { plan } = app.document;
  const source = bucketsSource(plan);
  const { seconds, memory_bytes, memory_capacity_bytes } = plan.bill;
  return {
    title: `${plan.model} by ${plan.strategy}`, detail: `on ${plan.gpus} ${plan.accelerator}`, layout: "two",
    chips: [plan.fits ? ["fits", "good"] : ["does not fit", "bad"], [`${timeText(plan.step_seconds * 1e6)} a step`],
      [`MFU ${(100 * plan.mfu).toFixed(1)} %`], [`gamma ${plan.gamma_raw.toPrecision(3)} raw, ${plan.gamma_exposed.toPrecision(3)} exposed`]],
    panes: {
      gantt: new GanttPane(app, { plan: source }, "Gradients behind backward"),
      matrix: new BarsPane("Where a step goes", seconds, (s) => timeText(s * 1e6)),
      cost: new BarsPane("Memory of a device", memory_bytes, decimal, memory_capacity_bytes) },
    length: source.span, pace: source.span / 10, rows: 2, columns: 1, seek: () => {},
    stepFrom: (position, by) => (by > 0 ? source.times.find((time) => time > position + 1e-9) ?? source.span
      : source.times.findLast((time) => time < position - 1e-9) ?? 0),
    where: (position) => `${timeText(position)} of ${timeText(source.span)}`,
    tell: (detail) => tellSentence(plan, detail),
  };
}

function bucketsSource(plan) {
  const timeline = plan.bill.timeline ?? [];
  const backward = Math.max(...plan.bill.stages.map((stage) => stage.backward_seconds)) * 1e6;
  const boxes = [{ row: 0, begin: 0, end: backward, label: "backward", words: `backward, ${timeText(backward)}`, colour: (theme) => theme.computing }];
  timeline.forEach(({ bytes, ready_us, start_us, end_us, exposed_us }, i) => {
    const words = `bucket ${i}: ${decimal(bytes)}, ready at ${timeText(ready_us)}, under way ${timeText(start_us)} to ${timeText(end_us)}` +
      (exposed_us > 0 ? `, ${timeText(exposed_us)} exposed` : "");
    const hidden = end_us - exposed_us;
    if (hidden > start_us) boxes.push({ row: 1, begin: start_us, end: hidden, label: String(i), words, colour: (theme) => theme.accent });
    if (exposed_us > 0) boxes.push({ row: 1, begin: Math.max(start_us, hidden), end: end_us, label: String(i), words, colour: (theme) => theme.bad });
  });
  boxes.sort((a, b) => a.begin - b.begin);
  const span = Math.max(...boxes.map((box) => box.end));
  return {
    rows: 2, names: ["backward", "buckets"], span, unit: "us", boxes, times: [...new Set(boxes.map((box) => box.begin))],
    timeOf: (position) => position, positionOf: (time) => time, note: "what is red is exposed: nothing computes meanwhile" };
}

function tellSentence(plan, detail) {
  if (detail.dataset.key) return;
  detail.dataset.key = "plan";
  detail.replaceChildren(element("h2", {}, "What a step says"), ...plan.sentence.map((phrase) => element("p", {},
    `${phrase.times} × ${phrase.verb} of ${decimal(phrase.bytes)} (${phrase.what}) among ${phrase.ranks} ${phrase.group} by ` +
    `${phrase.algorithm}: ${timeText(phrase.seconds * 1e6)}, ${timeText(phrase.exposed_seconds * 1e6)} exposed`)));
}

// Amounts with names, the largest first, and how much there is room for.
class BarsPane {
  constructor(title, amounts, words, room) {
    this.title = title;
    this.parts = Object.entries(amounts).filter(([, amount]) => amount > 0).sort((a, b) => b[1] - a[1]);
    this.whole = this.parts.reduce((sum, [, amount]) => sum + amount, 0);
    this.words = words;
    this.room = room;
  }

  hint() {
    return `${this.words(this.whole)} in all` + (this.room ? `, room for ${this.words(this.room)}` : "");
  }

  draw(painter, theme) {
    const row = Math.min(46, (painter.height - 14) / Math.max(1, this.parts.length));
    const left = 112, width = painter.width - left - 100, most = this.parts[0]?.[1] ?? 1;
    this.parts.forEach(([name, amount], i) => {
      const y = 8 + i * row;
      painter.text(left - 10, y + row / 2 + 4, name, { size: 11.5, align: "right", fill: theme.soft });
      painter.rect(left, y + row * 0.16, (width * amount) / most, row * 0.68, { fill: rankColour(i, this.parts.length, theme), radius: 3 });
      painter.text(left + (width * amount) / most + 8, y + row / 2 + 4,
        `${this.words(amount)}, ${((100 * amount) / this.whole).toFixed(0)} %`, { size: 11, fill: theme.ink });
    });
  }
}
