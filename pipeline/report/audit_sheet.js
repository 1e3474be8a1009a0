"use strict";
// Marks the pages of an audit. Marks are kept in the browser's storage, where it has one, and given as JSON.

const sheet = JSON.parse(document.getElementById("values").textContent);
const part = (id) => document.getElementById(id);
const marks = { ...sheet.marks, ...stored() };
let index = Math.max(0, nextUnmarked(-1));
let note = "";

function stored() {
  try {
    return JSON.parse(localStorage.getItem(sheet.sheet)) ?? {};
  } catch {
    return {}; // a browser may refuse storage to files: then the marks are on the page alone, to be saved from there
  }
}

function keep() {
  try {
    localStorage.setItem(sheet.sheet, JSON.stringify(marks));
  } catch {
    note += " This browser keeps no marks of files: save them before you close the page.";
  }
}

function nextUnmarked(from) {
  const after = sheet.pages.findIndex((page, number) => number > from && !marks[page.id]);
  return after >= 0 ? after : sheet.pages.findIndex((page) => !marks[page.id]);
}

function mark(word) {
  const page = sheet.pages[index];
  marks[page.id] = word;
  note = `${word}: ${page.id} was ${page.reason}.`;
  keep();
  const next = nextUnmarked(index);
  if (next >= 0) index = next;
  show();
}

function step(by) {
  index = Math.min(sheet.pages.length - 1, Math.max(0, index + by));
  note = "";
  show();
}

function show() {
  const page = sheet.pages[index];
  const number = Object.keys(marks).length;
  part("place").textContent = `Page ${index + 1} of ${sheet.pages.length}, ${number} marked`;
  part("note").textContent = note;
  part("identity").textContent = [page.id, page.url].filter(Boolean).join(" · ");
  part("reason").textContent = sheet.shows_rule || marks[page.id] ? page.reason : "";
  part("text").textContent = page.text;
  part("survivor").hidden = !page.survivor;
  part("survivor-id").textContent = page.survivor ?? "";
  part("survivor-text").textContent = page.survivor_text ?? "";
  for (const button of document.querySelectorAll("[data-mark]")) {
    button.setAttribute("aria-pressed", String(marks[page.id] === button.dataset.mark));
  }
  give();
}

// Puts the marks where they can be copied, and into the link that saves them.
function give() {
  const marker = part("marker").value;
  const text = JSON.stringify({ sheet: sheet.sheet, marker, marks }, null, 1) + "\n";
  part("json").value = text;
  part("json").textContent = text;
  part("save").href = `data:application/json;charset=utf-8,${encodeURIComponent(text)}`;
  part("save").download = `marks-${marker}.json`;
}

part("marker").value = sheet.marker;
part("marker").addEventListener("input", give);
for (const button of document.querySelectorAll("[data-mark]")) {
  button.addEventListener("click", () => mark(button.dataset.mark));
}
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => step(Number(button.dataset.step)));
}
addEventListener("keydown", (event) => {
  if (event.target.matches("input, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
  const word = { g: "good", b: "bad", u: "unsure" }[event.key];
  if (word) mark(word);
  else if (event.key === "p") step(-1);
  else if (event.key === "n") step(1);
});
if (sheet.pages.length) show();
