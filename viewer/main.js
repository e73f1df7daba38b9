// The page: reads its document, makes the panes that fit it, and is where position, choice and theme are kept. Panes look
// here and tell here; none knows another.
import { themes } from "tutti/colours.js";
import { CanvasPainter, SvgPainter, svgDocument } from "tutti/painter.js";
import { modelOf } from "tutti/models.js";
import { Gallery, nameOf } from "tutti/gallery.js";
import { element } from "tutti/elements.js";

const kSpeeds = [0.25, 0.5, 1, 2, 4, 8, 16];
const kKeys = [
  ["space", "play, or hold"], ["← →", "a step back, a step on"], ["Home End", "to the start, to the end"],
  ["+ −", "quicker, slower"], ["shift + arrows", "choose another cell"], ["Esc", "choose nothing"],
  ["t", "dark or light"], ["e", "save what is seen as SVG"], ["g", "back to the gallery, if there is one"], ["?", "these keys"],
];

const within = (number, count) => Math.max(0, Math.min(count - 1, number));

class App {
  constructor(root, document_) {
    this.root = root;
    this.gallery = document_.kind === "gallery" ? document_ : null;
    this.options = {};
    this.speed = 1;
    this.position = 0;
    this.playing = false;
    this.chosen = null;
    this.drawn = 0;
    this.readFragment();
    this.setTheme(this.wanted.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"));
    const named = this.gallery?.documents.find((one) => nameOf(one) === this.wanted.show);
    if (this.gallery && !named) this.showGallery();
    else this.open(named ?? document_);
    window.addEventListener("hashchange", () => this.followFragment());
    document.addEventListener("keydown", (event) => this.key(event));
    requestAnimationFrame((now) => this.frame(now));
  }

  get fraction() {
    return this.position - Math.floor(this.position);
  }

  // --- the view, in the address -------------------------------------------------------------------------------------
  readFragment() {
    this.wanted = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  }

  followFragment() {
    if (location.hash.slice(1) === this.fragment()) return;
    this.readFragment();
    if (this.wanted.theme) this.setTheme(this.wanted.theme);
    if (this.gallery) {
      const named = this.gallery.documents.find((one) => nameOf(one) === this.wanted.show);
      if (!named) return this.showGallery();
      if (named !== this.document) return this.open(named);
    }
    this.restore();
  }

  // What the address does not name is as in a page that opens without one.
  restore() {
    const { at, speed, from, to } = this.wanted;
    for (const control of this.controls) {
      const value = this.wanted[control.key];
      this.setOption(control, control.values.includes(value) ? value : control.values[0]);
    }
    this.setSpeed(kSpeeds.includes(Number(speed)) ? Number(speed) : 1);
    this.gantt?.look(Number(from), Number(to));
    this.choose(this.wantedCell());
    this.seek(Number(at) || 0);
  }

  // The cell that the address names, or the nearest there is.
  wantedCell() {
    const { rows, columns } = this.model;
    const [rank, block, box] = ["rank", "block", "box"].map((key) => Number.parseInt(this.wanted[key], 10));
    if (Number.isNaN(rank) || rows === 0) return null;
    const cell = { row: within(rank, rows), column: within(block || 0, columns) };
    const found = this.gantt?.source.boxes[box];
    return found?.row === cell.row ? { ...cell, box: found } : cell;
  }

  get gantt() {
    return this.model?.panes.gantt;
  }

  fragment() {
    const parts = new URLSearchParams();
    if (this.gallery && this.document) parts.set("show", nameOf(this.document));
    if (this.model) parts.set("at", String(Number(this.position.toFixed(3))));
    if (this.speed !== 1) parts.set("speed", this.speed);
    parts.set("theme", this.theme.name);
    const seen = this.gantt?.windowText();
    if (seen) {
      const [from, to] = seen;
      parts.set("from", from);
      parts.set("to", to);
    }
    if (this.chosen) {
      const { row, column, box } = this.chosen;
      parts.set("rank", row);
      parts.set("block", column);
      const number = box ? this.gantt.source.boxes.indexOf(box) : -1;  // none by another clock
      if (number >= 0) parts.set("box", number);
    }
    for (const control of this.controls ?? []) {
      if (this.options[control.key] !== control.values[0]) parts.set(control.key, this.options[control.key]);
    }
    return parts.toString();
  }

  writeFragment() {
    const wanted = "#" + this.fragment();
    if (location.hash !== wanted) history.replaceState(null, "", wanted);
  }

  // --- what is shown ------------------------------------------------------------------------------------------------
  showGallery() {
    // Settings stay for what is opened next; the place was one in this document.
    if (this.model) this.wanted = { speed: String(this.speed), ...this.options };
    this.model = this.document = null;
    this.views = this.controls = [];
    this.playing = false;
    this.galleryView = new Gallery(this, this.gallery);
    this.root.replaceChildren(this.head({ title: this.gallery.title, detail: "", chips: [] }), this.galleryView.root);
    this.changed();
  }

  open(document_) {
    this.document = document_;
    this.position = 0;
    this.chosen = null;
    this.playing = false;
    this.model = modelOf(this);
    document.title = `${this.model.title}: tutti view`;
    this.views = [];
    this.controls = [];
    const panes = element("section", { class: `panes ${this.model.layout ?? ""}` });
    for (const [area, pane] of Object.entries(this.model.panes)) panes.append(this.view(area, pane));
    this.detail = element("aside", { class: "pane detail", style: "grid-area: detail", "aria-live": "polite" });
    panes.append(this.detail);
    this.root.replaceChildren(this.head(this.model), this.story(), panes, this.bar());
    this.restore();
  }

  head({ title, detail, chips }) {
    const head = element("header", { class: "top" },
      element("h1", {}, title, element("small", {}, detail)),
      element("div", { class: "chips" }, ...chips.map(([words, kind]) => element("span", { class: `chip ${kind ?? ""}` }, words))),
      element("div", { class: "spring" }));
    if (this.gallery && this.model) head.append(this.button("Gallery", "g", () => this.showGallery()));
    if (this.model) head.append(this.button("Save SVG", "e", () => this.save()));
    head.append(this.button("Theme", "t", () => this.turnTheme()), this.button("Keys", "?", () => this.help()));
    return head;
  }

  button(words, key, action) {
    return element("button", { type: "button", title: `key ${key}`, onclick: action }, words);
  }

  story() {
    const { problems } = this.model;
    if (!problems?.length) return element("div", { class: "nothing" });
    return element("section", { class: "story", role: "alert" },
      ...problems.map(({ kind, message, story }) => element("div", {},
        element("b", {}, kind ? `Not verified, ${kind}: ` : ""), message,
        element("ul", {}, ...(story ?? []).map((line) => element("li", {}, line))))));
  }

  view(area, pane) {
    const canvas = element("canvas", { tabindex: "0", role: "img", "aria-label": pane.title });
    const hint = element("span", { class: "hint" });
    const head = element("header", {}, element("h2", {}, pane.title), hint);
    for (const control of pane.controls?.() ?? []) head.append(this.select(control));
    const stage = element("div", { class: "stage" }, canvas);
    const root = element("section", { class: "pane", style: `grid-area: ${area}`, id: `pane-${area}` }, head, stage);
    const view = { area, pane, canvas, hint, width: 0, height: 0 };
    this.views.push(view);
    new ResizeObserver(() => this.resize(view)).observe(stage);
    const at = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top, view.width, view.height];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      pane.click?.(...at(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      if (event.buttons && pane.drag) pane.drag(...at(event));
      this.tip(event, event.buttons ? null : pane.hover?.(...at(event)));
    });
    canvas.addEventListener("pointerleave", () => this.tip(null, null));
    canvas.addEventListener("wheel", (event) => {
      if (!pane.wheel) return;
      event.preventDefault();
      pane.wheel(at(event)[0], event.deltaY, view.width, view.height);
    }, { passive: false });
    return root;
  }

