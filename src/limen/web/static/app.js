// The page's addresses: #/ is the gallery, #/your-data a table of one's own, #/name?parameters an experiment, #/stored/id a stored run.

import { getJSON } from "./api.js";
import { showExperiment } from "./experiment.js";
import { showGallery } from "./gallery.js";
import { showOwnData } from "./owndata.js";

const main = document.getElementById("main");
const notice = document.getElementById("notice");
let leave = () => {};
let shown = "";

function say(text) {
  notice.textContent = text;
  notice.hidden = !text;
}

async function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  if (location.hash === shown) return;
  if (location.hash && !location.hash.startsWith("#/")) return;
  shown = location.hash;
  leave();
  leave = () => {};
  say("");
  try {
    if (!path) {
      leave = await showGallery(main);
    } else if (path === "your-data") {
      leave = await showOwnData(main);
    } else if (path.startsWith("stored/")) {
      const stored = await getJSON(`/api/results/${encodeURIComponent(path.slice(7))}`);
      const values = new URLSearchParams();
      for (const [name, value] of Object.entries(stored.parameters)) values.set(name, JSON.stringify(value));
      values.set("seeds", stored.seeds);
      if (stored.seeds) values.set("run", "1");
      location.replace(`#/${stored.experiment}?${values}`);
      return;
    } else {
      const view = await showExperiment(main, decodeURIComponent(path), new URLSearchParams(query), (hash) => {
        shown = hash;
        history.replaceState(null, "", hash);
      });
      leave = view.leave;
    }
    main.focus({ preventScroll: true });
    // The gallery goes back to where it was left.
    if (path) window.scrollTo(0, 0);
  } catch (error) {
    say(error.message);
    if (!main.querySelector(".card")) main.innerHTML = '<p class="hint"><a href="#/">To the gallery</a></p>';
  }
}

document.getElementById("stored").addEventListener("submit", (event) => {
  event.preventDefault();
  const id = document.getElementById("stored-id").value.trim();
  if (/^[0-9a-f]{4,64}$/.test(id)) location.hash = `#/stored/${id}`;
  else say("A stored run is named by 4 to 64 hexadecimal digits, as limen run prints them.");
});
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", route);
window.addEventListener("pagehide", () => leave());
shown = null;
route();
