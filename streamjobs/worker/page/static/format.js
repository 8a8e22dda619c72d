// Numbers and times as people read them.
const SHORT = [[1e9, "G"], [1e6, "M"], [1e4, "k"]];

export function count(value) {
  for (const [size, unit] of SHORT) {
    if (Math.abs(value) >= size) return plain(value / (size === 1e4 ? 1e3 : size)) + "\u00a0" + unit;
  }
  return value >= 100 || Number.isInteger(value) ? Math.round(value).toLocaleString("en") : plain(value);
}

function plain(value) {
  return Number(value.toPrecision(3)).toLocaleString("en", { maximumFractionDigits: 2 });
}

export function ratio(value) {
  if (value === 0) return "0";
  return Math.abs(value) < 1e-3 || Math.abs(value) >= 1e5 ? value.toExponential(1) : String(Number(value.toPrecision(3)));
}

export function seconds(value) {
  if (value === 0) return "0";
  if (value < 1) return ratio(value * 1000) + " ms";
  if (value < 120) return ratio(value) + " s";
  if (value < 7200) return plain(value / 60) + " min";
  return value < 172800 ? plain(value / 3600) + " h" : plain(value / 86400) + " d";
}

export function bytes(value) {
  return value < 1024 ? `${value} bytes` : value < 1 << 20 ? `${plain(value / 1024)} KB` : `${plain(value / (1 << 20))} MB`;
}

export function clock(at) {
  return new Date(at * 1000).toLocaleTimeString([], { hourCycle: "h23" });
}

export function moment(at) {
  return new Date(at * 1000).toLocaleString([], { dateStyle: "short", timeStyle: "medium", hourCycle: "h23" });
}

/** Only all is 100 %, and only nothing 0 %. */
export function percent(part, whole) {
  if (!whole) return "–";
  const share = (100 * part) / whole, rounded = Math.round(share);
  if (share > 99 && share < 100) return `${Math.min(99.9, Math.round(10 * share) / 10)} %`;
  return share > 0 && share < 1 ? "< 1 %" : `${rounded} %`;
}
