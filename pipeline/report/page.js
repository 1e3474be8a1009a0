"use strict";
// Draws the figures with the colours of the current scheme, and again when the scheme changes. Filters questions.

const root = document.documentElement;

async function loadPlotly() {
  const compressed = atob(document.getElementById("plotly").textContent.trim());
  const bytes = Uint8Array.from(compressed, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const script = document.createElement("script");
  script.textContent = await new Response(stream).text();
  document.head.append(script);
}

// Replaces "var(--name)" with the value of that CSS variable, everywhere in a figure.
function resolved(value, style) {
  if (typeof value === "string") {
    return value.replace(/var\((--[a-z-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
  }
  if (Array.isArray(value)) return value.map((item) => resolved(item, style));
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, resolved(item, style)]));
}

function draw(width) {
  const style = getComputedStyle(root);
  for (const source of document.querySelectorAll("script[data-figure]")) {
    const plot = document.getElementById(source.dataset.figure);
    const figure = resolved(JSON.parse(source.textContent), style);
    if (width) figure.layout.width = width / (plot.closest(".pair") ? 2 : 1) - 16;
    if (!plot.dataset.drawn) plot.textContent = "";
    Plotly.react(plot, figure.data, figure.layout, { displayModeBar: false, responsive: !width });
    plot.dataset.drawn = "yes";
  }
}

// Figures must be legible on paper, whatever the screen's scheme is. 680 px fit between the margins of A4.
function print(begin) {
  root.classList.toggle("printing", begin);
  draw(begin ? 680 : undefined);
}

// Shows the questions that pass the filters, a few at a time.
function browse(box) {
  const step = 10;
  const [filters, more] = [box.querySelector(".filters"), box.querySelector(":scope > button")];
  const selects = [...filters.querySelectorAll("select")];
  const items = [...box.querySelectorAll(".sample")];
  let most = step;
  function show() {
    const fitting = items.filter((item) => selects.every(({ name, value }) => !value || item.dataset[name] === value));
    const shown = new Set(fitting.slice(0, most));
    for (const item of items) item.hidden = !shown.has(item);
    filters.querySelector("[role=status]").textContent = `${shown.size} of ${fitting.length}`;
    more.hidden = shown.size === fitting.length;
  }
  for (const select of selects) select.addEventListener("change", () => { most = step; show(); });
  more.addEventListener("click", () => { most += step; show(); });
  filters.hidden = false;
  show();
}

document.querySelectorAll(".browser").forEach(browse);
loadPlotly().then(() => {
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
});
