// Takes the worker's events and keeps what the page shows: everything when it connects, then what each second adds.
import { Charts } from "./charts.js";
import { Forecasts } from "./forecasts.js";
import { count, percent, ratio, seconds } from "./format.js";
import { People } from "./people.js";
import * as tables from "./tables.js";

const CELLS = 120, POINTS = 900;
const OLD = 15; // seconds without rows, or an answer of a broker, after which the last figures are not those of now
const place = (id) => document.getElementById(id);
const store = { about: {}, columns: {}, people: new Map(), classes: [], chosen: "" };
const charts = new Charts(place("charts"));
const people = new People(place("people"), place("classes"), place("people-note"), choose);
const forecasts = new Forecasts(place("asked-forecasts"));
const TILES = ["Open alarms", "Lag", "Event delay", "Skipped", "Dead letters", "Records per second", "Predicted right", "LS error", "Keys"];
const tiles = TILES.map((name) => {
  const value = tables.make("p", { class: "value" }, "–"), note = tables.make("p", { class: "note" }, "\u00a0");
  const tile = tables.make("div", { class: "tile" }, tables.make("h2", {}, name), value, note);
  place("tiles").append(tile);
  return { tile, value, note };
});
let events = null, worstTold = "", askedAt = 0, typing = 0;

function connect() {
  events?.close();
  const query = store.chosen ? `?key=${encodeURIComponent(store.chosen)}` : "";
  events = new EventSource(`events${query}`);
  events.addEventListener("full", (event) => full(JSON.parse(event.data)));
  events.addEventListener("tick", (event) => tick(JSON.parse(event.data)));
  events.onerror = () => lost(events);
}

function full(told) {
  store.about = told.about;
  store.columns = Object.fromEntries(told.about.series.map((name, at) => [name, told.points.map((point) => point[at])]));
  store.people = new Map();
  store.confusion = null;
  take(told);
}

function tick(told) {
  store.about.series.forEach((name, at) => {
    store.columns[name].push(told.point[at]);
    if (store.columns[name].length > POINTS) store.columns[name].shift();
  });
  take(told);
}

function take(told) {
  const length = store.columns.time.length, before = store.people;
  store.people = new Map(told.people.map((one) => {
    const known = one.new ? null : before.get(one.key);
    const errors = known?.errors ?? new Array(length).fill(null);
    if (known) {
      errors.push(one.error);
      while (errors.length > length) errors.shift();
    } else {
      for (const [at, error] of one.errors ?? []) errors[at] = error;
    }
    const cells = [...(known?.cells ?? []), ...one.cells].slice(-CELLS);
    return [one.key, { ...one, cells, errors }];
  }));
  store.classes = told.classes;
  Object.assign(store, { health: told.health, totals: told.totals, doubts: told.doubts });
  if (told.confusion) store.confusion = told.confusion;
  if (told.confusion) tables.confusion(place("confusion"), place("confusion-note"), told.confusion);
  if (told.alarms) tables.alarms(place("alarms"), told.alarms, choose);
  if (told.letters) tables.letters(place("letters"), told.letters, store.about.dlq);
  panel("alarms", store.about.alarms);
  panel("confusion", store.about.labels && store.confusion?.labels);
  panel("letters", store.totals.letters);
  panel("worst", told.worst.length);
  const worst = JSON.stringify(told.worst);
  if (worst !== worstTold) tables.worst(place("worst"), told.worst, choose);
  worstTold = worst;
  if (!document.hidden) draw();
  if (store.chosen && performance.now() - askedAt > 5000) ask();
}

function panel(name, shown) { // nothing to show, no panel
  place(name).closest("section").hidden = !shown;
}

function draw() {
  if (!store.columns.time) return;
  charts.draw({ ...store.columns, chosen: store.people.get(store.chosen)?.errors }, store.chosen);
  people.draw(store.people, store.classes, store.chosen, { ...store.about, keys: store.totals.keys });
  header();
  figures();
  if (!place("keys").children.length && store.people.size) list();
}

