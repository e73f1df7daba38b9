// Shapes, drawn on the screen or written as SVG: panes draw once and know of neither.
//
// Styles: fill, stroke, width, radius, alpha, dash, and of text size, align (left, center, right), weight.
const kFont = "ui-sans-serif, system-ui, sans-serif";

export class CanvasPainter {
  constructor(context, width, height) {
    this.context = context;
    this.width = width;
    this.height = height;
  }

  begin(style) {
    const context = this.context;
    context.globalAlpha = style.alpha ?? 1;
    context.lineWidth = style.width ?? 1;
    if (style.dash) context.setLineDash(style.dash);
    context.beginPath();
  }

  end(style) {
    const context = this.context;
    if (style.fill) {
      context.fillStyle = style.fill;
      context.fill();
    }
    if (style.stroke) {
      context.strokeStyle = style.stroke;
      context.stroke();
    }
    if (style.dash) context.setLineDash([]);
  }

  rect(x, y, width, height, style) {
    if (!style.radius && style.fill && !style.stroke) {
      this.context.globalAlpha = style.alpha ?? 1;
      this.context.fillStyle = style.fill;
      this.context.fillRect(x, y, width, height);
      return;
    }
    this.begin(style);
    if (style.radius) this.context.roundRect(x, y, width, height, style.radius);
    else this.context.rect(x, y, width, height);
    this.end(style);
  }

  circle(x, y, radius, style) {
    this.begin(style);
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.end(style);
  }

  // From the top, clockwise, a share of the whole turn.
  arc(x, y, radius, share, style) {
    this.begin(style);
    this.context.arc(x, y, radius, -Math.PI / 2, -Math.PI / 2 + 2 * Math.PI * share);
    this.end(style);
  }

  line(points, style) {
    this.begin(style);
    points.forEach(([x, y], i) => (i === 0 ? this.context.moveTo(x, y) : this.context.lineTo(x, y)));
    if (style.closed) this.context.closePath();
    this.end(style);
  }

  curve(from, control, to, style) {
    this.begin(style);
    this.context.moveTo(...from);
    this.context.quadraticCurveTo(...control, ...to);
    this.end(style);
  }

  // What `draw` draws, kept by its owner for as long as the key stays the same.
  layer(owner, key, draw) {
    const ratio = this.context.getTransform().a;
    const whole = `${key} ${this.width} ${this.height} ${ratio}`;
    if (owner.layer?.key !== whole) {
      const canvas = new OffscreenCanvas(Math.max(1, this.width * ratio), Math.max(1, this.height * ratio));
      const context = canvas.getContext("2d");
      context.scale(ratio, ratio);
      draw(new CanvasPainter(context, this.width, this.height));
      owner.layer = { key: whole, canvas };
    }
    return owner.layer.canvas;
  }

  // A layer between two places from the left.
  strip(layer, from, to, alpha) {
    const ratio = layer.width / this.width;
    if (!(to > from)) return;
    this.context.globalAlpha = alpha;
    this.context.drawImage(layer, from * ratio, 0, (to - from) * ratio, layer.height, from, 0, to - from, this.height);
  }

  text(x, y, words, style) {
    const context = this.context;
    context.globalAlpha = style.alpha ?? 1;
    context.font = `${style.weight ?? 400} ${style.size ?? 12}px ${kFont}`;
    context.textAlign = style.align ?? "left";
    context.fillStyle = style.fill;
    context.fillText(words, x, y);
  }
}

const escaped = (text) =>
  String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
const short = (number) => Number(number.toFixed(2));

export class SvgPainter {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.shapes = [];
  }

  attributes(style) {
    let text = ` fill="${style.fill ?? "none"}"`;
    if (style.stroke) text += ` stroke="${style.stroke}" stroke-width="${short(style.width ?? 1)}"`;
    if (style.dash) text += ` stroke-dasharray="${style.dash.join(" ")}"`;
    if (style.alpha !== undefined && style.alpha < 1) text += ` opacity="${short(style.alpha)}"`;
    return text;
  }

  rect(x, y, width, height, style) {
    const corner = style.radius ? ` rx="${short(style.radius)}"` : "";
    this.shapes.push(
      `<rect x="${short(x)}" y="${short(y)}" width="${short(Math.max(0, width))}" height="${short(Math.max(0, height))}"` +
        `${corner}${this.attributes(style)}/>`,
    );
  }

  circle(x, y, radius, style) {
    this.shapes.push(`<circle cx="${short(x)}" cy="${short(y)}" r="${short(radius)}"${this.attributes(style)}/>`);
  }

  arc(x, y, radius, share, style) {
    if (share >= 1) return this.circle(x, y, radius, style);
    const end = -Math.PI / 2 + 2 * Math.PI * share;
    this.shapes.push(
      `<path d="M${short(x)} ${short(y - radius)}A${short(radius)} ${short(radius)} 0 ${share > 0.5 ? 1 : 0} 1 ` +
        `${short(x + radius * Math.cos(end))} ${short(y + radius * Math.sin(end))}"${this.attributes(style)}/>`,
    );
  }

  line(points, style) {
    const list = points.map(([x, y]) => `${short(x)},${short(y)}`).join(" ");
    this.shapes.push(`<${style.closed ? "polygon" : "polyline"} points="${list}"${this.attributes(style)}/>`);
  }

  curve(from, control, to, style) {
    const at = (point) => point.map(short).join(" ");
    this.shapes.push(`<path d="M${at(from)}Q${at(control)} ${at(to)}"${this.attributes(style)}/>`);
  }

  text(x, y, words, style) {
    const anchor = { left: "start", center: "middle", right: "end" }[style.align ?? "left"];
    const weight = style.weight ? ` font-weight="${style.weight}"` : "";
    const alpha = style.alpha !== undefined && style.alpha < 1 ? ` opacity="${short(style.alpha)}"` : "";
    this.shapes.push(
      `<text x="${short(x)}" y="${short(y)}" font-size="${short(style.size ?? 12)}" text-anchor="${anchor}"` +
        ` fill="${style.fill}"${weight}${alpha}>${escaped(words)}</text>`,
    );
  }

  // All that was drawn, moved to a place on a larger sheet.
  group(x, y) {
    return `<g transform="translate(${short(x)} ${short(y)})">${this.shapes.join("")}</g>`;
  }
}

export function svgDocument(width, height, background, groups) {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}"` +
    ` font-family="sans-serif"><rect width="${width}" height="${height}" fill="${background}"/>${groups.join("")}</svg>\n`
  );
}

// An arrow's head at a point, for who comes from another.
export function arrowHead(painter, from, to, size, colour, alpha) {
  const length = Math.hypot(to[0] - from[0], to[1] - from[1]) || 1;
  const [ux, uy] = [(to[0] - from[0]) / length, (to[1] - from[1]) / length];
  const back = [to[0] - ux * size, to[1] - uy * size];
  painter.line([to, [back[0] - uy * size * 0.45, back[1] + ux * size * 0.45],
    [back[0] + uy * size * 0.45, back[1] - ux * size * 0.45]], { fill: colour, alpha, closed: true });
}
