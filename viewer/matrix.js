// The matrix: a row for each rank, a column for each block, and in a cell whose input it holds. Few ranks have a strip
// of their own colour in every cell that they are part of; of more ranks the share that has come is a shade.
import { blended, rankColour } from "tutti/colours.js";

const kMostStrips = 16;

export class MatrixPane {
  constructor(app, playback) {
    this.app = app;
    this.playback = playback;
    this.title = "What each rank holds";
  }

  hint() {
    if (this.playback.grouped) return "groups of neighbours; click a cell for what it stands for";
    return "rank × block; click a cell for its contributions";
  }

  place(width, height) {
    const { rows, columns } = this.playback;
    const left = 58, top = 26, right = 10, bottom = 8;
    const cellWidth = Math.min(110, (width - left - right) / Math.max(columns, 1));
    const cellHeight = Math.min(64, (height - top - bottom) / Math.max(rows, 1));
    return { left: left + Math.max(0, (width - left - right - cellWidth * columns) / 2), top, cellWidth, cellHeight };
  }

  cellAt(x, y, width, height) {
    const { left, top, cellWidth, cellHeight } = this.place(width, height);
    const column = Math.floor((x - left) / cellWidth), row = Math.floor((y - top) / cellHeight);
    const { rows, columns } = this.playback;
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  }

  nameOfRow(row) {
    const groups = this.playback.document.groups;
    if (!groups) return `rank ${row}`;
    const first = row * groups.ranks, last = Math.min(this.playback.document.ranks, first + groups.ranks) - 1;
    return first === last ? `${first}` : `${first}–${last}`;
  }

  draw(painter, theme) {
    const { playback } = this;
    const { rows, columns } = playback;
    const { left, top, cellWidth, cellHeight } = this.place(painter.width, painter.height);
    const everyRow = Math.ceil(11 / cellHeight), everyColumn = Math.ceil(18 / cellWidth);
    const chosen = this.app.chosen;
    for (let column = 0; column < columns; column += everyColumn) {
      const words = columns === 1 ? "all of it" : String(column * (playback.document.groups?.blocks ?? 1));
      painter.text(left + (column + 0.5) * cellWidth, top - 9, words, { size: 10.5, align: "center", fill: theme.soft });
    }
    const gap = cellWidth > 9 && cellHeight > 9 ? 2 : cellWidth > 4 && cellHeight > 4 ? 0.7 : 0;
    for (let row = 0; row < rows; ++row) {
      const y = top + row * cellHeight;
      if (row % everyRow === 0)
        painter.text(left - 9, y + cellHeight / 2 + 3.5, this.nameOfRow(row), {
          size: 10.5, align: "right", fill: chosen?.row === row ? theme.ink : theme.soft,
          weight: chosen?.row === row ? 700 : 400 });
      for (let column = 0; column < columns; ++column) {
        const box = [left + column * cellWidth + gap / 2, y + gap / 2, cellWidth - gap, cellHeight - gap];
        if (playback.grouped) this.drawGroup(painter, theme, box, playback.cells[row][column]);
        else this.drawCell(painter, theme, box, row, column);
      }
    }
    if (chosen && chosen.row < rows && chosen.column < columns)
      painter.rect(left + chosen.column * cellWidth, top + chosen.row * cellHeight, cellWidth, cellHeight, {
        stroke: theme.ink, width: 2, radius: Math.min(5, cellHeight / 4) });
  }

  drawGroup(painter, theme, box, cell) {
    const fill = cell.complete >= 100 ? theme.good : blended(theme.cell, theme.accent, (cell.share / 100) * 0.85);
    painter.rect(...box, { fill });
  }

  drawCell(painter, theme, [x, y, width, height], rank, block) {
    const { playback } = this;
    const ranks = playback.document.ranks;
    const best = playback.best(rank, block), wanted = playback.wanted(rank, block);
    const complete = playback.complete(rank, block);
    const large = width > 12 && height > 12;
    const radius = large ? Math.min(4, height / 5) : 0;
    const needless = wanted.length === 0;
    if (best.length === 0) {
      painter.rect(x, y, width, height, { fill: theme.cell, radius, alpha: needless ? 0.45 : 1 });
      return;
    }
    if (!large || ranks > kMostStrips) {
      const share = wanted.length > 1 ? best.length / wanted.length : best.length > 1 ? 1 : 0;
      const fill = complete ? theme.good : wanted.length <= 1 && best.length === 1
        ? rankColour(best[0], ranks, theme) : blended(theme.cell, theme.accent, 0.18 + 0.75 * share);
      painter.rect(x, y, width, height, { fill, radius, alpha: needless ? 0.4 : 1 });
      return;
    }
    painter.rect(x, y, width, height, { fill: theme.cell, radius });
    const held = playback.held(rank, block), arrived = playback.arrived(rank, block);
    const frame = complete ? theme.good : null;
    const inner = [x + 2, y + 2, width - 4, height - 4];
    if (wanted.length > 1 || best.length > 1) this.drawStrips(painter, theme, inner, held, arrived, ranks, needless);
    else if (held.length === 0)
      painter.rect(inner[0] + 1, inner[1] + 1, inner[2] - 2, inner[3] - 2, {
        stroke: rankColour(best[0], ranks, theme), width: 2, radius: 2, dash: [3, 2] });
    else painter.rect(...inner, { fill: rankColour(held[0], ranks, theme), radius: 2, alpha: needless ? 0.45 : 0.92 });
    if (frame) {
      painter.rect(x, y, width, height, { stroke: frame, width: 2, radius });
      if (width > 26 && height > 20) this.drawTick(painter, theme, x + width - 9, y + 9);
    }
  }

  drawTick(painter, theme, x, y) {
    painter.circle(x, y, 6.5, { fill: theme.good });
    painter.line([[x - 3, y], [x - 0.8, y + 2.4], [x + 3.2, y - 2.6]], { stroke: theme.pane, width: 1.7 });
  }

  // One strip for each rank, filled where its input is in; what has come but was not added yet is an outline.
  drawStrips(painter, theme, [x, y, width, height], held, arrived, ranks, needless) {
    const strip = width / ranks;
    const count = new Map();
    for (const rank of held) count.set(rank, (count.get(rank) ?? 0) + 1);
    for (const [rank, times] of count) {
      painter.rect(x + rank * strip, y, strip + 0.3, height, {
        fill: rankColour(rank, ranks, theme), alpha: needless ? 0.45 : 0.92 });
      if (times > 1) painter.text(x + (rank + 0.5) * strip, y + height / 2 + 4, `×${times}`, {
        size: 10, weight: 700, align: "center", fill: theme.bad });
    }
    for (const set of arrived) {
      for (const rank of set) {
        if (count.has(rank)) continue;
        painter.rect(x + rank * strip + 0.8, y + height * 0.18, strip - 1.6, height * 0.64, {
          stroke: rankColour(rank, ranks, theme), width: 1.6, radius: 1.5 });
      }
    }
  }

  click(x, y, width, height) {
    const cell = this.cellAt(x, y, width, height);
    this.app.choose(cell);
  }
}
