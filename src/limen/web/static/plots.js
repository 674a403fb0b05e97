// Figures: one plot per panel, in the colours of the reader's light or dark screen.

let library;
const dark = window.matchMedia("(prefers-color-scheme: dark)");
const coarse = window.matchMedia("(pointer: coarse)");
const narrow = window.matchMedia("(max-width: 860px)");

function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = "/static/plotly.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      library = undefined;
      reject(new Error("The plotting script could not be loaded."));
    };
    document.head.append(script);
  });
  return library;
}

export function preload() {
  plotly().catch(() => {});
}

export class Plots {
  constructor(element) {
    this.element = element;
    this.redraw = () => this.figure && this.draw(this.figure);
    dark.addEventListener("change", this.redraw);
    this.drawing = Promise.resolve();
    this.pins = [];
    this.scales = {};
    this.sizes = new ResizeObserver((entries) => {
      for (const { target } of entries) if (target.data && target.clientWidth) window.Plotly.Plots.resize(target);
    });
  }

  // The newest figure wins; drawing never overlaps itself.
  draw(figure) {
    this.figure = figure;
    this.drawing = this.drawing.then(() => (figure === this.figure ? this.paint(figure) : undefined));
    return this.drawing;
  }

  async paint(figure) {
    const Plotly = await plotly();
    if (figure !== this.figure) return;
    const panels = [...this.element.children];
    while (panels.length > figure.panels.length) {
      const last = panels.pop();
      this.sizes.unobserve(last.lastChild);
      Plotly.purge(last.lastChild);
      last.remove();
    }
    // The same room below every panel, so that axes stand in one line.
    const room = figure.panels.some(hasLegend) ? 84 : 50;
    // All places first: each plot takes the width its neighbours leave it.
    while (this.element.children.length < figure.panels.length) this.holder();
    for (const [i, panel] of figure.panels.entries()) {
      const [heading, plot] = this.element.children[i].children;
      heading.innerHTML = panel.title;
      heading.hidden = !panel.title;
      plot.setAttribute("aria-label", words(`${panel.layout.yaxis.title.text} against ${panel.layout.xaxis.title.text}`));
      const { data, layout } = themed(this.laid(panel, i), room);
      await Plotly.react(plot, data, layout, {
        displaylogo: false,
        showSendToCloud: false,
        plotlyServerURL: "",
        displayModeBar: coarse.matches ? false : "hover",
        modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
      });
    }
    this.element.dataset.panels = figure.panels.length;
  }

  // The panel with the pinned curves of the same place under it, on the scales the reader chose.
  laid(panel, i) {
    const under = this.pins.flatMap(({ label, figure }) => {
      const other = figure.panels[i];
      if (!other || other.layout.yaxis.title.text !== panel.layout.yaxis.title.text) return [];
      return other.data.filter(({ type }) => type === "scatter").map((trace) => faded(trace, label));
    });
    const layout = { ...panel.layout, showlegend: panel.layout.showlegend || under.length > 0 };
    for (const [name, type] of Object.entries(this.scales)) {
      const axis = layout[`${name}axis`];
      // A symmetric logarithm has been taken already.
      if (type && !axis.tickvals && axis.type !== type) layout[`${name}axis`] = { title: axis.title, type };
    }
    return { ...panel, data: [...under, ...panel.data], layout };
  }

  pin(label) {
    if (this.figure) this.pins.push({ label, figure: this.figure });
  }

  unpin() {
    this.pins = [];
    this.redraw();
  }

  // Cycles through as drawn, logarithmic, linear.
  scale(name) {
    const next = { undefined: "log", log: "linear", linear: undefined };
    this.scales[name] = next[this.scales[name]];
    this.redraw();
    return this.scales[name] ?? "as drawn";
  }

