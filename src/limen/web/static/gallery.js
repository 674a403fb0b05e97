// The gallery: cards grouped by source; their pictures are asked for one at a time, those in view first.

import { getJSON } from "./api.js";
import { storedRuns } from "./stored.js";

const pictures = new Map();
// What was looked for and where, for those who come back.
const left = { text: "", scroll: 0 };
// The stored runs as last seen: shown at once to those who come back, so that nothing below them moves.
let seen = null;

export async function showGallery(main) {
  const experiments = await getJSON("/api/experiments");
  document.title = "limen";
  main.className = "gallery";
  main.innerHTML = `
    <div class="intro">
      <h1>Pick a phenomenon</h1>
      <p>Each is a theory of learning in many dimensions beside the finite training it predicts.
        Move its parameters: lines are theory, points are simulation.</p>
      <p class="own"><a href="#/problem">Your own problem</a>: any target, network, loss and algorithm, as a file you can
        type, move and take along. Or bring <a href="#/your-data">your own data</a>.</p>
      <input type="search" id="filter" placeholder="Filter ${experiments.length} experiments" aria-label="Filter experiments">
    </div>`;
  const bySource = Map.groupBy ? Map.groupBy(experiments, (e) => e.source) : group(experiments);
  for (const [source, members] of bySource) {
    const section = document.createElement("section");
    const heading = document.createElement("h2");
    heading.textContent = source;
    const cards = document.createElement("div");
    cards.className = "cards";
    cards.append(...members.map(card));
    section.append(heading, cards);
    main.append(section);
  }
  if (seen) main.querySelector(".intro").append(seen);
  // Comes when it comes: a gallery without it is still a gallery.
  storedRuns().then((runs) => runs && main.querySelector(".intro") && showRuns(main, runs)).catch(() => {});
  const none = document.createElement("p");
  none.className = "hint none";
  none.setAttribute("role", "status");
  none.hidden = true;
  main.append(none);
  const field = main.querySelector("#filter");
  field.addEventListener("input", () => filter(main, field.value));
  field.value = left.text;
  if (left.text) filter(main, left.text);
  window.scrollTo(0, left.scroll);
  const stop = fetchPictures([...main.querySelectorAll(".card")]);
  return () => {
    Object.assign(left, { text: field.value, scroll: window.scrollY });
    stop();
  };
}

function showRuns(main, runs) {
  if (seen?.isConnected) seen.replaceWith(runs);
  else main.querySelector(".intro").append(runs);
  seen = runs;
}

function group(experiments) {
  const groups = new Map();
  for (const experiment of experiments) {
    groups.set(experiment.source, [...(groups.get(experiment.source) ?? []), experiment]);
  }
  return groups;
}

function card(experiment) {
  const link = document.createElement("a");
  link.className = "card";
  link.href = `#/${experiment.name}`;
  link.dataset.name = experiment.name;
  link.dataset.words = experiment.words;
  link.innerHTML = '<span class="picture" aria-hidden="true"></span><span class="name"></span><span class="line"></span>';
  link.querySelector(".name").textContent = experiment.title;
  link.querySelector(".line").textContent = experiment.summary;
  return link;
}

// Names, lines and sources first; authors and words of the text where these say nothing.
function filter(main, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const cards = [...main.querySelectorAll(".card")];
  const short = (item) => `${item.dataset.name} ${item.textContent} ${item.closest("section").firstChild.textContent}`;
  const matching = (said) => cards.filter((item) => words.every((word) => said(item).toLowerCase().includes(word)));
  let found = matching(short);
  if (!found.length) found = matching((item) => `${short(item)} ${item.dataset.words}`);
  for (const item of cards) item.hidden = !found.includes(item);
  for (const section of main.querySelectorAll("section")) section.hidden = !section.querySelector(".card:not([hidden])");
  const none = main.querySelector(".none");
  none.hidden = found.length > 0;
  none.textContent = `Nothing matches “${text.trim()}”: try an author (Saad), a source, or a word (transformer, phase diagram).`;
}

// One request at a time leaves the browser's few connections free for everything else.
function fetchPictures(cards) {
  const stop = new AbortController();
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) seen.add(entry.target);
      else seen.delete(entry.target);
    }
  }, { rootMargin: "100px" });
  cards.forEach((item) => observer.observe(item));
  const waiting = new Set(cards);
  (async () => {
    await new Promise((resolve) => setTimeout(resolve, 60));
    while (waiting.size && !stop.signal.aborted) {
      const next = [...waiting].find((item) => seen.has(item)) ?? [...waiting][0];
      waiting.delete(next);
      try {
        show(next, await picture(next.dataset.name, stop.signal));
      } catch {
        if (!stop.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 400));
      }
    }
  })();
  return () => {
    stop.abort();
    observer.disconnect();
  };
}

async function picture(name, signal) {
  if (!pictures.has(name)) {
    const answer = await fetch(`/api/experiments/${name}/thumbnail.svg`, { signal });
    if (!answer.ok) throw new Error("no picture");
    pictures.set(name, URL.createObjectURL(await answer.blob()));
  }
  return pictures.get(name);
}

function show(item, address) {
  const image = new Image();
  image.alt = "";
  image.src = address;
  item.querySelector(".picture").replaceChildren(image);
}
