// The sheet of an experiment: its parts as markup, its numbers, its references.

export function numbers(body, { headline, words = {}, units = {} }) {
  const simulation = headline.simulation ?? {};
  body.replaceChildren(...Object.entries(headline.theory).map(([name, value]) => {
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = words[name] ?? name.replaceAll("_", " ");
    const cells = [value, simulation[name]].map((number) => {
      const cell = document.createElement("td");
      cell.textContent = number === undefined ? "" : shown(number, words[name], units[name]);
      return cell;
    });
    row.append(head, ...cells);
    return row;
  }));
}

// What is not finite comes as text: a number that does not exist is a dash, a wait without end "never".
function shown(number, words = "", unit = "") {
  if (number === "nan") return "– (none)";
  if (number === "inf" && (unit || words.split(" ").includes("time"))) return "never";
  if (typeof number !== "number") return String(number).replace("-", "−").replace("inf", "∞");
  return `${Number(number.toPrecision(4)).toString().replace("-", "−")} ${unit}`.trim();
}

export function duration(seconds) {
  return seconds < 90 ? `${Math.max(1, Math.round(seconds))} s` : `${Math.round(seconds / 60)} min`;
}

export function reference(entry) {
  const item = document.createElement("li");
  const title = document.createElement(entry.link ? "a" : "cite");
  title.textContent = entry.title;
  if (entry.link) Object.assign(title, { href: entry.link, rel: "noreferrer noopener", target: "_blank" });
  item.append(`${entry.authors} (${entry.year}). `, title, entry.where ? `. ${entry.where}.` : ".");
  return item;
}

export const TEMPLATE = `
  <div class="heading">
    <p class="crumb"><a href="#/">Gallery</a> · <span class="source"></span></p>
    <h1></h1>
    <p class="summary"></p>
  </div>
  <section class="stage" aria-label="Figure">
    <p class="figure-title"></p>
    <figure class="meanwhile" hidden><img alt="" width="320">
      <figcaption>from the gallery, at quick parameters, while yours are computed</figcaption></figure>
    <div class="panels stale"></div>
    <p class="caption"></p>
    <p class="row small tools">
      <button id="pin" title="keep these curves and lay others over them">Pin curves</button>
      <button id="unpin" hidden>Clear pins</button>
      <button id="scale-x">x axis: as drawn</button> <button id="scale-y">y axis: as drawn</button>
      <button id="curves">Curves (CSV)</button> <a id="prediction" download hidden>theory as drawn (netCDF)</a>
    </p>
    <p class="verdict" role="status" hidden><strong></strong> <span></span></p>
    <table class="numbers">
      <thead><tr><th scope="col"><span class="hidden">quantity</span></th><th scope="col">theory</th><th scope="col">simulation</th></tr></thead>
      <tbody></tbody>
    </table>
    <p class="trust"></p>
    <p class="downloads" hidden>Download
      <a data-file="figure.pdf" download>figure (pdf)</a> <a data-file="figure.png" download>png</a>
      <a data-file="figure.svg" download>svg</a> <a data-file="theory.nc" download>theory (netCDF)</a>
      <a data-file="simulation.nc" download>simulation (netCDF)</a>
      <span class="again">or <code>limen show <span class="identifier"></span></code></span></p>
  </section>
  <aside class="side" aria-label="Parameters">
    <div class="actions">
      <div class="row">
        <label for="seeds">seeds</label>
        <input id="seeds" type="number" min="1" step="1" inputmode="numeric">
        <button id="simulate" class="primary" title="s, or Enter in a parameter">Simulate</button>
        <button id="cancel" class="primary" title="Escape" hidden>Cancel</button>
      </div>
      <progress hidden></progress>
      <p class="status" role="status" aria-live="polite"></p>
    </div>
    <div class="parameters"></div>
    <p class="row small">
      <button id="reset">Defaults</button> <button id="quick">Small and quick</button> <button id="link">Copy link</button>
    </p>
  </aside>
  <section class="questions" aria-label="Further questions" hidden></section>
  <section class="words">
    <h2>What happens</h2>
    <div class="prose about"></div>
    <div class="prose look"></div>
    <div class="references"><h2>References</h2><ul></ul><p><a class="bibtex" download>BibTeX</a></p></div>
  </section>`;