  // Everything drawn, as a table; a map has a value at each x and y.
  csv() {
    const maps = (this.figure?.panels ?? []).some((panel) => panel.data.some(({ type }) => type === "heatmap"));
    const rows = [["panel", "series", "x", "y", "error", ...(maps ? ["value"] : [])]];
    for (const panel of this.figure?.panels ?? []) {
      for (const trace of panel.data) {
        if (trace.type === "heatmap") {
          const axes = words(`${panel.layout.yaxis.title.text} against ${panel.layout.xaxis.title.text}`);
          trace.z.forEach((row, i) => row.forEach((value, k) => rows.push([axes, "map", trace.x[k], trace.y[i], "", value])));
        }
        if (trace.type !== "scatter") continue;
        const name = words(trace.name ?? "");
        trace.x.forEach((x, k) => rows.push([
          words(panel.layout.yaxis.title.text), name, x, trace.y[k], trace.error_y?.array[k] ?? "",
        ]));
      }
    }
    return rows.map((row) => row.map((cell) => (/[",\n]/.test(cell) ? `"${String(cell).replaceAll('"', '""')}"` : cell ?? "")).join(",")).join("\n");
  }

  save(name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([this.csv()], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  holder() {
    const holder = document.createElement("figure");
    holder.className = "panel";
    const heading = document.createElement("figcaption");
    const plot = document.createElement("div");
    plot.className = "plot";
    // A group: its mode bar can be reached, which nothing inside an image can.
    plot.setAttribute("role", "group");
    holder.append(heading, plot);
    this.element.append(holder);
    this.sizes.observe(plot);
  }

  close() {
    dark.removeEventListener("change", this.redraw);
    this.sizes.disconnect();
    this.figure = undefined;
    if (window.Plotly) for (const panel of this.element.children) window.Plotly.purge(panel.lastChild);
  }
}

function faded(trace, label) {
  const name = `${label}${trace.showlegend ? `, ${trace.name}` : ""}`;
  const line = trace.line && { ...trace.line, dash: "dot" };
  return { ...trace, name, showlegend: trace.mode === "lines" && !trace.fill && trace.line?.width !== 0, opacity: 0.55, line };
}

function words(markup) {
  const holder = document.createElement("div");
  holder.innerHTML = markup;
  return holder.textContent;
}

function hasLegend(panel) {
  return panel.layout.showlegend && panel.data.some((trace) => trace.type !== "heatmap" && trace.showlegend);
}

function themed(panel, room) {
  const ink = dark.matches ? "#dfe3e6" : "#20262b";
  const faint = dark.matches ? "#39424a" : "#e4e2dc";
  const threshold = dark.matches ? "#a9b2b9" : "#5a6268";
  // Black would vanish on a dark screen, and the darker blue nearly.
  const lighter = dark.matches ? { "#000000": ink, "#0072B2": "#2b95dd" } : {};
  const data = JSON.parse(JSON.stringify(panel.data), (key, value) => (key === "color" && lighter[value]) || value);
  for (const trace of data) {
    if (trace.type === "heatmap") trace.colorbar.tickfont = trace.colorbar.title.font = { color: ink, size: 11 };
  }
  const axis = {
    color: ink, gridcolor: faint, linecolor: threshold, zeroline: false, showline: true, ticks: "outside", ticklen: 4,
    tickcolor: threshold, automargin: true, exponentformat: "power",
  };
  const { xaxis, yaxis, shapes, annotations } = panel.layout;
  return {
    data,
    layout: {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: "system-ui, sans-serif", size: narrow.matches ? 10.5 : 12.5, color: ink },
      margin: { l: 58, r: 14, t: annotations.length ? 26 : 12, b: room },
      height: narrow.matches ? 250 : 340,
      dragmode: coarse.matches ? false : "zoom",
      hovermode: "closest",
      showlegend: hasLegend(panel),
      legend: { orientation: "h", x: 0, xanchor: "left", yref: "container", y: 0, yanchor: "bottom", font: { size: 12 } },
      xaxis: { ...axis, ...xaxis, dtick: xaxis.type === "log" ? spread(xaxis, data, "x") : undefined },
      yaxis: { ...axis, ...yaxis, dtick: yaxis.type === "log" ? spread(yaxis, data, "y") : undefined },
      shapes: shapes.map((shape) => ({ ...shape, line: { ...shape.line, color: threshold } })),
      annotations: annotations.map((note) => ({ ...note, font: { color: ink, size: 12 } })),
    },
  };
}

// Ticks at whole powers where the axis spans several.
function spread(axis, data, name) {
  let ends = axis.range;
  if (!ends) {
    const values = data.flatMap((trace) => trace[name]).filter((value) => value > 0).map(Math.log10);
    ends = [Math.min(...values), Math.max(...values)];
  }
  const decades = Math.abs(ends[1] - ends[0]);
  if (decades < 0.8) return undefined;
  return decades > 2.2 ? Math.max(1, Math.round(decades / 6)) : "D2";
}
