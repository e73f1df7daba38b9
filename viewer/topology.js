// Who sends to whom, and how hot the links are. As ranks in a circle, or as the cluster that they would run on.
import { heatColour, rankColour } from "tutti/colours.js";
import { arrowHead } from "tutti/painter.js";
import { bytesText } from "tutti/format.js";
import { unpacked } from "tutti/packed.js";

export class TopologyPane {
  constructor(app, playback) {
    this.app = app;
    this.playback = playback;
    this.cluster = app.document.cluster;
    this.title = "Who talks to whom";
  }

  hint() {
    return "links glow with the bytes they have carried";
  }

  controls() {
    const list = [{ key: "heat", label: "heat", values: ["so far", "this step", "off"] }];
    if (this.cluster) list.unshift({ key: "map", label: "map", values: ["ranks", "cluster"] });
    return list;
  }

  draw(painter, theme) {
    if (this.cluster && this.app.options.map === "cluster") this.drawCluster(painter, theme);
    else this.drawRanks(painter, theme);
  }

  // Blocks by edge, as the heat has them.
  heat() {
    const { playback } = this;
    if (this.app.options.heat === "off") return new Map();
    if (this.app.options.heat === "this step") return playback.traffic(playback.at);
    const edges = new Map(playback.trafficBefore(playback.at));
    if (this.app.fraction > 0) {
      for (const [edge, blocks] of playback.traffic(playback.at))
        edges.set(edge, (edges.get(edge) ?? 0) + blocks * this.app.fraction);
    }
    return edges;
  }

  // Ranks of a host follow each other, with a gap between hosts.
  placeRanks(painter) {
    const { playback } = this;
    const count = playback.rows, hosts = playback.grouped ? null : this.app.document.hosts;
    const several = hosts && new Set(hosts).size > 1;
    const gap = several ? 0.8 : 0;
    let total = 0;
    const slots = [];
    for (let i = 0; i < count; ++i) {
      if (several && i > 0 && hosts[i] !== hosts[i - 1]) total += gap;
      slots.push(total);
      total += 1;
    }
    if (several) total += gap;
    const radius = Math.min(painter.width, painter.height) / 2 - 34;
    const centre = [painter.width / 2, painter.height / 2];
    const node = Math.max(4, Math.min(22, (radius * Math.PI) / Math.max(count, 4) * 0.62));
    const points = slots.map((slot) => {
      const angle = (2 * Math.PI * slot) / Math.max(total, 1) - Math.PI / 2;
      return [centre[0] + radius * Math.cos(angle), centre[1] + radius * Math.sin(angle)];
    });
    return { points, centre, radius, node };
  }

  // Neighbours on the circle are joined nearly straight, others through the middle; both directions of an edge apart.
  controlOf(from, to, centre) {
    const middle = [(from[0] + to[0]) / 2, (from[1] + to[1]) / 2];
    const chord = Math.hypot(to[0] - from[0], to[1] - from[1]), radius = Math.hypot(from[0] - centre[0], from[1] - centre[1]);
    const bend = 0.28 * Math.min(1, chord / (1.2 * radius));
    const side = [-(to[1] - from[1]) * 0.1, (to[0] - from[0]) * 0.1];
    return [middle[0] + (centre[0] - middle[0]) * bend + side[0], middle[1] + (centre[1] - middle[1]) * bend + side[1]];
  }

  drawRanks(painter, theme) {
    const { playback, app } = this;
    const { points, centre, node } = this.placeRanks(painter);
    const most = playback.mostTraffic();
    const heat = this.heat();
    const scale = app.options.heat === "this step" ? Math.max(1, ...heat.values()) : most;
    const crowded = playback.edges.length > 600;
    const thin = Math.min(1, 0.3 + 12 / playback.edges.length);
    for (const edge of playback.edges) {
      const [from, to] = [points[Math.floor(edge / playback.rows)], points[edge % playback.rows]];
      const share = (heat.get(edge) ?? 0) / scale;
      if (crowded && share === 0) continue;
      painter.curve(from, this.controlOf(from, to, centre), to, {
        stroke: share > 0 ? heatColour(share, theme) : theme.line, width: share > 0 ? (2.5 + 7 * share) * thin : 1,
        alpha: crowded ? 0.25 + 0.5 * share : 0.5 + 0.25 * share });
    }
    this.drawMoves(painter, theme, points, centre, node);
    points.forEach((point, row) => this.drawNode(painter, theme, point, centre, row, node));
  }

