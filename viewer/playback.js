// A schedule, forwards and backwards: what every rank holds after each frame. Knows only the JSON, nothing of the screen.
//
// Every change is kept with what was there before, so that going back is as cheap as going on.
import { ranksOf } from "tutti/format.js";
import { unpacked } from "tutti/packed.js";

const kInput = 0, kOutput = 1;  // places
const kMessage = 0;             // a kind of moves

export class Playback {
  constructor(document) {
    this.document = document;
    this.frames = document.frames;
    this.length = this.frames.length;
    this.at = 0;
    this.grouped = document.groups !== undefined;
    this.rows = document.start.length;
    this.columns = document.start[0]?.length ?? 0;
    if (this.grouped) this.startGroups();
    else this.startExact();
  }

  startExact() {
    const { sets = [], places = [], start } = this.document;  // programs that cannot be played have none
    this.sets = sets.map(ranksOf);
    this.memory = start.map((row) => places.map((_, place) => (place === kInput ? [...row] : row.map(() => 0))));
    this.inbox = start.map(() => []);
    this.undo = [];  // by frame: what it changed, and what was there before
    // A lane runs its steps in order, so that the number of each follows.
    const next = start.map(() => []);
    this.fired = this.frames.map(({ fired }) => {
      const steps = [];
      for (let i = 0; i < fired.length; i += 3) {
        const [first, ranks, lane] = fired.slice(i, i + 3);
        for (let rank = first; rank < first + ranks; ++rank) {
          const step = next[rank][lane] ?? 0;
          next[rank][lane] = step + 1;
          steps.push({ rank, lane, step });
        }
      }
      return steps;
    });
  }

  startGroups() {
    this.cells = this.document.start.map((row) => row.map(([share, complete]) => ({ share, complete })));
    this.undo = [];
  }

  seek(frame) {
    const wanted = Math.max(0, Math.min(this.length, frame));
    while (this.at < wanted) this.forward();
    while (this.at > wanted) this.backward();
  }

  forward() {
    const frame = this.frames[this.at++];
    const undo = this.grouped ? this.applyGroups(frame) : this.applyExact(frame);
    this.undo[this.at] ??= undo;
  }

  applyExact(frame) {
    const writes = [], inboxes = new Map();
    for (const [rank, place, block, set] of unpacked(frame.writes, 4)) {
      writes.push([rank, place, block, this.memory[rank][place][block]]);
      this.memory[rank][place][block] = set;
    }
    // An inbox that changes is a new list, so that the old one is there for the way back.
    const changing = (rank) => {
      if (!inboxes.has(rank)) {
        inboxes.set(rank, this.inbox[rank]);
        this.inbox[rank] = [...this.inbox[rank]];
      }
      return this.inbox[rank];
    };
    for (const [rank, index] of unpacked(frame.taken, 2)) changing(rank).splice(index, 1);
    frame.moves.filter(([kind]) => kind === kMessage).forEach(([, from, to, ...blocks], i) => {
      const [channel, ...sets] = frame.come[i];
      changing(to).push({ from, channel, blocks, sets });
    });
    return { writes, inboxes };
  }

  applyGroups(frame) {
    const cells = [];
    for (let i = 0; i < frame.cells.length; i += 4) {
      const [row, column, share, complete] = frame.cells.slice(i, i + 4);
      cells.push([row, column, this.cells[row][column]]);
      this.cells[row][column] = { share, complete };
    }
    return { cells };
  }

  backward() {
    const undo = this.undo[this.at--];
    if (this.grouped) {
      for (const [row, column, cell] of undo.cells) this.cells[row][column] = cell;
      return;
    }
    for (const [rank, place, block, set] of undo.writes) this.memory[rank][place][block] = set;
    for (const [rank, messages] of undo.inboxes) this.inbox[rank] = messages;
  }

  wanted(rank, block) {
    return this.sets[this.document.wanted[rank][block]];
  }

  complete(rank, block) {
    const set = this.document.wanted[rank][block];
    return set !== 0 && this.memory[rank][kOutput][block] === set;
  }

  // What a rank has of a block: its output, or before there is any the best of its input and scratch.
  held(rank, block) {
    const memory = this.memory[rank];
    if (memory[kOutput][block] !== 0) return this.sets[memory[kOutput][block]];
    let best = this.sets[memory[kInput][block]];
    for (let place = kOutput + 1; place < memory.length; ++place) {
      const set = this.sets[memory[place][block]];
      if (set.length > best.length) best = set;
    }
    return best;
  }

  // What has come of a block and was not taken yet, the oldest first.
  arrived(rank, block) {
    const sets = [];
    for (const message of this.inbox[rank]) {
      const at = message.blocks.indexOf(block);
      if (at >= 0) sets.push(this.sets[message.sets[at]]);
    }
    return sets;
  }

  // The best of all that.
  best(rank, block) {
    const held = this.held(rank, block);
    if (this.complete(rank, block)) return held;
    return this.arrived(rank, block).reduce((best, set) => (set.length > best.length ? set : best), held);
  }

  // Where a rank has something of a block, place by place.
  places(rank, block) {
    const found = [];
    this.document.places.forEach((name, place) => {
      const set = this.memory[rank][place][block];
      if (set !== 0) found.push([name, this.sets[set]]);
    });
    for (const message of this.inbox[rank]) {
      const at = message.blocks.indexOf(block);
      if (at >= 0) found.push([`message from rank ${message.from}`, this.sets[message.sets[at]]]);
    }
    return found;
  }

  // Of a rank, or of a group of them: which part of what is wanted in the end is complete.
  progress(row) {
    let wanted = 0, complete = 0;
    for (let column = 0; column < this.columns; ++column) {
      if (this.grouped) {
        wanted += 1;
        complete += this.cells[row][column].complete / 100;
      } else if (this.document.wanted[row][column] !== 0) {
        wanted += 1;
        complete += this.complete(row, column) ? 1 : 0;
      }
    }
    return wanted === 0 ? (this.at === this.length ? 1 : 0) : complete / wanted;
  }

  // What travels while the player is between two frames.
  moves() {
    return this.at < this.length ? this.frames[this.at].moves : [];
  }

  blocksOf(move) {
    return this.grouped ? move[3] : move.length - 3;
  }

  // Blocks by edge: of one frame, or of all frames before.
  traffic(frame) {
    this.trafficOfFrames ??= this.frames.map((one) => {
      const edges = new Map();
      for (const move of one.moves) {
        const edge = move[1] * this.rows + move[2];
        edges.set(edge, (edges.get(edge) ?? 0) + this.blocksOf(move));
      }
      return edges;
    });
    return this.trafficOfFrames[frame] ?? new Map();
  }

  trafficBefore(frame) {
    if (this.sums === undefined || this.sums.at > frame) this.sums = { at: 0, edges: new Map() };
    for (; this.sums.at < frame; ++this.sums.at) {
      for (const [edge, blocks] of this.traffic(this.sums.at))
        this.sums.edges.set(edge, (this.sums.edges.get(edge) ?? 0) + blocks);
    }
    return this.sums.edges;
  }

  // The most that an edge carries in all frames.
  mostTraffic() {
    if (this.most === undefined) {
      const all = new Map();
      for (let frame = 0; frame < this.length; ++frame) {
        for (const [edge, blocks] of this.traffic(frame)) all.set(edge, (all.get(edge) ?? 0) + blocks);
      }
      this.most = Math.max(1, ...all.values());
      this.edges = [...all.keys()];
    }
    return this.most;
  }
}
