// A problem file as a control: typed or moved by its numbers, checked on the way, with what applies and ways to take it along.

import { getJSON, postJSON } from "./api.js";
import { Controls } from "./controls.js";

const SETTLE = 200;

export function file(parameter, id, tell, complain) {
  const part = document.createElement("div");
  part.className = "problem-file";
  part.innerHTML = `
    <p class="row small"><label for="${id}-family">begin with</label> <select id="${id}-family"></select></p>
    <details class="moving" open><summary>Build it</summary><div></div></details>
    <details class="typing"><summary>As a file</summary>
      <textarea id="${id}" rows="18" spellcheck="false" autocomplete="off" wrap="off"></textarea></details>
    <p class="row small copies">copy as
      <button type="button" data-copy="python">Python</button>
      <button type="button" data-copy="command">command</button>
      <button type="button" data-copy="text">problem file</button>
      <span class="copied" role="status"></span></p>
    <details class="applying"><summary>Theories: what applies, what it assumes, why the rest does not</summary><dl></dl></details>`;
  const box = part.querySelector("textarea");
  const family = part.querySelector("select");
  const moving = part.querySelector(".moving");
  const applying = part.querySelector(".applying");
  for (const name of parameter.families) family.add(new Option(name, name));
  let asked = 0;
  let known = {};
  let told;

  // A newer question takes the place of an older one; only the last answer counts.
  async function check(problem, changes, loud) {
    const mine = (asked += 1);
    let answer;
    try {
      answer = await postJSON("/api/problem", { problem, changes });
    } catch (error) {
      if (mine === asked) complain(error.message ?? "the server does not answer");
      return;
    }
    if (mine !== asked) return;
    if (!answer.ok) {
      if (loud) tell(box.value, answer.message);
      else complain(answer.message);
      return;
    }
    if (box.value !== answer.text) box.value = answer.text;
    told = answer;
    known = { text: answer.text, python: answer.python, command: "limen compare problem.toml" };
    const kind = answer.text.match(/^type = "(\w+)"/m)?.[1];
    if (kind && !answer.text.includes(`"${family.value}"`)) family.value = kind;
    build(answer.controls);
    if (applying.open) apply();
    part.dispatchEvent(new CustomEvent("told", { bubbles: true }));
    if (loud) tell(answer.text);
  }

  let names = "";
  let controls;
  function build(parameters) {
    const now = parameters.map(({ name, kind }) => `${name} ${kind}`).join();
    if (now === names) {
      // The one that is being moved stays as it is under the hand.
      for (const { name, default: value } of parameters) {
        const field = controls.fields.get(name);
        controls.values[name] = value;
        if (!field.element.contains(document.activeElement)) field.show(value);
      }
      return;
    }
    names = now;
    controls = new Controls(parameters, {}, () => {
      const changes = {};
      for (const { name } of controls.parameters) {
        if (controls.values[name] !== controls.before[name]) changes[name] = controls.values[name];
      }
      if (controls.message || !Object.keys(changes).length) return;
      controls.before = { ...controls.values };
      check(box.value, changes, true);
    });
    controls.before = { ...controls.values };
    moving.querySelector("div").replaceChildren(controls.element);
  }

  async function apply() {
    const list = applying.querySelector("dl");
    try {
      const found = await postJSON("/api/problem/theories", { problem: box.value });
      list.replaceChildren(...found.flatMap(({ name, said, about }) => {
        const [head, line] = [document.createElement("dt"), document.createElement("dd")];
        head.textContent = name;
        line.textContent = said;
        line.dataset.applies = said === "applies";
        if (!about) return [head, line];
        // What it assumes, in the words of its own docstring, escaped on the server.
        const assumed = document.createElement("dd");
        assumed.className = "prose assumed";
        assumed.innerHTML = about;
        return [head, line, assumed];
      }));
    } catch (error) {
      list.textContent = error.message;
    }
  }

  applying.addEventListener("toggle", () => applying.open && apply());
  box.addEventListener("input", async () => {
    const mine = (asked += 1);
    await new Promise((resolve) => setTimeout(resolve, SETTLE));
    if (mine === asked) check(box.value, {}, true);
  });
  // Enter is a new line here, and no letter a shortcut.
  box.addEventListener("keydown", (event) => event.stopPropagation());
  family.addEventListener("change", async () => {
    const { text } = await getJSON(`/api/problem/${encodeURIComponent(family.value)}`);
    box.value = text;
    check(text, {}, true);
  });
  part.querySelector(".copies").addEventListener("click", async (event) => {
    const what = event.target.dataset?.copy;
    if (!what) return;
    const said = part.querySelector(".copied");
    try {
      await navigator.clipboard.writeText(known[what]);
      said.textContent = "copied";
    } catch {
      said.textContent = "the browser does not let the page copy";
    }
  });
  return {
    parts: [part],
    told: () => told,
    change: (changes) => check(box.value, changes, true),
    show(value) {
      if (typeof value === "string") box.value = value;
      check(value, {}, typeof value !== "string");
    },
  };
}
