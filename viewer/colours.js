// Colours of both themes. A rank has one colour everywhere: as a node, as a row, and as a part of what a cell holds.
export const themes = {
  light: {
    name: "light", page: "#f5f6f8", pane: "#ffffff", ink: "#1b2330", soft: "#5d6b7e", faint: "#a9b3c0", line: "#e1e5ea",
    cell: "#edf0f4", accent: "#1b6ca8", good: "#1f8a4c", bad: "#c8324a", warm: "#e07a1f", computing: "#2e933c",
  },
  dark: {
    name: "dark", page: "#10141b", pane: "#181e28", ink: "#e8edf4", soft: "#9aa7b8", faint: "#5b6879", line: "#283141",
    cell: "#232c39", accent: "#5fb0ea", good: "#4cc97f", bad: "#ff6b81", warm: "#ffa24d", computing: "#57c76a",
  },
};

export function rankColour(rank, ranks, theme) {
  // Steps of the golden angle tell neighbours apart; few ranks go round once.
  const hue = ranks <= 12 ? (rank * 360) / Math.max(ranks, 1) + 210 : rank * 137.508 + 210;
  return hslText(hue % 360, theme.name === "dark" ? 0.6 : 0.62, theme.name === "dark" ? 0.62 : 0.52);
}

function hslText(hue, saturation, lightness) {
  const channel = (shift) => {
    const k = (shift + hue / 30) % 12;
    const value = lightness - saturation * Math.min(lightness, 1 - lightness) * Math.max(-1, Math.min(k - 3, 9 - k, 1));
    return Math.round(255 * value).toString(16).padStart(2, "0");
  };
  return `#${channel(0)}${channel(8)}${channel(4)}`;
}

export function blended(from, to, part) {
  let colour = "#";
  for (const at of [1, 3, 5]) {
    const [a, b] = [from, to].map((text) => parseInt(text.slice(at, at + 2), 16));
    colour += Math.round(a + (b - a) * Math.min(1, Math.max(0, part))).toString(16).padStart(2, "0");
  }
  return colour;
}

// From cold to hot.
export function heatColour(share, theme) {
  return share < 0.5 ? blended(theme.line, theme.warm, share * 2) : blended(theme.warm, theme.bad, share * 2 - 1);
}
