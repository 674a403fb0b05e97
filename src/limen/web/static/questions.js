// Further questions below the figure: a grid over parameters, the best parameters, thresholds, the Hessian.

import { Run } from "./api.js";
import { Plots } from "./plots.js";

const WORDS = {
  grid: ["A grid over one or two parameters", "Theory at every point, and training beside it where seeds are asked for. What is finished is kept: the same grid again goes on.", "Draw the grid"],
  tune: ["The best parameters", "A bounded search on the theory for the smallest value of a variable at the last time.", "Find the best"],
  thresholds: ["Thresholds", "Hard directions, how many samples per dimension they need, and how likely training finds them. About half a minute.", "Report"],
  hessian: ["Hessian", "Its spectrum before training and at the last step, as the sizes go to infinity.", "Draw the spectrum"],
};
const FEWEST = { grid: 9 };

export class Questions {
  // `body()` is what a run would be asked with; `apply(changes)` takes over what was found best.
  constructor(element, body, apply) {
    this.element = element;
    this.body = body;
    this.apply = apply;
    this.open = new Map();
  }

  // `kinds` of questions, `numbers` that may stand on an axis, `goals` that may be made small, the last `time`.
  offer(kinds, numbers, goals, time) {
    this.numbers = numbers;
    this.goals = goals;
    this.time = time;
    for (const kind of Object.keys(WORDS)) {
      if (kinds.includes(kind) && numbers.length && !this.open.has(kind)) this.open.set(kind, new Question(kind, this));
      const there = this.open.get(kind);
      if (there) {
        there.element.hidden = !kinds.includes(kind);
        there.refill();
      }
    }
    this.element.replaceChildren(...[...this.open.values()].map((question) => question.element));
    this.element.hidden = ![...this.open.values()].some((question) => !question.element.hidden);
  }

  leave() {
    for (const question of this.open.values()) question.leave();
  }
}

