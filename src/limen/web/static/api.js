// Talking to the server: plain requests, and runs whose events arrive one by one, through losses of the connection.

export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

export async function request(path, options = {}) {
  const answer = await fetch(path, options);
  if (answer.ok) return answer;
  let message = `The server refused (${answer.status}).`;
  try {
    message = (await answer.json()).message || message;
  } catch {
    // Not JSON: the sentence above must do.
  }
  throw new Refused(message, answer.status);
}

export async function getJSON(path) {
  return (await request(path)).json();
}

export async function postJSON(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body), signal })).json();
}

const LAST = ["done", "failed", "cancelled"];
const KINDS = ["queued", "preliminary", "theory", "seeds", ...LAST];

// One run. `on(kind, data)` hears every event, and "away" and "back" when the connection goes and comes.
export class Run {
  constructor(body, on, path = "/api/runs") {
    this.path = path;
    this.body = body;
    this.on = on;
    this.last = 0;
    this.over = false;
    this.wake = () => this.retry(0);
    // A stream may seem open long after the network is gone.
    this.drop = () => {
      this.source?.close();
      this.lose();
    };
    window.addEventListener("online", this.wake);
    window.addEventListener("offline", this.drop);
    this.begin();
  }

  async begin() {
    try {
      const answer = await postJSON(this.path, this.body);
      if (this.over) {
        release(answer.run);
        return;
      }
      this.ticket = answer.run;
      this.last = 0;
      this.listen();
    } catch (error) {
      if (this.over) return;
      if (error instanceof Refused && error.status === 503) {
        this.on("queued", { busy: error.message });
        this.retry(2000);
      } else if (error instanceof Refused) {
        this.end("failed", { message: error.message });
      } else {
        this.lose();
      }
    }
  }

  listen() {
    this.source?.close();
    const source = new EventSource(`/api/runs/${this.ticket}/events?after=${this.last}`);
    this.source = source;
    source.onopen = () => {
      if (this.away) this.on("back", {});
      this.away = false;
    };
    for (const kind of KINDS) {
      source.addEventListener(kind, (event) => {
        if (this.over) return;
        this.last = Number(event.lastEventId);
        const data = JSON.parse(event.data);
        if (LAST.includes(kind)) this.end(kind, data);
        else this.on(kind, data);
      });
    }
    source.onerror = () => {
      source.close();
      if (!this.over) this.lose();
    };
  }

  lose() {
    if (!this.away) this.on("away", {});
    this.away = true;
    this.retry(1500);
  }

  retry(delay) {
    if (this.over) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.resume(), delay);
  }

  // The server may have given the run up meanwhile: asking again costs little, since finished seeds are stored.
  async resume() {
    if (this.over) return;
    if (!this.ticket) {
      this.begin();
      return;
    }
    try {
      await request(`/api/runs/${this.ticket}`);
      this.listen();
    } catch (error) {
      if (error instanceof Refused && error.status === 404) {
        this.ticket = undefined;
        this.begin();
      } else {
        this.lose();
      }
    }
  }

  end(kind, data) {
    this.close();
    this.on(kind, data);
  }

  close() {
    this.over = true;
    clearTimeout(this.timer);
    window.removeEventListener("online", this.wake);
    window.removeEventListener("offline", this.drop);
    this.source?.close();
  }

  cancel() {
    if (this.over) return;
    this.close();
    if (this.ticket) release(this.ticket);
  }
}

function release(ticket) {
  // The page may be about to close: the browser should still send it.
  fetch(`/api/runs/${ticket}`, { method: "DELETE", keepalive: true }).catch(() => {});
}
