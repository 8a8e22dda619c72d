// Tables: label and prediction, worst keys, alarms, dead letters, and what a key's state says. Keys are text, never HTML.
import { bytes, clock, count, moment, percent, ratio, seconds } from "./format.js";

export function make(tag, about = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(about)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function table(caption, heads, rows) {
  const head = make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind ?? "" }, text)));
  return make("table", {}, make("caption", {}, caption), make("thead", {}, head), make("tbody", {}, ...rows));
}

function empty(place, text) {
  place.replaceChildren(make("p", { class: "empty" }, text));
}

export function keyButton(key, choose) {
  const button = make("button", { type: "button", class: "link", title: key }, key);
  button.addEventListener("click", () => choose(key));
  return button;
}

// What predictions without a model get on the same labels: each key's last label, and the most frequent one.
export function controls(figures) {
  const { pairs, counted, rmse, repeated } = figures ?? {}, found = [];
  if (repeated != null) found.push(`last label ${rmse != null ? ratio(repeated) : percent(repeated, 1)}`);
  if (counted) {
    const sums = pairs.reduce((all, [label, , rows]) => all.set(label, (all.get(label) ?? 0) + rows), new Map());
    found.push(`most frequent ${percent(Math.max(...sums.values()), counted)}`);
  }
  return found.length ? `; ${found.join(", ")}` : "";
}

export function confusion(place, note, told) {
  const { pairs, classes, labels, rmse, counted, unpredicted } = told, without = controls(told);
  if (rmse != null) {
    note.textContent = `Root mean squared error of ${count(labels)} labelled rows${without}.`;
    place.replaceChildren(make("p", { class: "value" }, ratio(rmse)));
    return;
  }
  if (!pairs.length) {
    note.textContent = "";
    return empty(place, "No labelled row was predicted yet.");
  }
  const early = unpredicted ? ` ${count(unpredicted)} more arrived before a prediction.` : "";
  const left = labels - counted - unpredicted;
  const missed = left > 0 ? ` ${count(left)} arrived too fast to be counted.` : "";
  const right = pairs.reduce((sum, [label, predicted, rows]) => sum + (label === predicted ? rows : 0), 0);
  note.textContent = `${count(counted)} labelled rows so far, ${percent(right, counted)} right${without}.${early}${missed} A row is a label, a column a prediction.`;
  const used = [...new Set(pairs.flatMap(([label, predicted]) => [label, predicted]))].sort((a, b) => a - b);
  const cells = new Map(pairs.map(([label, predicted, rows]) => [`${label} ${predicted}`, rows]));
  const head = make("tr", {}, make("td"), ...used.map((at) => make("th", { scope: "col", class: used.length > 8 || classes[at].length > 5 ? "long" : "" }, classes[at])));
  const rows = used.map((label) => {
    const sum = used.reduce((total, at) => total + (cells.get(`${label} ${at}`) ?? 0), 0);
    return make("tr", {}, make("th", { scope: "row", title: classes[label] }, classes[label]), ...used.map((predicted) => {
      const rows = cells.get(`${label} ${predicted}`) ?? 0;
      const cell = make("td", rows ? {} : { class: "none" }, rows ? count(rows).replace(" ", "\u202f") : "0");
      cell.style.setProperty("--share", rows ? 0.12 + 0.88 * rows / sum : 0);
      cell.style.setProperty("--tone", label === predicted ? "var(--heat)" : "var(--miss)");
      return cell;
    }));
  });
  place.closest("section").classList.toggle("whole", used.length > 8);
  const made = make("table", { class: "confusion" }, make("caption", {}, "Labels by predictions"), make("thead", {}, head), make("tbody", {}, ...rows));
  const { scrollLeft, scrollTop } = place;
  place.replaceChildren(made);
  place.scrollTo(scrollLeft, scrollTop);
  fade(place);
}

export function fade(place) { // says that there is more at the right
  place.previousElementSibling.hidden = place.scrollWidth <= place.clientWidth + 1;
  place.classList.toggle("more", place.scrollLeft + place.clientWidth < place.scrollWidth - 1);
}

export function worst(place, keys, choose) {
  if (!keys.length) return empty(place, "No key has an LS error.");
  place.replaceChildren(table("Active keys with the largest newest LS errors", [["key"], ["LS error", "number"]], keys.map(([key, error]) =>
    make("tr", {}, make("td", {}, keyButton(key, choose)), make("td", { class: "number" }, error == null ? "–" : ratio(error))))));
}

export function keys(place, told, part, choose) {
  const { names, matching } = told, left = matching - names.length;
  const note = left > 0 ? `The first ${names.length} of ${count(matching)}: type a part of a key above to see fewer.`
    : `${count(matching)} keys${part ? ` with “${part}”` : ""}.`;
  place.replaceChildren(make("p", { class: "note" }, note), ...names.map((key) => keyButton(key, choose)));
}

