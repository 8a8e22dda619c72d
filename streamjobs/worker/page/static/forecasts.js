// What a key's state foresees: for each column its newest values, and the rows to come with their intervals.
import { DECADES, EDGE, GAP, HEIGHT, css, element, font, widest } from "./charts.js";
import { clock, moment, percent, ratio } from "./format.js";

export class Forecasts {
  constructor(place) {
    this.place = place;
    this.about = null;
    new ResizeObserver(() => this.resize()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(this.about));
  }

  // about: `forecasts` of a key's state; null: none
  draw(about) {
    this.about = about;
    const columns = about ? about.columns.filter((one) => one.values.length) : [];
    this.place.hidden = !columns.length;
    for (const plot of this.plots ?? []) plot.destroy();
    this.plots = [];
    this.place.replaceChildren(...columns.map((one) => this.frame(one, about)));
    if (about?.fields > about?.columns.length) {
      this.place.append(element("p", { class: "note" }, `${about.fields - about.columns.length} more columns are not drawn: 'streamjobs plot forecast JOB --key KEY --column NAME' draws one.`));
    }
    columns.forEach((one, at) => this.plots.push(this.plot(one, about, this.place.children[at].lastChild)));
  }

  frame(one, about) {
    const last = about.rows.length - 1, show = (value) => (value == null ? GAP : ratio(value));
    const item = (name, color) => {
      const swatch = element("i");
      swatch.style.setProperty("--swatch", color);
      return element("li", {}, swatch, element("span", {}, name));
    };
    const shares = about.coverage.map((share) => percent(share, 1)).join(" and ");
    const legend = element("ul", { class: "legend" }, item("value", "var(--c1)"), item(`forecast, inside: ${shares}`, "var(--c2)"));
    const head = element("div", { class: "head" }, element("h3", {}, one.column), legend);
    const chart = element("div", { class: "chart", role: "img", tabindex: "0" });
    const row = about.rows[last] === 1 ? "1 row" : `${about.rows[last]} rows`;
    chart.setAttribute("aria-label", `${one.column}: now ${show(one.values.at(-1))}, forecast ${row} ahead ${show(one.forecast[last])}, ` +
      about.coverage.map((share, at) => `${percent(share, 1)} inside ${show(one.low[at][last])} to ${show(one.high[at][last])}`).join(", "));
    return element("section", {}, head, chart);
  }

  plot(one, about, place) {
    const now = one.values.at(-1), before = one.values.length, none = (many) => new Array(many).fill(null);
    const at = [...one.values.map((value, row) => row - before + 1), ...about.rows];
    const times = about.every ? at.map((row) => about.newest + row * about.every) : at;
    const coming = (values) => [...none(before - 1), now, ...values];
    const bounds = about.coverage.flatMap((share, c) => [coming(one.low[c]), coming(one.high[c])]);
    const data = [times, [...one.values, ...none(about.rows.length)], coming(one.forecast), ...bounds];
    const axis = { stroke: css("--muted"), font: font(), grid: { stroke: css("--line"), width: 1 }, ticks: { show: false }, gap: 6 };
    const rows = (tick) => (tick === 0 ? "now" : Math.abs(tick) === 1 ? `${tick} row` : `${tick} rows`);
    const shown = !about.every ? rows : times.at(-1) - times[0] > 172800 ? (time) => moment(time).split(/,? /)[0] : clock;
    const dots = { show: (plot, series, first, last) => last - first < 3, size: 4 };
    return new uPlot({
      width: Math.max(120, place.clientWidth), height: HEIGHT, legend: { show: false }, padding: [8, EDGE, 0, 0],
      cursor: { show: false }, scales: { x: { time: Boolean(about.every) } },
      axes: [
        { ...axis, space: 90, size: 28, ...(about.every ? {} : { incrs: DECADES.filter((rows) => rows >= 1) }), values: (plot, ticks) => ticks.map(shown) },
        { ...axis, space: 22, incrs: DECADES, values: (plot, ticks) => ticks.map(ratio), size: (plot, ticks) => Math.max(EDGE, 14 + Math.ceil(widest(plot.ctx, ticks))) },
      ],
      series: [{}, { stroke: css("--c1"), width: 1.75, points: { show: false } },
        { stroke: css("--c2"), width: 1.75, points: { ...dots, fill: css("--c2") } },
        ...bounds.map(() => ({ stroke: "transparent", width: 0, points: { show: false } }))],
      bands: about.coverage.map((share, c) => ({ series: [4 + 2 * c, 3 + 2 * c], fill: css("--c2") + "33" })),
    }, data, place);
  }

  resize() {
    for (const plot of this.plots ?? []) {
      const width = plot.root.parentNode.clientWidth;
      if (width && Math.abs(width - plot.width) > 1) plot.setSize({ width, height: HEIGHT });
    }
  }
}
