// What the algorithms of the verb take over sizes, on the cluster: both axes logarithmic, a mark where the quickest
// changes, the one that plays drawn strong.
import { rankColour } from "tutti/colours.js";
import { bytesText, timeText } from "tutti/format.js";

export class CostPane {
  constructor(app) {
    this.app = app;
    this.cost = app.document.cost;
    this.title = "What it costs";
  }

  hint() {
    return `time over size on ${this.cost.topology}`;
  }

  place(width, height) {
    const { sizes, rows } = this.cost;
    const left = 54, right = 12, top = 12, bottom = 40;
    const all = rows.flatMap((row) => row.us).filter((us) => us > 0);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const [first, last] = [Math.log(sizes[0]), Math.log(sizes.at(-1))];
    const x = (bytes) => left + ((width - left - right) * (Math.log(bytes) - first)) / Math.max(last - first, 1e-9);
    const y = (us) => top + (height - top - bottom) * (1 - Math.log(us / low) / Math.max(Math.log(high / low), 1e-9));
    return { left, right: width - right, top, bottom: height - bottom, low, high, x, y };
  }

  draw(painter, theme) {
    const { cost } = this;
    const area = this.place(painter.width, painter.height);
    for (let us = 10 ** Math.floor(Math.log10(area.low)); us <= area.high * 1.001; us *= 10) {
      if (us < area.low) continue;
      painter.line([[area.left, area.y(us)], [area.right, area.y(us)]], { stroke: theme.line });
      painter.text(area.left - 7, area.y(us) + 3.5, timeText(us), { size: 10, align: "right", fill: theme.soft });
    }
    const every = Math.ceil(cost.sizes.length / Math.max(2, (area.right - area.left) / 58));
    cost.sizes.forEach((bytes, i) => {
      if (i % every === 0)
        painter.text(area.x(bytes), area.bottom + 15, bytesText(bytes), { size: 10, align: "center", fill: theme.soft });
    });
    this.drawCrossovers(painter, theme, area);
    cost.rows.forEach((row, i) => {
      const own = row.name === this.app.document.algorithm;
      const points = row.us.map((us, at) => [area.x(cost.sizes[at]), area.y(us)]);
      painter.line(points, { stroke: rankColour(i, cost.rows.length, theme), width: own ? 3.4 : 1.3, alpha: own ? 1 : 0.7 });
      if (own) painter.text(points[0][0] + 5, points[0][1] - 7, row.name, { size: 11, weight: 700, fill: theme.ink });
    });
    const bytes = this.app.document.bytes;
    if (bytes >= cost.sizes[0] && bytes <= cost.sizes.at(-1)) {
      const x = area.x(bytes);
      painter.line([[x, area.top], [x, area.bottom]], { stroke: theme.ink, width: 1 });
      painter.text(x + 4, area.top + 9, bytesText(bytes), { size: 10, fill: theme.ink });
    }
  }

  // Where another becomes the quickest: half way to the size where it was found to be.
  drawCrossovers(painter, theme, area) {
    const { sizes, quickest } = this.cost;
    let from = area.left;
    quickest.forEach((name, i) => {
      const last = i === quickest.length - 1;
      if (!last && quickest[i + 1] === name) return;
      const to = last ? area.right : Math.sqrt(sizes[i] * sizes[i + 1]);
      const x = last ? area.right : area.x(to);
      if (!last)
        painter.line([[x, area.top], [x, area.bottom + 18]], { stroke: theme.faint, dash: [3, 3] });
      const colour = rankColour(this.cost.rows.findIndex((row) => row.name === name), this.cost.rows.length, theme);
      painter.rect(from, area.bottom + 22, x - from, 4, { fill: colour });
      const words = x - from > 6 * name.length ? name : "";
      painter.text((from + x) / 2, area.bottom + 36, words, { size: 10, align: "center", fill: theme.soft });
      from = x;
    });
  }

  hover(x, y, width, height) {
    const area = this.place(width, height);
    let best = null, distance = 18;
    for (const row of this.cost.rows) {
      row.us.forEach((us, i) => {
        const away = Math.hypot(area.x(this.cost.sizes[i]) - x, area.y(us) - y);
        if (away < distance) [best, distance] = [`${row.name}: ${timeText(us)} for ${bytesText(this.cost.sizes[i])}`, away];
      });
    }
    return best;
  }
}