  select(control) {
    this.controls.push(control);
    this.options[control.key] ??= control.values[0];
    if (!control.values.includes(this.options[control.key])) this.options[control.key] = control.values[0];
    control.box = element("select", { "aria-label": control.label, onchange: (event) => this.setOption(control, event.target.value) },
      ...control.values.map((value) => element("option", { value }, value)));
    control.box.value = this.options[control.key];
    return element("label", {}, `${control.label} `, control.box);
  }

  setOption(control, value) {
    this.options[control.key] = value;
    control.box.value = value;
    this.changed();
  }

  resize(view) {
    const box = view.canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    view.width = box.width;
    view.height = box.height;
    view.canvas.width = Math.round(box.width * ratio);
    view.canvas.height = Math.round(box.height * ratio);
    this.drawView(view);  // at once: a canvas of another size is empty
    this.changed();
  }

  bar() {
    this.playButton = element("button", { class: "play", type: "button", title: "space", onclick: () => this.toggle() }, "▶ Play");
    this.slider = element("input", { type: "range", min: "0", max: String(this.model.length), step: "any", "aria-label": "position",
      oninput: () => this.seek(Number(this.slider.value)) });
    this.speedBox = element("select", { "aria-label": "speed", onchange: () => this.setSpeed(Number(this.speedBox.value)) },
      ...kSpeeds.map((speed) => element("option", { value: String(speed) }, `${speed}×`)));
    this.speedBox.value = String(this.speed);
    this.where = element("output", {});
    return element("footer", { class: "bar" },
      element("button", { type: "button", title: "Home", "aria-label": "to the start", onclick: () => this.seek(0) }, "|◀"),
      element("button", { type: "button", title: "←", "aria-label": "a step back", onclick: () => this.step(-1) }, "◂"),
      this.playButton,
      element("button", { type: "button", title: "→", "aria-label": "a step on", onclick: () => this.step(1) }, "▸"),
      element("button", { type: "button", title: "End", "aria-label": "to the end", onclick: () => this.seek(this.model.length) }, "▶|"),
      this.slider, this.speedBox, this.where);
  }