  drawNode(painter, theme, [x, y], centre, row, node) {
    const { playback, app } = this;
    const progress = playback.progress(row);
    const chosen = app.chosen?.row === row;
    const colour = rankColour(row, playback.rows, theme);
    painter.circle(x, y, node + 3.5, { fill: theme.pane });
    painter.circle(x, y, node, { fill: colour, alpha: 0.9 });
    painter.circle(x, y, node + 2.5, { stroke: chosen ? theme.ink : theme.line, width: 2.5 });
    if (progress > 0) painter.arc(x, y, node + 2.5, progress, { stroke: theme.good, width: 3 });
    const groups = playback.document.groups;
    const label = String(row * (groups?.ranks ?? 1));
    if (node >= 9) {
      painter.text(x, y + node * 0.33, label, {
        size: Math.min(15, node * 0.95), weight: 700, align: "center", fill: theme.name === "dark" ? "#0d1117" : "#ffffff" });
    } else if (row % Math.ceil(playback.rows / 16) === 0) {
      const away = Math.hypot(x - centre[0], y - centre[1]);
      painter.text(x + ((x - centre[0]) / away) * (node + 13), y + ((y - centre[1]) / away) * (node + 13) + 4, label, {
        size: 10, align: "center", fill: theme.soft });
    }
  }

  drawMoves(painter, theme, points, centre, node) {
    const { playback, app } = this;
    const moves = playback.moves();
    if (moves.length === 0) return;
    const part = app.fraction, few = moves.length <= 200;
    for (const move of moves) {
      const [kind, from, to] = move;
      if (from === to) continue;
      const [a, b] = [points[from], points[to]];
      const control = this.controlOf(a, b, centre);
      const colour = kind === 0 ? theme.accent : kind === 1 ? theme.bad : theme.warm;
      const at = (t) => [
        (1 - t) ** 2 * a[0] + 2 * t * (1 - t) * control[0] + t * t * b[0],
        (1 - t) ** 2 * a[1] + 2 * t * (1 - t) * control[1] + t * t * b[1]];
      if (few) {
        painter.curve(a, control, b, { stroke: colour, width: 1.6, alpha: 0.75 });
        const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
        const end = at(1 - Math.min(0.5, (node + 5) / length));
        arrowHead(painter, at(1 - Math.min(0.6, (node + 12) / length)), end, 8, colour, 0.9);
      }
      const [x, y] = at(part);
      const size = few ? Math.min(9, 4 + node * 0.25) : 3;
      painter.rect(x - size, y - size * 0.75, 2 * size, 1.5 * size, {
        fill: colour, radius: size * 0.4, stroke: theme.pane, width: 1 });
      if (few && size > 7 && !playback.grouped && playback.columns > 1 && move.length === 4)
        painter.text(x, y + 3.4, String(move[3]), { size: 9.5, weight: 700, align: "center", fill: theme.pane });
    }
  }

  // Devices below, what joins them above; every move goes its way link by link.
  drawCluster(painter, theme) {
    const { cluster } = this;
    const { points } = this.placeCluster(painter);
    const heat = new Map();
    for (const [edge, blocks] of this.heat()) {
      for (const link of this.wayOf(edge)) heat.set(link, (heat.get(link) ?? 0) + blocks);
    }
    const most = Math.max(1, ...(this.app.options.heat === "this step" ? heat.values() : this.mostOfLinks().values()));
    this.drawHosts(painter, theme, points);
    for (const [number, [low, high]] of cluster.links.entries()) {
      for (const up of [true, false]) {
        const share = (heat.get(2 * number + (up ? 0 : 1)) ?? 0) / most;
        const shift = up ? -2 : 2;
        painter.line([[points[low][0] + shift, points[low][1]], [points[high][0] + shift, points[high][1]]], {
          stroke: share > 0 ? heatColour(share, theme) : theme.line, width: share > 0 ? 1.4 + 3 * share : 1 });
      }
    }
    cluster.nodes.forEach(([name, , , rank], node) => this.drawPart(painter, theme, points[node], name, rank));
  }