async function list() { // of all keys in memory, those with what is typed
  const part = place("key").value === store.chosen ? "" : place("key").value;
  const told = await fetch(`api/keys?part=${encodeURIComponent(part)}`).then((answer) => answer.json()).catch(() => null);
  if (!told) return;
  place("keys").replaceChildren(...told.names.map((key) => tables.make("option", { value: key })));
  tables.keys(place("listed"), told, part, choose);
}

function header() {
  const { about, health, totals } = store;
  document.title = `${about.job} · streamjobs`;
  place("job").textContent = about.job;
  const held = health.partitions, all = about.partitions;
  const mine = all == null || !held.length ? "no partitions yet"
    : held.length === all ? (all > 1 ? `all ${all} partitions` : "the one partition")
    : `partition${held.length > 1 ? "s" : ""} ${held.join(", ")} of ${all}; other workers have pages of their own`;
  place("about").textContent = `topic ${about.topic} · ${about.model} · this worker: ${mine} · up ${seconds(totals.uptime)}`;
  place("version").textContent = `streamjobs ${about.version}`;
  say(health.healthy ? (health.state === "running" ? "running" : health.state) : health.state === "running" ? "stalled" : health.state,
    health.healthy ? (health.state === "running" ? "good" : "warn") : "bad");
  const aside = health.keys_set_aside;
  const told = aside ? [`${count(aside)} ${aside > 1 ? "keys are" : "key is"} set aside: the state cannot be read or `
    + "written, and the records become dead letters with reason state. 'streamjobs dlq list JOB --reason state' names them."] : [];
  trouble(health.reason || [...told, ...store.doubts].join(" "));
}

function figures() {
  const newest = Object.fromEntries(Object.entries(store.columns).map(([name, values]) => [name, values.at(-1)]));
  const { about, totals, health, confusion } = store, optional = (value, show) => (value == null ? "–" : show(value));
  const tile = (name, show, what) => {
    const at = store.columns[`${name}_p50`].findLastIndex((value) => value != null);
    if (at < 0) return ["–", `${what}p99 –`];
    const [middle, tail] = ["p50", "p99"].map((part) => optional(store.columns[`${name}_${part}`][at], show));
    const age = newest.time - store.columns.time[at];
    return age > OLD ? ["–", `${middle}, ${seconds(Math.round(age))} ago`] : [middle, `${what}p99 ${tail}`];
  };
  const right = confusion?.pairs.reduce((sum, [label, predicted, rows]) => sum + (label === predicted ? rows : 0), 0);
  const commit = health.last_commit_age_seconds;
  const reasons = (counts) => Object.entries(counts).map(([reason, letters]) => `${count(letters)} ${reason}`).join(", ");
  const skipped = Object.values(totals.skipped).reduce((sum, samples) => sum + samples, 0);
  const behind = newest.records > 0 && newest.lag > newest.records ? `, ${seconds(newest.lag / newest.records)} at this speed` : "";
  const warming = totals.warming_up ? `; ${count(totals.warming_up)} ${totals.warming_up > 1 ? "keys" : "key"} cannot alarm yet${about.needed ? `: each needs at least ${about.needed}` : ""}` : "";
  const errors = store.columns.error_p50.some((value) => value != null);
  const figure = {
    "Open alarms": about.alarms && [count(totals.in_alarm), `${totals.in_alarm === 1 ? "key" : "keys"}; ${count(totals.alarms)} raised in ${count(totals.rows)} rows${warming}`, totals.in_alarm ? "bad" : ""],
    "Lag": [optional(newest.lag, count), totals.silent > OLD ? `as of ${seconds(Math.round(totals.silent))} ago: no broker answers`
      : newest.recovery ? `${count(newest.recovery)} to recover` : commit == null ? "nothing committed yet" : `committed ${seconds(Math.max(0.1, commit))} ago${behind}`],
    "Event delay": tile("delay", seconds, "event to Kafka; "),
    "Skipped": [count(skipped), reasons(totals.skipped) || "no sample is late or missing", store.doubts.length ? "bad" : ""],
    "Dead letters": [count(totals.letters), reasons(totals.reasons) || `of ${count(totals.records)} records`, totals.letters ? "bad" : ""],
    "Records per second": [optional(newest.records, count), `${optional(newest.rows, count)} rows per second`],
    "Predicted right": about.labels && (confusion?.rmse != null ? [ratio(confusion.rmse), `root mean squared error${tables.controls(confusion)}`]
      : [confusion?.counted ? percent(right, confusion.counted) : "–", `of ${count(confusion?.labels ?? 0)} labels${tables.controls(confusion)}`]),
    "LS error": errors && tile("error", ratio, "median; "),
    "Keys": [count(totals.keys), `in memory; cpu ${Math.round(100 * (newest.cpu ?? 0))} %`],
  };
  TILES.forEach((name, at) => {
    const [value, note, kind] = figure[name] || ["", ""];
    tiles[at].tile.hidden = !figure[name];
    tiles[at].value.textContent = value;
    tiles[at].value.className = `value ${kind ?? ""}`;
    tiles[at].note.textContent = note;
  });
}

