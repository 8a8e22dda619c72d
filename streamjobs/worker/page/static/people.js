// The activity strip: a row per key; above what it was labelled, below what was predicted, newest at the right.
import { count, percent, ratio } from "./format.js";

// A color serves several classes: the first plain, the second with a bar across it, the third with a cross.
const COLORS = 12, CELL = 7, TOP = 8, LABEL = 8, PREDICTED = 12;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class People {
  constructor(place, legend, note, choose) {
    Object.assign(this, { place, legend, note, choose });
    this.rows = new Map();
    this.told = "";
    addEventListener("resize", () => this.paint());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  // about: how many keys are in memory, and whether there are labels
  draw(people, classes, chosen, about) {
    const first = (key) => (key === chosen ? 0 : people.get(key).alarm ? 1 : 2);
    const order = [...people.keys()].sort((a, b) => first(a) - first(b) || a.localeCompare(b, "en", { numeric: true }));
    this.people = people;
    this.classes = classes;
    const named = JSON.stringify(classes);
    if (named !== this.told) this.tellClasses(classes);
    this.told = named;
    for (const [key, row] of this.rows) {
      if (!people.has(key)) { row.line.remove(); this.rows.delete(key); }
    }
    order.forEach((key, at) => {
      const row = this.rows.get(key) ?? this.make(key);
      if (this.place.children[at] !== row.line) this.place.insertBefore(row.line, this.place.children[at] ?? null);
      row.line.classList.toggle("chosen", key === chosen);
      row.line.classList.toggle("alarm", people.get(key).alarm);
      row.alarm.hidden = !people.get(key).alarm;
      row.button.setAttribute("aria-pressed", String(key === chosen));
    });
    this.place.classList.toggle("unlabelled", !about.labels);
    const errorless = ![...people.values()].some((one) => one.cells.some((cell) => cell[3] != null));
    this.place.classList.toggle("errorless", errorless);
    const raised = about.alarms ? "; ▾ alarm raised" : "";
    const others = about.keys - order.length;
    const which = others > 0 ? ` ${count(others)} more ${others > 1 ? "keys are" : "key is"} not shown: type a key above, or list them.` : "";
    this.note.textContent = (!order.length ? "No rows yet."
      : classes.length ? `Newest rows of each key: label above, prediction below${raised}, a bar beneath: wrong.`
      : `Newest rows of each key${errorless ? "" : ", in a stronger color for a larger LS error"}${raised}.`) + which;
    this.paint();
  }

  tellClasses(classes) {
    this.legend.replaceChildren(...classes.map((name, number) => {
      const item = document.createElement("li"), box = document.createElement("i"), text = document.createElement("span");
      box.className = `box mark${Math.floor(number / COLORS)}`;
      box.style.setProperty("--swatch", `var(--class${number % COLORS})`);
      text.textContent = name;
      item.append(box, text);
      return item;
    }));
  }

  make(key) {
    const line = document.createElement("div"), button = document.createElement("button");
    const alarm = document.createElement("small"), who = document.createElement("div");
    const canvas = document.createElement("canvas"), right = document.createElement("span"), error = document.createElement("span");
    line.className = "person";
    right.className = "figure right";
    error.className = "figure error";
    who.className = "who";
    alarm.className = "open";
    alarm.textContent = "in alarm";
    button.type = "button";
    button.textContent = key;
    button.title = key;
    button.addEventListener("click", () => this.choose(key));
    canvas.setAttribute("role", "img");
    who.append(button, alarm);
    line.append(who, canvas, right, error);
    const row = { line, button, alarm, canvas, right, error };
    this.rows.set(key, row);
    this.place.append(line);
    return row;
  }

  paint() {
    if (!this.people) return;
    const colors = Array.from({ length: COLORS }, (_, number) => css(`--class${number}`));
    const look = { colors, panel: css("--panel"), text: css("--text"), line: css("--line"), soft: css("--soft"), heat: css("--heat") };
    for (const [key, row] of this.rows) this.paintOne(key, row, this.people.get(key), look);
  }

  paintOne(key, row, person, look) {
    const { cells } = person, newest = cells.at(-1);
    const name = (number) => (number < 0 ? "none" : this.classes[number]);
    const figure = (place, value, unit) => {
      const small = document.createElement("small");
      small.textContent = unit;
      place.replaceChildren(value + " ", small);
    };
    figure(row.right, percent(person.right, person.labelled), person.labelled ? "right" : "");
    figure(row.error, newest?.[3] == null ? "–" : ratio(newest[3]), "LS");
    row.canvas.setAttribute("aria-label", newest
      ? `${key}: ${person.rows} rows, ${percent(person.right, person.labelled)} predicted right; newest: label ${name(newest[1])}, ` +
        `predicted ${name(newest[0])}` : `${key}: no rows yet`);
    const scale = devicePixelRatio || 1, width = row.canvas.clientWidth, height = 34;
    if (!width) return;
    if (row.canvas.width !== Math.round(width * scale)) { row.canvas.width = Math.round(width * scale); row.canvas.height = height * scale; }
    const pen = row.canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    const room = Math.max(1, Math.min(120, Math.floor(width / CELL))), wide = width / room, shown = cells.slice(-room), classes = this.classes.length;
    shown.forEach(([predicted, label, alarm, error], at) => {
      const x = width - (shown.length - at) * wide, w = Math.max(1, wide - 1);
      if (classes) {
        box(pen, look, label, x, TOP, w, LABEL);
        box(pen, look, predicted, x, TOP + LABEL + 1, w, PREDICTED);
        if (label >= 0 && predicted >= 0 && label !== predicted) {
          pen.fillStyle = look.text;
          pen.fillRect(x, TOP + LABEL + PREDICTED + 2, w, 3);
        }
      } else {
        pen.fillStyle = look.soft;
        pen.fillRect(x, TOP, w, LABEL + PREDICTED + 1);
        pen.globalAlpha = error == null ? 0 : Math.min(1, 0.15 + 0.85 * error / (1e-9 + Math.max(...shown.map((one) => one[3] ?? 0))));
        pen.fillStyle = look.heat;
        pen.fillRect(x, TOP, w, LABEL + PREDICTED + 1);
        pen.globalAlpha = 1;
      }
      if (alarm) {
        pen.fillStyle = look.text;
        pen.beginPath();
        pen.moveTo(x + w / 2 - 4, 0);
        pen.lineTo(x + w / 2 + 4, 0);
        pen.lineTo(x + w / 2, TOP - 2);
        pen.fill();
      }
    });
  }
}

function box(pen, look, number, x, y, wide, high) {
  pen.fillStyle = number < 0 ? look.soft : look.colors[number % COLORS];
  pen.fillRect(x, y, wide, high);
  pen.fillStyle = look.panel;
  if (number >= COLORS) pen.fillRect(x, y + high / 2 - 1, wide, 2);
  if (number >= 2 * COLORS) pen.fillRect(x + wide / 2 - 1, y, 2, high);
}
