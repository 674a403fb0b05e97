// One control per parameter, made from the schema: slider and number, choice, switch, list, or formula checked in typing.

import { postJSON } from "./api.js";
import { file } from "./problem.js";

const STEPS = 400;

export class Controls {
  // `changed(final)` is called at every movement.
  constructor(parameters, values, changed) {
    this.parameters = parameters;
    this.changed = changed;
    this.values = {};
    this.wrong = new Map();
    this.fields = new Map();
    this.element = document.createElement("form");
    this.element.className = "controls";
    this.element.addEventListener("submit", (event) => event.preventDefault());
    for (const parameter of parameters) {
      const field = make(parameter, (value, message) => this.set(parameter.name, value, message));
      this.fields.set(parameter.name, field);
      this.element.append(field.element);
    }
    this.fill(values);
  }

  fill(values) {
    this.wrong.clear();
    for (const parameter of this.parameters) {
      const value = values[parameter.name] ?? parameter.default;
      this.values[parameter.name] = value;
      this.fields.get(parameter.name).show(value);
    }
  }

  set(name, value, message) {
    if (message) this.wrong.set(name, message);
    else this.wrong.delete(name);
    if (!message) this.values[name] = value;
    this.changed();
  }

  get message() {
    return [...this.wrong.values()][0] ?? "";
  }
}

function make(parameter, tell) {
  const element = document.createElement("div");
  element.className = `control ${parameter.kind}`;
  const id = `p-${parameter.name}`;
  const label = document.createElement("label");
  label.htmlFor = id;
  // Labels come from the server's own descriptions, escaped there; only sub- and superscripts are markup.
  label.innerHTML = parameter.label;
  label.title = parameter.name;
  const note = document.createElement("p");
  note.className = "wrong";
  note.id = `${id}-note`;
  note.setAttribute("role", "alert");
  const complain = (text) => {
    note.textContent = text;
    element.classList.toggle("bad", Boolean(text));
  };
  const kinds = { integer: number, number, choice, switch: toggle, list, formula, text: plain, file };
  const made = kinds[parameter.kind](parameter, id, (value, message = "") => {
    complain(message);
    tell(value, message);
  }, complain);
  const { parts, show } = made;
  for (const part of parts) part.setAttribute("aria-describedby", note.id);
  if (parameter.kind === "switch") element.append(...parts, label, note);
  else element.append(label, ...parts, note);
  // A file has more to tell than its value.
  return Object.defineProperties({ element, show: (value) => { complain(""); show(value); }, change: made.change }, {
    told: { get: () => made.told?.() },
  });
}

function input(type, id) {
  const field = document.createElement("input");
  field.type = type;
  field.id = id;
  field.autocomplete = "off";
  field.spellcheck = false;
  return field;
}

function number(parameter, id, tell) {
  const { low, high, scale } = parameter.slider;
  const integer = parameter.kind === "integer";
  const slider = input("range", `${id}-slider`);
  slider.min = 0;
  slider.max = STEPS;
  slider.step = 1;
  slider.setAttribute("aria-label", `${parameter.name}, slider`);
  const field = input("number", id);
  field.step = integer ? 1 : "any";
  field.inputMode = integer ? "numeric" : "decimal";
  const place = (value) => {
    const part = scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return Math.round(STEPS * Math.min(1, Math.max(0, Number.isFinite(part) ? part : 0)));
  };
  const valueAt = (at) => {
    const part = at / STEPS;
    const value = scale === "log" ? low * (high / low) ** part : low + (high - low) * part;
    return integer ? Math.round(value) : Number(value.toPrecision(3));
  };
  const show = (value) => {
    field.value = value;
    slider.value = place(value);
    slider.setAttribute("aria-valuetext", String(value));
  };
  slider.addEventListener("input", () => {
    const value = valueAt(Number(slider.value));
    field.value = value;
    slider.setAttribute("aria-valuetext", String(value));
    tell(value);
  });
  field.addEventListener("input", () => {
    const value = Number(field.value);
    const message = field.value === "" ? `${parameter.name} needs a number` : outside(parameter, value, integer);
    if (!message) slider.value = place(value);
    tell(value, message);
  });
  return { parts: [slider, field], show };
}

function outside(parameter, value, integer) {
  const { name, minimum, maximum, above, below } = parameter;
  if (!Number.isFinite(value)) return `${name} must be a number`;
  if (integer && !Number.isInteger(value)) return `${name} must be a whole number`;
  if (minimum !== undefined && (value < minimum || (above && value === minimum))) {
    return `${name} must be ${above ? "above" : "at least"} ${minimum}`;
  }
  if (maximum !== undefined && (value > maximum || (below && value === maximum))) {
    return `${name} must be ${below ? "below" : "at most"} ${maximum}`;
  }
  return "";
}

function choice(parameter, id, tell) {
  const field = document.createElement("select");
  field.id = id;
  for (const value of parameter.choices) field.add(new Option(value, value));
  field.addEventListener("change", () => tell(field.value));
  return { parts: [field], show: (value) => { field.value = value; } };
}

function toggle(parameter, id, tell) {
  const field = input("checkbox", id);
  field.addEventListener("change", () => tell(field.checked));
  return { parts: [field], show: (value) => { field.checked = value; } };
}

function list(parameter, id, tell) {
  const field = input("text", id);
  field.inputMode = "decimal";
  field.addEventListener("input", () => {
    const values = field.value.split(/[\s,;]+/).filter(Boolean).map(Number);
    const good = values.length > 0 && values.every(Number.isFinite);
    tell(values, good ? "" : `${parameter.name} must be numbers such as 1, 4, 10`);
  });
  return { parts: [field], show: (value) => { field.value = [].concat(value).join(", "); } };
}

function formula(parameter, id, tell, complain) {
  const field = input("text", id);
  field.maxLength = 400;
  let asked = 0;
  field.addEventListener("input", async () => {
    const mine = (asked += 1);
    await new Promise((resolve) => setTimeout(resolve, 120));
    if (mine !== asked) return;
    try {
      const answer = await postJSON("/api/formula", { kind: parameter.name, formula: field.value });
      if (mine === asked) tell(field.value, answer.ok ? "" : answer.message);
    } catch {
      if (mine === asked) complain("the server does not answer");
    }
  });
  return { parts: [field], show: (value) => { asked += 1; field.value = value; } };
}

function plain(parameter, id, tell) {
  const field = input("text", id);
  field.addEventListener("input", () => tell(field.value));
  return { parts: [field], show: (value) => { field.value = value ?? ""; } };
}