function say(text, kind) {
  const state = place("state");
  if (state.textContent !== text) state.textContent = text;
  state.className = `state ${kind}`;
}

function trouble(text) {
  place("trouble").hidden = !text;
  if (place("trouble").textContent !== text) place("trouble").textContent = text;
}

async function lost(source) { // a browser connects again by itself, but not after the answer of a proxy in front of the worker
  const closed = source.readyState === EventSource.CLOSED;
  const refused = closed && [401, 421].includes(await fetch("api/keys?part=").then((answer) => answer.status).catch(() => 0));
  if (source !== events) return;
  if (closed && !refused) setTimeout(() => source === events && connect(), 5000);
  say(refused ? "not connected" : "connecting", "warn");
  trouble(refused ? "The worker refuses this page: reload it, and log in again if it asks for the token."
    : "The worker has ended or cannot be reached. These are its last figures; the page connects again by itself.");
}

function choose(key) {
  store.chosen = store.chosen === key ? "" : key;
  place("key").value = store.chosen;
  place("asked").hidden = !store.chosen;
  place("asked-body").replaceChildren();
  forecasts.draw(null);
  draw();
  connect();
  if (store.chosen) ask();
}

async function ask() {
  const key = store.chosen;
  askedAt = performance.now();
  place("asked-title").textContent = `Key ${key}`;
  try {
    const answer = await fetch(`api/keys/${encodeURIComponent(key)}`);
    const told = await answer.json();
    const open = place("asked-body").querySelector("details")?.open;
    if (key !== store.chosen) return;
    tables.asked(place("asked-body"), told);
    forecasts.draw(told.states?.find((one) => one.forecasts)?.forecasts ?? null);
    const details = place("asked-body").querySelector("details");
    if (open && details) details.open = true;
  } catch (error) {
    if (!place("asked-body").children.length) place("asked-body").textContent = "The worker did not answer.";
  }
}

place("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = place("key").value;
  if (key && key !== store.chosen) choose(key);
});
place("close").addEventListener("click", () => store.chosen && choose(store.chosen));
for (const button of document.querySelectorAll(".range button")) {
  button.addEventListener("click", () => {
    charts.range = Number(button.dataset.seconds);
    document.querySelectorAll(".range button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
    draw();
  });
}
new ResizeObserver(() => tables.fade(place("confusion"))).observe(place("confusion"));
place("confusion").addEventListener("scroll", () => tables.fade(place("confusion")));
place("key").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(list, 250);
});
place("list").addEventListener("click", () => {
  place("listed").hidden = !place("listed").hidden;
  place("list").setAttribute("aria-expanded", String(!place("listed").hidden));
  if (!place("listed").hidden) list();
});
document.addEventListener("visibilitychange", () => document.hidden || draw());
connect();
