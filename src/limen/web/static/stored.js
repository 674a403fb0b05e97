// The latest runs in the store, newest first: what was computed here before, in the browser or on the command line.

import { getJSON } from "./api.js";

const UNITS = [[86400, "day"], [3600, "hour"], [60, "minute"]];
const ago = new Intl.RelativeTimeFormat("en");

export async function storedRuns() {
  const { runs } = await getJSON("/api/stored");
  if (!runs.length) return null;
  const box = document.createElement("details");
  box.className = "runs";
  const summary = document.createElement("summary");
  summary.textContent = runs.length === 1 ? "One stored run" : `${runs.length} latest stored runs`;
  const list = document.createElement("ul");
  list.append(...runs.map(line));
  box.append(summary, list);
  return box;
}

function line(run) {
  const item = document.createElement("li");
  const link = document.createElement("a");
  link.href = `#/stored/${run.identifier}`;
  link.textContent = run.title;
  const seeds = run.seeds === 0 ? "theory" : run.seeds === 1 ? "1 seed" : `${run.seeds} seeds`;
  const facts = [seeds, run.verdict, since(run.created), run.identifier.slice(0, 10)].filter(Boolean);
  const words = document.createElement("span");
  words.textContent = facts.join(" · ");
  item.append(link, words);
  return item;
}

function since(created) {
  const seconds = Date.now() / 1000 - created;
  const [size, unit] = UNITS.find(([length]) => seconds >= length) ?? [];
  return size ? ago.format(-Math.floor(seconds / size), unit) : "just now";
}