  // Links and directions that lead from one rank to another.
  wayOf(edge) {
    const { ups, downs, routes } = this.cluster;
    this.ways ??= new Map([...unpacked(routes, 4)].map(([from, to, up, down]) =>
      [from * this.playback.rows + to, [...ups[up], ...downs[down]]]));
    return this.ways.get(edge) ?? [];
  }

  mostOfLinks() {
    if (this.mostLinks === undefined) {
      const { playback } = this;
      this.mostLinks = new Map();
      for (let frame = 0; frame < playback.length; ++frame) {
        for (const [edge, blocks] of playback.traffic(frame)) {
          for (const link of this.wayOf(edge)) this.mostLinks.set(link, (this.mostLinks.get(link) ?? 0) + blocks);
        }
      }
    }
    return this.mostLinks;
  }

  // A row for each level, and in it every part above the middle of what leads to it, so that few links cross.
  placeCluster(painter) {
    const { nodes, links } = this.cluster;
    const below = nodes.map(() => []);
    for (const [low, high] of links) below[high].push(low);
    const levels = Math.max(...nodes.map(([, level]) => level)) + 1;
    const rows = Array.from({ length: levels }, () => []);
    nodes.forEach(([, level], node) => rows[level].push(node));
    const points = [];
    rows.forEach((row, level) => {
      const y = painter.height - 44 - (levels === 1 ? 0 : ((painter.height - 80) * level) / (levels - 1));
      const middle = (node) => below[node].reduce((sum, low) => sum + points[low][0], 0) / below[node].length;
      if (level > 0) row.sort((a, b) => middle(a) - middle(b));
      row.forEach((node, i) => (points[node] = [24 + ((painter.width - 48) * (i + 0.5)) / row.length, y]));
    });
    return { points };
  }

  drawHosts(painter, theme, points) {
    const spans = new Map();
    this.cluster.nodes.forEach(([, , host], node) => {
      if (host < 0) return;
      const span = spans.get(host) ?? [1e9, 1e9, -1e9, -1e9];
      const [x, y] = points[node];
      spans.set(host, [Math.min(span[0], x), Math.min(span[1], y), Math.max(span[2], x), Math.max(span[3], y)]);
    });
    for (const [host, [left, top, right, bottom]] of spans) {
      painter.rect(left - 17, top - 16, right - left + 34, bottom - top + 48, {
        fill: theme.cell, alpha: 0.6, radius: 8 });
      painter.text((left + right) / 2, bottom + 28, `host ${host}`, { size: 10, align: "center", fill: theme.soft });
    }
  }

  drawPart(painter, theme, [x, y], name, rank) {
    if (rank >= 0 && rank < this.playback.rows) {
      painter.circle(x, y, 11, { fill: rankColour(rank, this.playback.rows, theme) });
      painter.arc(x, y, 12.5, Math.max(0.001, this.playback.progress(rank)), { stroke: theme.good, width: 2.5 });
      painter.text(x, y + 3.8, String(rank), {
        size: 10.5, weight: 700, align: "center", fill: theme.name === "dark" ? "#0d1117" : "#ffffff" });
      return;
    }
    painter.rect(x - 12, y - 8, 24, 16, { fill: theme.pane, stroke: theme.faint, radius: 4 });
    painter.text(x, y - 12, name, { size: 9, align: "center", fill: theme.soft });
  }

  status() {
    const moves = this.playback.moves();
    if (moves.length === 0) return "";
    const blocks = moves.reduce((sum, move) => sum + this.playback.blocksOf(move), 0);
    return `${moves.length} under way, ${bytesText(blocks * this.app.document.block_bytes)}`;
  }

  click(x, y, width, height) {
    if (this.app.options.map === "cluster" && this.cluster) return;
    const { points, node } = this.placeRanks({ width, height });
    const row = points.findIndex((point) => Math.hypot(point[0] - x, point[1] - y) <= node + 6);
    this.app.choose(row < 0 ? null : { row, column: this.app.chosen?.column ?? 0 });
  }
}