export function alarms(place, told, choose) {
  if (!told.length) return empty(place, "No alarm yet.");
  place.replaceChildren(table("Open alarms, then the newest that are over", [["time"], ["key"], ["what changed"]], told.map((one) => {
    const columns = one.columns.filter((moved) => !moved.includes(null)).map(([name, shift, before, after]) => one.watch === "stuck"
      ? `${name} stands still at ${ratio(after)}` : `${name} ${shift > 0 ? "+" : "−"}${ratio(Math.abs(shift))} sd (${ratio(before)} → ${ratio(after)})`).join(", ");
    const figures = one.before == null || one.after == null ? one.value == null ? "" : ` ${ratio(one.value)}` : ` ${ratio(one.before)} → ${ratio(one.after)}`;
    const what = columns || one.watch + figures, since = one.since == null ? [] : [`since ${moment(one.since)}`];
    const beside = new Set([one.detector, ...(columns ? [one.watch + figures] : []), ...since]);
    beside.delete(what);
    const changed = make("td", {}, what, make("small", {}, [...beside].join(", ")));
    const who = make("td", {}, keyButton(one.key, choose), ...(one.id ? [make("small", { class: "id" }, one.id)] : []));
    const at = moment(one.time); // as in the alarm's record
    return make("tr", {}, make("td", { class: "time" }, ...(one.open ? ended(one) : []), at, ...(one.open ? [] : ended(one))), who, changed);
  })));
}

function ended(one) {
  if (!one.id || one.outcome === "at once") return [];
  if (one.open) return [make("strong", { class: "open" }, "open")];
  if (one.outcome == null) return [make("small", {}, "open, key not in memory")];
  return [make("small", {}, `ended after ${seconds(Math.max(0, one.end - one.time))}`), make("small", {}, one.outcome)];
}

export function letters(place, told, topic) {
  if (!told.length) return empty(place, "No dead letters yet.");
  place.replaceChildren(table(`Newest dead letters, of topic ${topic}`, [["time"], ["key"], ["reason"]], told.map((one) =>
    make("tr", {}, make("td", { class: "time" }, clock(one.at)), make("td", {}, one.key || "(no key)"),
      make("td", {}, `${one.reason}, partition ${one.partition}, offset ${one.offset}`, make("small", {}, one.message))))));
}

export function asked(place, answer) {
  if (!answer.states) return place.replaceChildren(elsewhere(answer));
  place.replaceChildren(...answer.states.flatMap(state));
}

function state(one) {
  const facts = [
    ["Rows", `${count(one.rows)} of this key, ${count(one.seen)} seen`],
    ["Partition", String(one.partition)],
    ["Last applied", Object.entries(one.offsets).map(([name, at]) => `${name} ${at}`).join(", ") || "none yet"],
    ["Newest sample", one.event_time == null ? "–" : moment(one.event_time)],
    ["LS error", one.ls_error == null ? "not kept in the state" : `${ratio(one.ls_error)}, mean of ${one.ls_error_over}`],
    ["State", bytes(one.bytes)],
    ["Labels", Object.entries(one.classes).map(([name, rows]) => `${name} ${count(rows)}`).join(", ") || "none"],
  ];
  const list = make("dl", { class: "facts" }, ...facts.map(([name, text]) =>
    make("div", { class: text.length > 60 ? "whole" : "" }, make("dt", {}, name), make("dd", {}, text))));
  const rows = one.fields.map((field) => make("tr", {}, make("td", {}, field.stage), make("td", {}, field.name),
    make("td", { class: "number" }, field.shape.join(" × ") || "1"), make("td", { class: "number" }, bytes(field.bytes)),
    make("td", { class: "number" }, field.norm == null ? "–" : ratio(field.norm)),
    make("td", {}, field.value == null ? "" : JSON.stringify(field.value))));
  const heads = [["stage"], ["field"], ["shape", "number"], ["size", "number"], ["norm", "number"], ["value"]];
  const all = make("div", { class: "scroll tall", role: "region", "aria-label": "Fields of the state", tabindex: "0" }, table("Fields of the state", heads, rows));
  return [list, make("details", {}, make("summary", {}, `All ${one.fields.length} fields of the state`), all)];
}

function elsewhere(answer) {
  const made = make("div", {}, make("p", {}, `This worker: ${answer.reason ?? "no answer"}.`));
  if (answer.partition != null) made.append(make("p", {}, `By its hash the key belongs to partition ${answer.partition} of ${answer.partitions}.`));
  for (const one of answer.workers ?? []) {
    const where = `${one.client} at ${one.host}: partitions ${one.partitions.join(", ") || "none"}`;
    made.append(make("p", { class: "note" }, one.likely ? `${where}, probably this one` : where));
  }
  return made;
}