  // --- what panes and keys ask for -----------------------------------------------------------------------------------
  seek(position) {
    this.position = Math.max(0, Math.min(this.model.length, position));
    this.model.seek(this.position);
    this.changed();
  }

  step(by) {
    this.playing = false;
    this.seek(this.model.stepFrom(this.position, by));
  }

  toggle() {
    this.playing = !this.playing;
    if (this.playing && this.position >= this.model.length) this.seek(0);
    this.changed();
  }

  choose(cell) {
    this.chosen = cell;
    this.changed();
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.speedBox) this.speedBox.value = String(speed);
    this.changed();
  }

  setTheme(name) {
    this.theme = themes[name] ?? themes.light;
    document.documentElement.dataset.theme = this.theme.name;
    this.changed();
  }

  turnTheme() {
    this.setTheme(this.theme.name === "dark" ? "light" : "dark");
  }

  changed() {
    this.dirty = true;
  }

  tip(event, words) {
    this.tipBox ??= document.body.appendChild(element("div", { class: "tip", hidden: "" }));
    this.tipBox.hidden = !words;
    if (!words) return;
    this.tipBox.textContent = words;
    this.tipBox.style.left = `${Math.min(event.clientX + 14, innerWidth - 300)}px`;
    this.tipBox.style.top = `${event.clientY + 16}px`;
  }

  help() {
    const dialog = element("dialog", { onclose: () => dialog.remove() },
      element("table", {}, ...kKeys.map(([key, words]) => element("tr", {}, element("td", {}, element("kbd", {}, key)), element("td", {}, words)))),
      element("form", { method: "dialog" }, element("button", {}, "Close")));
    document.body.append(dialog);
    dialog.showModal();
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "t") this.turnTheme();
    else if (event.key === "?") this.help();
    else if (event.key === "g" && this.gallery) this.showGallery();
    else if (!this.model || !this.playerKey(event)) return;
    event.preventDefault();
  }

  playerKey(event) {
    if (event.target instanceof HTMLSelectElement) return false;
    const arrows = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.shiftKey && arrows[event.key]) {
      const [down, right] = arrows[event.key];
      const { row, column } = this.chosen ?? { row: 0, column: 0 };
      const { rows, columns } = this.model;
      this.choose(this.chosen ? { row: within(row + down, rows), column: within(column + right, columns) } : { row, column });
      return true;
    }
    const actions = {
      " ": () => this.toggle(), ArrowLeft: () => this.step(-1), ArrowRight: () => this.step(1),
      Home: () => this.seek(0), End: () => this.seek(this.model.length), Escape: () => this.choose(null),
      "+": () => this.faster(1), "=": () => this.faster(1), "-": () => this.faster(-1), e: () => this.save(),
    };
    actions[event.key]?.();
    return event.key in actions;
  }

  faster(by) {
    const at = Math.max(0, Math.min(kSpeeds.length - 1, kSpeeds.indexOf(this.speed) + by));
    this.setSpeed(kSpeeds[at]);
  }

  // --- drawing --------------------------------------------------------------------------------------------------------
  frame(now) {
    requestAnimationFrame((later) => this.frame(later));  // before anything can go wrong: the page would stand still
    const elapsed = Math.min(0.25, (now - (this.last ?? now)) / 1000);
    this.last = now;
    if (this.playing) {
      this.seek(this.position + elapsed * this.speed * this.model.pace);
      if (this.position >= this.model.length) this.playing = false;
    }
    if (this.dirty) {
      this.dirty = false;
      if (this.model) this.draw();
      else this.galleryView?.draw();
      this.writeFragmentSoon();
      ++this.drawn;
      this.openedMs ??= performance.now();  // since the page was asked for
    }
  }

  // Browsers refuse an address that changes with every frame.
  writeFragmentSoon() {
    this.writing ??= setTimeout(() => {
      this.writing = null;
      this.writeFragment();
    }, 250);
  }

  draw() {
    for (const view of this.views) this.drawView(view);
    this.model.tell(this.detail);
    this.playButton.textContent = this.playing ? "❚❚ Hold" : "▶ Play";
    this.slider.value = String(this.position);
    this.where.textContent = this.model.where(this.position);
  }

  drawView({ pane, canvas, hint, width, height }) {
    if (width < 2 || height < 2) return;
    const context = canvas.getContext("2d");
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    pane.draw(new CanvasPainter(context, width, height), this.theme);
    const words = pane.status?.() || pane.hint();
    if (hint.textContent !== words) hint.textContent = words;
  }

  // All that is seen, on one sheet.
  svg() {
    const top = 54, sheet = this.root.querySelector(".panes").getBoundingClientRect();
    const title = new SvgPainter(sheet.width, top);
    title.text(14, 24, `${this.model.title} ${this.model.detail}`, { size: 17, weight: 700, fill: this.theme.ink });
    title.text(14, 43, this.model.where(this.position), { size: 12, fill: this.theme.soft });
    const groups = [title.group(0, 0)];
    for (const { pane, canvas, width, height } of this.views) {
      const box = canvas.getBoundingClientRect();
      const painter = new SvgPainter(width, height);
      painter.rect(0, -24, width, height + 24, { fill: this.theme.pane, radius: 9 });
      painter.text(12, -8, pane.title, { size: 12, weight: 700, fill: this.theme.ink });
      pane.draw(painter, this.theme);
      groups.push(painter.group(box.left - sheet.left, box.top - sheet.top + top));
    }
    return svgDocument(Math.ceil(sheet.width), Math.ceil(sheet.height + top), this.theme.page, groups);
  }

  save() {
    const link = element("a", {
      href: URL.createObjectURL(new Blob([this.svg()], { type: "image/svg+xml" })),
      download: `${this.model.title.replace(/\W+/g, "-")}.svg` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}


window.tutti = new App(document.getElementById("app"), JSON.parse(document.getElementById("document").textContent));
