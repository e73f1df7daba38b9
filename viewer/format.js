// Numbers in words, the way the command says them.
// Messages come in powers of 1024, memory of devices in powers of 1000.
export function bytesText(bytes, step = 1024) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= step && at < units.length - 1) {
    bytes /= step;
    ++at;
  }
  return `${trimmed(bytes)} ${units[at]}`;
}

export function timeText(us) {
  if (us === 0) return "0";
  if (us < 1) return `${trimmed(us * 1000)} ns`;
  if (us < 1000) return `${trimmed(us)} µs`;
  if (us < 1e6) return `${trimmed(us / 1000)} ms`;
  return `${trimmed(us / 1e6)} s`;
}

export function trimmed(number) {
  return String(Number(number.toPrecision(3)));
}

export function plural(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}

// The least 1, 2 or 5 times a power of ten that cuts the span into at most so many parts.
export function tickOf(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  for (const factor of [1, 2, 5, 10]) {
    if (factor * power >= (span / most) * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// "0-2,5" as numbers; a rank that stands twice is listed twice.
export function ranksOf(text) {
  const ranks = [];
  if (text === "") return ranks;
  for (const part of text.split(",")) {
    const [first, last] = part.split("-").map(Number);
    for (let rank = first; rank <= (last ?? first); ++rank) ranks.push(rank);
  }
  return ranks;
}
