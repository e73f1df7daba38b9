// What a document is to the page: its panes, how far it goes, and what is said of a place in it.
//
// A model has title, detail, chips, problems, panes by area, length, pace (of the player, in positions per second at 1×),
// rows and columns that can be chosen, seek(position), stepFrom(position, by), where(position), tell(element).
import { bytesText, plural } from "tutti/format.js";
import { CostPane } from "tutti/cost.js";
import { element } from "tutti/elements.js";
import { GanttPane, roundsSource, simulatedSource, stepWords, textOf } from "tutti/gantt.js";
import { MatrixPane } from "tutti/matrix.js";
import { pipelineModel } from "tutti/pipeline.js";
import { planModel } from "tutti/plan.js";
import { Playback } from "tutti/playback.js";
import { rankColour } from "tutti/colours.js";
import { TopologyPane } from "tutti/topology.js";
import { traceModel } from "tutti/trace.js";

const kVersion = 1;

export function modelOf(app) {
  const { version, kind } = app.document;
  if (version !== kVersion) throw new Error(`the page knows version ${kVersion} of its document, not ${version}`);
  const makers = { schedule: scheduleModel, pipeline: pipelineModel, trace: traceModel, plan: planModel };
  return makers[kind](app);
}

function scheduleModel(app) {
  const document_ = app.document;
  const playback = new Playback(document_);
  const panes = { topology: new TopologyPane(app, playback), matrix: new MatrixPane(app, playback) };
  const sources = {};
  if (document_.timeline && !playback.grouped) sources["simulated time"] = simulatedSource(playback, document_);
  if (!playback.grouped) sources.rounds = roundsSource(playback, document_);
  if (Object.keys(sources).length > 0) panes.gantt = new GanttPane(app, sources);
  if (document_.cost) panes.cost = new CostPane(app);
  return {
    title: `${document_.verb} by ${document_.algorithm}`,
    detail: plural(document_.ranks, "rank") + (document_.rooted ? `, root ${document_.root}` : ""),
    layout: panes.cost ? "" : panes.gantt ? "wide" : "high", chips: chipsOf(document_, playback), panes, playback, problems: problemsOf(document_),
    length: playback.length, pace: 1, rows: playback.rows, columns: playback.columns,
    seek: (position) => playback.seek(Math.floor(position)),
    stepFrom: (position, by) => (by > 0 ? Math.floor(position) + 1 : Math.ceil(position) - 1),
    where: (position) => whereOf(document_, playback, Math.floor(position)),
    tell: (detail) => tellCell(app, playback, detail),
  };
}

function chipsOf(document_, playback) {
  const { proof } = document_;
  const chips = [proof.verified ? ["✓ verified", "good"] : ["not verified", "bad"]];
  if (proof.canonical) chips.push(["canonical order"]);
  if (document_.bytes > 0) chips.push([`${bytesText(document_.bytes)}, ${plural(document_.blocks, "block")}`]);
  chips.push([plural(playback.length * document_.rounds_per_frame, "round")]);
  const hosts = new Set(document_.hosts).size;
  if (hosts > 1) chips.push([plural(hosts, "host")]);
  return chips;
}

function problemsOf(document_) {
  const problems = [...document_.proof.problems];
  if (document_.stuck.length > 0)
    problems.push({ kind: "", message: "The player stops where nothing can go on:", story: document_.stuck.slice(0, 12) });
  return problems;
}

function whereOf(document_, playback, at) {
  const each = document_.rounds_per_frame;
  const words = each === 1 ? `round ${at} of ${playback.length}` : `rounds to ${at * each} of ${playback.length * each}`;
  if (at >= playback.length) return `${words}: ${document_.stuck.length > 0 ? "stuck" : "done"}`;
  return `${words}, next ${playback.frames[at].ops.join(", ")}`;
}

// What is chosen, in words; rebuilt only where it changed.
function tellCell(app, playback, detail) {
  const { chosen } = app;
  const key = JSON.stringify([chosen?.row, chosen?.column, playback.at, app.theme.name]);
  if (detail.dataset.key === key) return;
  detail.dataset.key = key;
  if (!chosen) {
    detail.replaceChildren(element("h2", {}, "Choose"), element("p", {},
      "Click a cell for whose input it holds and where, a rank for its program, a box for its step. Space plays."),
      legend(app));
    return;
  }
  const { row, column } = chosen;
  if (playback.grouped) return tellGroup(playback, detail, row, column);
  const held = playback.best(row, column), wanted = playback.wanted(row, column);
  const state = playback.complete(row, column) ? "complete" : wanted.length === 0 ? "nothing is asked of it here"
    : `${new Set(held).size} of ${plural(wanted.length, "contribution")}`;
  detail.replaceChildren(
    element("h2", {}, `Rank ${row}, block ${column}`), element("p", {}, state),
    element("div", { class: "held" }, ...held.map((rank) => who(app, playback, rank))),
    element("table", {}, ...playback.places(row, column).map(([name, ranks]) =>
      element("tr", {}, element("td", {}, name), element("td", {}, ...ranks.map((rank) => who(app, playback, rank)))))),
    ...programOf(app, playback, row));
}

function who(app, playback, rank) {
  return element("span", { class: "who", style: `background: ${rankColour(rank, playback.document.ranks, app.theme)}` }, String(rank));
}

function tellGroup(playback, detail, row, column) {
  const { share, complete } = playback.cells[row][column];
  const { groups } = playback.document;
  detail.replaceChildren(
    element("h2", {}, `Ranks from ${row * groups.ranks}, blocks from ${column * groups.blocks}`),
    element("p", {}, `${share} % of what is wanted is there, ${complete} % of the blocks are complete.`));
}

function legend(app) {
  const { theme } = app;
  const line = (colour, words) => element("tr", {},
    element("td", {}, element("span", { class: "who", style: `background: ${colour}` }, "\u00a0")), element("td", {}, words));
  return element("table", {}, line(theme.accent, "a message"), line(theme.bad, "a load from a peer's memory"),
    line(theme.warm, "a store to a peer's memory"), line(theme.good, "complete"));
}

// The program of a rank; the steps that fire next are marked.
function programOf(app, playback, rank) {
  stepWords(app.document, rank, 0, 0);
  const program = app.document.textOfRank[rank];
  if (!program) return [];
  const done = program.lanes.map(() => 0), next = new Set();
  playback.fired.slice(0, playback.at + 1).forEach((fired, round) => {
    for (const one of fired) {
      if (one.rank !== rank) continue;
      if (round < playback.at) done[one.lane] = one.step + 1;
      else next.add(`${one.lane} ${one.step}`);
    }
  });
  return program.lanes.flatMap((lane, number) => [
    element("p", {}, `lane ${lane.name}`),
    element("ol", {}, ...lane.steps.map((text, step) => element("li", {
      class: next.has(`${number} ${step}`) ? "now" : step < done[number] ? "done" : "" },
    `${step} ${textOf(app.document, text)}`)))]);
}
