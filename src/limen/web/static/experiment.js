// One experiment: controls, figure, numbers, verdict. Theory follows every movement; simulation comes when asked for.

import { getJSON, Run } from "./api.js";
import { Controls } from "./controls.js";
import { Plots, preload } from "./plots.js";
import { Questions } from "./questions.js";
import { duration, numbers, reference, TEMPLATE } from "./sheet.js";

const SETTLE = 30;
const VERDICTS = { agrees: "✓", disagrees: "✗", "cannot tell": "?" };

export async function showExperiment(main, name, query, remember) {
  preload();
  const schema = await getJSON(`/api/experiments/${encodeURIComponent(name)}`);
  const view = new View(main, schema, query, remember);
  view.ask(0);
  if (query.get("run") === "1") view.simulate();
  return view;
}

class View {
  constructor(main, schema, query, remember) {
    this.schema = schema;
    this.remember = remember;
    document.title = `${schema.title} · limen`;
    main.className = "experiment";
    main.innerHTML = TEMPLATE;
    this.part = (selector) => main.querySelector(selector);
    this.part("h1").textContent = schema.title;
    this.part(".source").textContent = schema.source;
    this.part(".summary").textContent = schema.summary;
    // Prose and mathematics come from limen's own docstrings, escaped on the server.
    this.part(".about").innerHTML = schema.about;
    this.part(".look").innerHTML = schema.look_for;
    this.part(".words").hidden = !schema.about;
    this.part(".bibtex").href = `/api/experiments/${schema.name}/bibtex`;
    this.part(".references ul").append(...schema.references.map(reference));
    this.controls = new Controls(schema.parameters, parametersOf(schema, query), () => this.moved());
    this.part(".parameters").append(this.controls.element);
    this.seeds = this.part("#seeds");
    this.seeds.max = schema.seeds.maximum;
    this.seeds.value = Number(query.get("seeds")) || schema.seeds.default;
    this.seeds.addEventListener("input", () => this.keep());
    this.plots = new Plots(this.part(".panels"));
    this.part("#simulate").addEventListener("click", () => this.simulate());
    this.part("#cancel").addEventListener("click", () => this.cancel());
    this.part("#reset").addEventListener("click", () => this.preset({}, schema.seeds.default));
    this.part("#quick").addEventListener("click", () => this.preset(schema.quick, schema.seeds.quick));
    this.part("#link").addEventListener("click", () => this.share());
    this.part("#pin").addEventListener("click", () => this.pin());
    this.part("#unpin").addEventListener("click", () => this.unpin());
    for (const name of ["x", "y"]) {
      const button = this.part(`#scale-${name}`);
      button.addEventListener("click", () => {
        button.textContent = `${name} axis: ${this.plots.scale(name)}`;
      });
    }
    this.part("#curves").addEventListener("click", () => this.plots.save(`limen-${schema.name}.csv`));
    this.questions = new Questions(this.part(".questions"), () => this.body(0), (changes) => this.take(changes));
    this.own = schema.parameters.some(({ kind }) => kind === "file");
    main.classList.toggle("own-problem", this.own);
    if (!this.own) this.questions.offer(["grid"], schema.parameters.filter(isNumber), [], 0);
    // Curves and what is told of a problem come by two ways, in either order.
    this.controls.element.addEventListener("told", () => this.offered());
    this.keys = (event) => this.pressed(event);
    document.addEventListener("keydown", this.keys);
    this.simulated = query.get("run") === "1";
    this.idle();
  }

  leave = () => {
    clearTimeout(this.timer);
    clearInterval(this.waiting);
    document.removeEventListener("keydown", this.keys);
    this.theory?.cancel();
    this.run?.cancel();
    this.plots.close();
    this.questions.leave();
  };

  pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target.matches?.("input:not([type=range]):not([type=checkbox]), select, textarea");
    if (event.key === "Escape") this.cancel();
    else if (event.key === "s" && !typing) this.simulate();
    else if (event.key === "Enter" && event.target.closest?.(".controls")) this.simulate();
  }

  preset(values, seeds) {
    this.controls.fill(values);
    this.seeds.value = seeds;
    this.moved();
  }

  moved() {
    this.movedAt = performance.now();
    this.simulated = false;
    this.drawnSimulation = false;
    if (this.run) this.cancel();
    this.keep();
    this.ask(SETTLE);
  }

  keep() {
    const values = new URLSearchParams();
    for (const { name, default: normal } of this.schema.parameters) {
      const value = JSON.stringify(this.controls.values[name]);
      if (value !== JSON.stringify(normal)) values.set(name, value);
    }
    if (Number(this.seeds.value) !== this.schema.seeds.default) values.set("seeds", this.seeds.value);
    if (this.simulated) values.set("run", "1");
    const text = values.toString();
    this.remember(`#/${this.schema.name}${text ? `?${text}` : ""}`);
  }

  body(seeds) {
    return { experiment: this.schema.name, parameters: { ...this.controls.values }, seeds };
  }

  ask(delay) {
    clearTimeout(this.timer);
    if (this.controls.message) {
      this.theory?.cancel();
      clearInterval(this.waiting);
      this.say(this.controls.message, "bad");
      return;
    }
    this.timer = setTimeout(() => this.predict(), delay);
  }

  predict() {
    this.theory?.cancel();
    const from = this.movedAt ?? performance.now();
    this.part(".panels").classList.add("stale");
    clearInterval(this.waiting);
    const began = performance.now();
    let first = false;
    // From a second on it says how long, and shows the gallery's picture where there is none yet.
    const slow = this.waiting = setInterval(() => {
      const seconds = Math.round((performance.now() - began) / 1000);
      const what = first ? "coarse curves; computing the theory…" : "computing theory…";
      if (!this.run) this.say(seconds ? `${what} ${seconds} s` : what);
      if (seconds) this.meanwhile();
    }, 250);
    this.theory = new Run(this.body(0), async (kind, data) => {
      if (kind === "preliminary") {
        if (this.drawnSimulation) return;
        first = true;
        await this.show(data);
      } else if (kind === "theory") {
        clearInterval(slow);
        // It may come after the simulation of the same parameters, which shows more.
        if (this.drawnSimulation) return;
        await this.show(data);
        this.verdict(null);
        const took = Math.round(performance.now() - from);
        this.part(".panels").dataset.redraw = took;
        this.part(".panels").dataset.drawn = Number(this.part(".panels").dataset.drawn ?? 0) + 1;
        if (!this.run) this.say(`theory redrawn in ${took} ms`);
      } else if (kind === "failed") {
        clearInterval(slow);
        this.say(data.message, "bad");
      } else if (kind === "queued" && (data.ahead || data.busy)) {
        this.say(data.busy ?? `theory waits behind ${data.ahead}`);
      } else {
        this.connection(kind);
      }
    });
  }

  simulate() {
    if (this.controls.message) {
      this.say(this.controls.message, "bad");
      return;
    }
    const seeds = Math.min(this.schema.seeds.maximum, Math.max(1, Math.round(Number(this.seeds.value) || 1)));
    this.seeds.value = seeds;
    this.run?.cancel();
    this.simulated = true;
    this.drawnSimulation = false;
    this.keep();
    this.busy(true);
    this.verdict(null);
    this.progress(0, seeds);
    this.say("waiting for a free process…");
    this.run = new Run(this.body(seeds), (kind, data) => this.heard(kind, data));
  }

  async heard(kind, data) {
    if (kind === "queued") {
      this.say(data.busy ?? (data.ahead ? `waiting behind ${data.ahead} others…` : "computing theory…"));
    } else if (kind === "theory") {
      this.say("simulating…");
      if (!this.drawnSimulation) await this.show(data);
    } else if (kind === "seeds") {
      this.progress(data.done, data.total);
      this.say(`${data.done} of ${data.total} seeds${data.left === undefined ? "" : `, ${duration(data.left)} left`}`);
      if (data.figure) {
        this.drawnSimulation = true;
        await this.show(data);
      }
    } else if (kind === "done") {
      this.drawnSimulation = true;
      this.idle();
      this.progress(data.total, data.total);
      await this.show(data);
      this.verdict(data.comparison, data.identifier);
      this.say(`${data.total} seeds done`);
    } else if (kind === "failed") {
      this.idle();
      this.say(data.message, "bad");
    } else if (kind === "cancelled") {
      this.idle();
      this.say("cancelled; finished seeds are kept");
    } else {
      this.connection(kind);
    }
  }

  connection(kind) {
    if (kind === "away") this.say("no connection; the page goes on when it is back", "bad");
    if (kind === "back") this.say("connected again");
  }

  cancel() {
    if (!this.run) return;
    this.run.cancel();
    this.idle();
    this.simulated = false;
    this.keep();
    this.say("cancelled; finished seeds are kept");
  }

  idle() {
    this.run = undefined;
    this.busy(false);
  }

  busy(running) {
    this.part("#cancel").hidden = !running;
    this.part("#simulate").hidden = running;
    this.part("progress").hidden = !running;
  }

  progress(done, total) {
    const bar = this.part("progress");
    bar.max = total;
    bar.value = done;
  }

  say(text, tone = "") {
    const line = this.part(".status");
    line.textContent = text;
    line.dataset.tone = tone;
  }

  meanwhile() {
    const picture = this.part(".meanwhile");
    if (this.plots.figure || !picture.hidden) return;
    if (this.own) picture.querySelector("figcaption").textContent = "the template's own curves, while yours are computed";
    picture.hidden = false;
    picture.querySelector("img").src = `/api/experiments/${this.schema.name}/thumbnail.svg`;
  }

  async show(data) {
    this.part(".meanwhile").hidden = true;
    this.part(".panels").classList.toggle("coarse", Boolean(data.preliminary));
    this.part(".figure-title").innerHTML = data.figure.title;
    this.part(".caption").innerHTML = data.figure.caption;
    numbers(this.part(".numbers tbody"), data);
    this.part(".trust").textContent = data.status ? `${data.ok ? "Theory: " : "Take care: "}${data.status}` : "";
    this.part(".trust").dataset.tone = data.ok ? "" : "bad";
    this.headline = data.headline;
    if (this.own) this.offered();
    await this.plots.draw(data.figure);
    this.part(".panels").classList.remove("stale");
    if (data.key) this.part("#prediction").href = `/api/predictions/${data.key}`;
    if (data.key || data.preliminary) this.part("#prediction").hidden = !data.key;
  }

  // What more can be asked of a problem of one's own follows its text and its curves.
  offered() {
    const told = this.controls.fields.get("problem")?.told;
    if (!told || !this.headline) return;
    const size = this.schema.parameters.filter(({ name }) => name === "d" && !told.has_size);
    const goals = Object.keys(this.headline.theory).filter((name) => !name.startsWith("best_"));
    this.questions.offer(told.questions, [...told.controls.filter(isNumber), ...size], goals, this.controls.values.times);
  }

  take(changes) {
    this.controls.fields.get("problem").change(changes);
    window.scrollTo({ top: 0, behavior: "smooth" });
  }

  verdict(comparison, identifier) {
    const badge = this.part(".verdict");
    badge.hidden = !comparison;
    this.part(".downloads").hidden = !identifier;
    if (!comparison) return;
    badge.dataset.verdict = comparison.verdict;
    badge.querySelector("strong").textContent = VERDICTS[comparison.verdict];
    badge.querySelector("span").textContent = comparison.sentence;
    for (const link of this.part(".downloads").querySelectorAll("a")) {
      link.href = `/api/results/${identifier}/${link.dataset.file}`;
    }
    this.part(".identifier").textContent = identifier;
  }

  pin() {
    // What differs from the defaults names the curves.
    const moved = this.schema.parameters.filter(({ name, kind, default: normal }) =>
      kind !== "file" && JSON.stringify(this.controls.values[name]) !== JSON.stringify(normal));
    const label = moved.map(({ name }) => `${name} = ${this.controls.values[name]}`).join(", ");
    const count = this.plots.pins.length + 1;
    this.plots.pin(label || `pinned ${count}`);
    this.part("#unpin").hidden = false;
    this.say(`pinned: ${label || `curves ${count}`}; move a parameter to lay others over them`);
  }

  unpin() {
    this.plots.unpin();
    this.part("#unpin").hidden = true;
  }

  async share() {
    this.keep();
    try {
      await navigator.clipboard.writeText(location.href);
      this.say("link copied");
    } catch {
      this.say(location.href);
    }
  }
}

function isNumber({ kind }) {
  return kind === "integer" || kind === "number";
}

function parametersOf(schema, query) {
  const values = {};
  for (const { name, kind } of schema.parameters) {
    if (!query.has(name)) continue;
    const text = query.get(name);
    try {
      values[name] = JSON.parse(text);
    } catch {
      values[name] = kind === "list" ? text.split(",").map(Number) : text;
    }
  }
  return values;
}
