// Your own data: a table from this machine, its learning curve predicted and trained. The server reads it and forgets it.

import { request } from "./api.js";
import { Plots, preload } from "./plots.js";

export async function showOwnData(main) {
  document.title = "Your data · limen";
  main.className = "owndata";
  main.innerHTML = `
    <div class="intro">
      <h1>Your data</h1>
      <p>How much would more samples help? The curve is predicted from the rows of a table, before anything is trained;
        points are trainings on parts of it. The file is read by the limen server and kept nowhere.</p>
    </div>
    <form class="table-form">
      <label>Table <input type="file" name="file" accept=".csv,.npz,.parquet" required></label>
      <label>Column to learn <input type="text" name="target" list="columns" autocomplete="off" spellcheck="false">
        <datalist id="columns"></datalist></label>
      <label>Model <select name="model"><option value="ridge">linear, ridge</option>
        <option value="kernel">Gaussian kernel</option><option value="ntk">tangent kernel of a network</option>
        <option value="random-features">random ReLU features</option></select></label>
      <label class="features" hidden>Features <input type="text" name="features" value="50,100,200" inputmode="decimal"
        title="one number, or several with commas" autocomplete="off"></label>
      <label>Ridge <input type="text" name="ridge" value="0.01" inputmode="decimal" title="one number, or several with commas"
        autocomplete="off"></label>
      <label>Trainings <input type="number" name="seeds" value="20" min="0" max="200" step="1"></label>
      <button class="primary" type="submit">Draw the curve</button>
    </form>
    <p class="status" role="status"></p>
    <div class="panels"></div>`;
  const form = main.querySelector("form");
  const status = main.querySelector(".status");
  const plots = new Plots(main.querySelector(".panels"));
  const stop = new AbortController();
  preload();
  form.file.addEventListener("change", () => offerColumns(form));
  form.model.addEventListener("change", () => {
    form.querySelector(".features").hidden = form.model.value !== "random-features";
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    draw(form, status, plots, stop.signal);
  });
  return () => {
    stop.abort();
    plots.close();
  };
}

// The first line of a table of text names its columns; the last is the likeliest target.
async function offerColumns(form) {
  const file = form.file.files[0];
  const list = form.querySelector("datalist");
  list.replaceChildren();
  if (!file?.name.toLowerCase().endsWith(".csv")) return;
  const [first] = (await file.slice(0, 65536).text()).split(/\r?\n/);
  const names = first.split(",").map((name) => name.trim().replace(/^"|"$/g, ""));
  for (const name of names) list.append(new Option(name, name));
  form.target.value = names.at(-1);
}

async function draw(form, status, plots, signal) {
  const file = form.file.files[0];
  const button = form.querySelector("button");
  const asked = new URLSearchParams({
    name: file.name, target: form.target.value, model: form.model.value, ridge: form.ridge.value, seeds: form.seeds.value,
  });
  if (form.model.value === "random-features") asked.set("features", form.features.value);
  button.disabled = true;
  status.className = "status";
  status.textContent = "Computing…";
  try {
    const headers = { "content-type": "application/octet-stream" };
    const answer = await (await request(`/api/data?${asked}`, { method: "POST", headers, body: file, signal })).json();
    await plots.draw(answer.figure);
    status.textContent = answer.status;
    status.classList.toggle("bad", !answer.ok);
  } catch (error) {
    if (signal.aborted) return;
    status.classList.add("bad");
    status.textContent = error.message;
  } finally {
    button.disabled = false;
  }
}