class Question {
  constructor(kind, all) {
    this.kind = kind;
    this.all = all;
    const [title, words, verb] = WORDS[kind];
    this.element = document.createElement("details");
    this.element.className = `question ${kind}`;
    this.element.innerHTML = `
      <summary>${title}</summary>
      <p class="said-of">${words}</p>
      <form class="asking">${FORMS[kind] ?? ""}<span class="row"><button class="primary ask">${verb}</button>
        <button type="button" class="stop" hidden>Stop</button></span></form>
      <progress hidden aria-label="part of the answer that is there"></progress>
      <p class="told" role="status" aria-live="polite"></p>
      <label class="which" hidden>shown <select></select></label>
      <div class="drawn" hidden></div>
      <pre class="said" hidden></pre>
      <p class="row small after" hidden><button type="button" class="take" hidden>Take these parameters</button>
        <button type="button" class="table" hidden>Table (CSV)</button></p>`;
    this.part = (selector) => this.element.querySelector(selector);
    for (const field of this.element.querySelectorAll("[data-field]")) {
      field.name = field.dataset.field;
      field.setAttribute("aria-label", `${title}: ${field.dataset.says}`);
    }
    this.plots = new Plots(this.part(".drawn"));
    this.part("form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    // Enter and letters belong to the form here.
    this.element.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
    this.part(".stop").addEventListener("click", () => this.stop("stopped; what is finished is kept"));
    this.part(".take").addEventListener("click", () => this.all.apply(this.changes));
    this.part(".table").addEventListener("click", () => this.plots.save(`limen-${kind}.csv`));
    this.part(".which select").addEventListener("change", () => this.ask(this.part(".which select").value));
    for (const select of this.element.querySelectorAll("select.parameter")) {
      select.addEventListener("change", () => this.suggest(select));
    }
  }

  // The parameters as they are now; a choice that is still there stays.
  refill() {
    const numbers = this.kind === "tune" ? [...this.all.numbers, timeControl(this.all.time)] : this.all.numbers;
    this.known = new Map(numbers.map((one) => [one.name, one]));
    for (const select of this.element.querySelectorAll("select.parameter")) {
      const names = [...(select.dataset.field === "second" ? [""] : []), ...this.known.keys()];
      options(select, names, (name) => name || "no second parameter");
      if (!select.dataset.suggested) this.suggest(select);
    }
    const goal = this.part("select.goal");
    if (goal) options(goal, this.all.goals, (name) => name.replaceAll("_", " "));
  }

  suggest(select) {
    const which = select.dataset.field;
    const control = this.known.get(select.value);
    for (const field of this.element.querySelectorAll(`[data-of=${which}]`)) field.disabled = !control;
    if (!control) return;
    select.dataset.suggested = "1";
    const { low, high, scale } = control.slider;
    const set = (name, value) => {
      const field = this.part(`[data-field=${which}-${name}]`);
      if (field) field.value = value;
    };
    set("low", neat(low, control));
    set("high", neat(high, control));
    set("count", FEWEST.grid);
    set("scale", scale);
  }

  value(name) {
    return this.part(`[data-field=${name}]`)?.value ?? "";
  }

  settings(quantity) {
    const number = (name) => (this.value(name) === "" ? null : Number(this.value(name)));
    const chosen = ["first", "second"].filter((which) => this.value(which));
    if (this.kind === "grid") {
      return {
        axes: chosen.map((which) => ({
          name: this.value(which), low: number(`${which}-low`), high: number(`${which}-high`),
          count: number(`${which}-count`), scale: this.value(`${which}-scale`),
        })),
        seeds: number("seeds") ?? 0,
        ...(quantity ? { quantity } : {}),
      };
    }
    if (this.kind === "tune") {
      return {
        over: chosen.map((which) => ({ name: this.value(which), low: number(`${which}-low`), high: number(`${which}-high`) })),
        goal: this.value("goal"),
      };
    }
    return {};
  }

  ask(quantity) {
    this.stop("");
    const { experiment, parameters } = this.all.body();
    const began = performance.now();
    this.busy(true);
    this.clock = setInterval(() => {
      if (!this.told) this.say(`computing… ${Math.round((performance.now() - began) / 1000)} s`);
    }, 500);
    this.told = false;
    this.run = new Run({ kind: this.kind, experiment, parameters, settings: this.settings(quantity) },
      (kind, data) => this.heard(kind, data), "/api/questions");
  }

  async heard(kind, data) {
    if (kind === "seeds") {
      this.told = true;
      const bar = this.part("progress");
      bar.max = data.total;
      bar.value = data.done;
      this.say(`${data.done} of ${data.total} results${data.left === undefined ? "" : `, about ${Math.max(1, Math.round(data.left))} s left`}`);
      if (data.figure) await this.draw(data);
    } else if (kind === "done") {
      this.busy(false);
      this.say("done");
      await this.draw(data);
    } else if (kind === "failed") {
      this.busy(false);
      this.say(data.message, "bad");
    } else if (kind === "away") {
      this.say("no connection; the page goes on when it is back", "bad");
    } else if (kind === "queued" && (data.ahead || data.busy)) {
      this.say(data.busy ?? `waiting behind ${data.ahead} others…`);
    }
  }

  async draw(data) {
    const said = this.part(".said");
    said.hidden = !data.text;
    said.textContent = data.text ?? "";
    const which = this.part(".which");
    which.hidden = !data.quantities || data.quantities.length < 2;
    if (data.quantities) {
      options(which.querySelector("select"), data.quantities, (name) => name.replace("headline_", "").replaceAll("_", " "));
      which.querySelector("select").value = data.quantity;
    }
    this.changes = data.changes;
    this.part(".take").hidden = !data.changes || !Object.keys(data.changes).length;
    this.part(".table").hidden = !data.figure;
    this.part(".after").hidden = this.part(".take").hidden && this.part(".table").hidden;
    this.part(".drawn").hidden = !data.figure;
    if (data.figure) await this.plots.draw(data.figure);
  }

  busy(running) {
    clearInterval(this.clock);
    this.part(".ask").disabled = running;
    this.part(".stop").hidden = !running;
    this.part("progress").hidden = !running || this.kind !== "grid";
    if (running) this.part("progress").removeAttribute("value");
  }

  stop(words) {
    if (this.run && !this.run.over) {
      this.run.cancel();
      this.say(words);
    }
    this.busy(false);
  }

  say(text, tone = "") {
    const line = this.part(".told");
    line.textContent = text;
    line.dataset.tone = tone;
  }

  leave() {
    this.stop("");
    this.plots.close();
  }
}

function timeControl(time) {
  return { name: "time", kind: "number", slider: { low: 0, high: time, scale: "linear" } };
}

function neat(value, control) {
  return control.kind === "integer" ? Math.round(value) : Number(value.toPrecision(3));
}

function options(select, names, words) {
  const before = select.value;
  if ([...select.options].map(({ value }) => value).join("\n") === names.join("\n")) return;
  select.replaceChildren(...names.map((name) => new Option(words(name), name)));
  if (names.includes(before)) select.value = before;
  else delete select.dataset.suggested;
}

const axis = (which, says, grid) => `
  <fieldset class="axis"><legend>${says}</legend>
    <select class="parameter" data-field="${which}" data-says="${says}"></select>
    <label>from <input type="number" step="any" data-of="${which}" data-field="${which}-low" data-says="${says}, from"></label>
    <label>to <input type="number" step="any" data-of="${which}" data-field="${which}-high" data-says="${says}, to"></label>
    ${grid ? `<label>values <input type="number" step="1" min="2" data-of="${which}" data-field="${which}-count" data-says="${says}, number of values"></label>
    <select data-of="${which}" data-field="${which}-scale" data-says="${says}, spacing"><option value="linear">evenly</option><option value="log">evenly in the logarithm</option></select>` : ""}
  </fieldset>`;
const FORMS = {
  grid: `${axis("first", "parameter", true)}${axis("second", "second parameter", true)}
    <label class="row">seeds per point (0: theory alone) <input type="number" min="0" step="1" value="0" data-field="seeds" data-says="seeds per point"></label>`,
  tune: `${axis("first", "parameter", false)}${axis("second", "second parameter", false)}
    <label class="row">make small <select class="goal" data-field="goal" data-says="what to make small"></select></label>`,
};
