// The charts over time: uPlot, with a legend of our own that shows the newest values or those under the cursor.
import { clock, count, ratio, seconds } from "./format.js";

export const GAP = "–", HEIGHT = 180, EDGE = 34; // half of a time's width, and a little more: a label may stand at either end
export const DECADES = Array.from({ length: 22 }, (_, at) => at - 12).flatMap((at) => [1, 2, 5].map((step) => Number(`${step}e${at}`)));
export const TIMES = [...DECADES.filter((step) => step < 1), 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400, 432000];
const CHARTS = [
  { id: "throughput", title: "Throughput", per: "per second", show: count,
    series: [["records", "records", "--c1"], ["rows", "rows", "--c2"]] },
  { id: "delay", title: "Event delay", per: "from event to Kafka", show: seconds, steps: TIMES,
    series: [["delay_p50", "median", "--c1"], ["delay_p99", "p99", "--c2"]] },
  { id: "error", title: "LS error", per: "", show: ratio,
    series: [["error_p50", "median", "--c1"], ["error_p99", "p99", "--c2"], ["chosen", "key", "--c4"]] },
  { id: "lag", title: "Lag and recovery", per: "records", show: count,
    series: [["lag", "waiting", "--c1"], ["recovery", "to recover", "--c2"]] },
];

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const font = () => "12px " + getComputedStyle(document.body).fontFamily;

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Places of values without a neighbour, which no line shows.
const alone = (values) => [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);

class Chart {
  constructor(place, about) {
    this.about = about;
    this.legend = element("ul", { class: "legend" });
    this.frame = element("div", { class: "chart", id: `chart-${about.id}`, role: "img", tabindex: "0" });
    const title = element("h2", {}, about.title);
    if (about.per) title.append(" ", element("span", { class: "note" }, about.per));
    this.section = element("section", { class: "panel" }, element("div", { class: "head" }, title, this.legend), this.frame);
    place.append(this.section);
    this.values = about.series.map(([, name, color]) => {
      const value = element("b", {}, GAP), swatch = element("i"), text = element("span", {}, name);
      swatch.style.setProperty("--swatch", `var(${color})`);
      this.legend.append(element("li", {}, swatch, text, value));
      return { value, text, item: this.legend.lastChild };
    });
    this.frame.addEventListener("keydown", (event) => this.move(event));
    this.frame.addEventListener("blur", () => { this.at = null; this.tell(); });
    this.data = [[], ...about.series.map(() => [])];
    this.at = null;
    new ResizeObserver(() => this.resize()).observe(this.frame);
  }

  make() {
    this.plot?.destroy();
    const axis = { stroke: css("--muted"), font: font(), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, gap: 6 };
    const show = (plot, values) => values.map((value) => (value == null ? "" : this.about.show(value)));
    this.plot = new uPlot({
      width: Math.max(120, this.frame.clientWidth), height: HEIGHT, legend: { show: false }, padding: [8, EDGE, 0, 0],
      cursor: { sync: { key: "page" }, points: { size: 6 }, drag: { x: false, y: false }, y: false },
      hooks: { setCursor: [(plot) => { this.at = plot.cursor.idx; this.tell(); }] },
      scales: { x: { time: true }, y: { range: (plot, low, high) => [0, high > 0 ? high * 1.08 : 1] } },
      axes: [
        { ...axis, space: 76, size: 28, values: (plot, ticks) => ticks.map(clock) },
        { ...axis, space: 36, incrs: this.about.steps ?? DECADES, values: show, size: (plot, values) => Math.max(EDGE, 14 + Math.ceil(widest(plot.ctx, values))) },
      ],
      series: [{}, ...this.about.series.map(([, , color]) => ({
        stroke: css(color), width: 1.75, points: { show: false, filter: (plot, at) => alone(plot.data[at]), size: 4, fill: css(color) },
      }))],
    }, this.data, this.frame);
  }

  resize() {
    const width = this.frame.clientWidth;
    if (this.plot && width && Math.abs(width - this.plot.width) > 1) this.plot.setSize({ width, height: HEIGHT });
  }

  draw(data, from, to) {
    this.data = data;
    if (!this.plot) this.make();
    this.plot.setData(data, false);
    this.plot.setScale("x", { min: from, max: to });
    this.tell();
  }

  move(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 }[event.key];
    if (!step || !this.plot || !this.data[0].length) return;
    event.preventDefault();
    const last = this.data[0].length - 1;
    this.at = Math.min(last, Math.max(0, (this.at ?? last + 1) + step));
    this.plot.setCursor({ left: this.plot.valToPos(this.data[0][this.at], "x"), top: 10 });
    this.tell();
  }

  tell() {
    const at = this.at ?? this.data[0].length - 1;
    const values = this.about.series.map(([, name], number) => {
      const value = at >= 0 ? this.data[number + 1][at] : null;
      const text = value == null ? GAP : this.about.show(value);
      this.values[number].value.textContent = text;
      return `${this.values[number].text.textContent} ${text}`;
    });
    const when = this.at == null || at < 0 ? "now" : clock(this.data[0][at]);
    this.frame.setAttribute("aria-label", `${this.about.title} ${this.about.per}, ${when}: ${values.join(", ")}`);
  }
}

export function widest(context, values) {
  if (!values?.length) return 0;
  context.save();
  context.font = font();
  const width = Math.max(...values.map((value) => context.measureText(value).width));
  context.restore();
  return width;
}

export class Charts {
  constructor(place) {
    this.place = place;
    this.charts = CHARTS.map((about) => new Chart(place, about));
    this.range = 300;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.charts.forEach((one) => one.plot && one.make()));
  }

  // columns: by name, all as long as columns.time; chosen: name of the chosen key
  draw(columns, chosen) {
    const times = columns.time;
    const to = times.at(-1) ?? Date.now() / 1000;
    const from = Math.max(to - this.range, Math.min(times[0] ?? to, to - 30));
    const error = this.charts[2].values[2];
    error.item.hidden = !chosen;
    error.item.style.display = chosen ? "" : "none";
    error.text.textContent = chosen || "key";
    const shown = this.charts.filter((one) => one.about.id !== "error" || columns.error_p50?.some((value) => value != null));
    this.charts[2].section.hidden = !shown.includes(this.charts[2]);
    this.place.dataset.charts = shown.length;
    for (const one of shown) {
      one.draw([times, ...one.about.series.map(([name]) => columns[name] ?? times.map(() => null))], from, to);
    }
  }
}
