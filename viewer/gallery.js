// The gallery: a card for every algorithm, with what its ranks hold over the rounds; a click plays it.
import { blended, rankColour } from "tutti/colours.js";
import { CanvasPainter } from "tutti/painter.js";
import { Playback } from "tutti/playback.js";
import { element } from "tutti/elements.js";
import { plural } from "tutti/format.js";

export function nameOf(document_) {
  return `${document_.verb}.${document_.algorithm}`;
}

export class Gallery {
  constructor(app, gallery) {
    this.app = app;
    this.cards = [];
    this.root = element("section", { class: "gallery" });
    for (const verb of new Set(gallery.documents.map((one) => one.verb))) {
      const documents = gallery.documents.filter((one) => one.verb === verb);
      const cards = element("div", { class: "cards" }, ...documents.map((one) => this.card(one)));
      this.root.append(element("h2", {}, verb, element("small", {}, plural(documents.length, "algorithm"))), cards);
    }
  }

  card(document_) {
    const canvas = element("canvas", {});
    this.cards.push({ canvas, document: document_ });
    return element("button", { type: "button", class: "card", onclick: () => this.app.open(document_) },
      canvas, element("b", {}, document_.algorithm),
      element("span", {}, `${plural(document_.ranks, "rank")}, ${plural(document_.frames.length, "round")}`));
  }

  draw() {
    for (const { canvas, document: document_ } of this.cards) {
      const box = canvas.getBoundingClientRect();
      const ratio = window.devicePixelRatio || 1;
      canvas.width = box.width * ratio;
      canvas.height = box.height * ratio;
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      this.drawCard(new CanvasPainter(context, box.width, box.height), document_);
    }
  }

  // Ranks from top to bottom, rounds from left to right, blocks side by side in each; messages as lines.
  drawCard(painter, document_) {
    const playback = new Playback(document_);
    const theme = this.app.theme;
    const rounds = playback.length + 1;
    const column = painter.width / rounds, row = painter.height / playback.rows;
    const width = column * 0.55;
    for (let round = 0; round < rounds; ++round) {
      playback.seek(round);
      for (const [kind, from, to] of playback.moves())
        painter.line([[round * column + width, (from + 0.5) * row], [(round + 1) * column, (to + 0.5) * row]], {
          stroke: kind === 0 ? theme.accent : kind === 1 ? theme.bad : theme.warm, width: 1, alpha: 0.7 });
      for (let rank = 0; rank < playback.rows; ++rank) {
        for (let block = 0; block < playback.columns; ++block)
          this.drawBlock(painter, theme, playback, rank, block, [
            round * column + (width * block) / playback.columns, rank * row + row * 0.18, width / playback.columns, row * 0.64]);
      }
    }
  }

  drawBlock(painter, theme, playback, rank, block, box) {
    const best = playback.best(rank, block), wanted = playback.wanted(rank, block);
    const single = wanted.length <= 1 && best.length === 1;
    const fill = playback.complete(rank, block) && !single ? theme.good
      : best.length === 0 ? theme.cell
      : single ? rankColour(best[0], playback.rows, theme)
      : blended(theme.cell, theme.accent, 0.2 + (0.7 * best.length) / Math.max(1, wanted.length));
    painter.rect(...box, { fill });
  }
}
