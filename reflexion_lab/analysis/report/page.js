"use strict";
// Data stands in the page, packed; nothing is fetched. The Content-Security-Policy lets no other script run.
const index = JSON.parse(document.getElementById("index").textContent);
const byId = (id) => document.getElementById(id);
const controls = [...byId("filters").querySelectorAll("select")]; // those that this run gives a choice
const links = new Map();
let chosen = "", texts = null;

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const part = (name) => unpacked(byId(name).textContent);
const address = (id, attempt) =>
  "#task=" + encodeURIComponent(id).replaceAll("%2F", "/") + (attempt ? "&attempt=" + attempt : "");

function listed() {
  for (const [place, task] of index.tasks.entries()) {
    const item = document.createElement("li"), link = document.createElement("a");
    const name = document.createElement("span"), marks = document.createElement("span");
    name.textContent = task.shown;
    for (const [text, passed] of task.marks) {
      const mark = document.createElement("span");
      mark.className = passed === null ? "" : passed ? "good" : "bad";
      mark.textContent = text;
      marks.append(mark);
    }
    link.href = address(task.id);
    link.title = task.result;
    link.append(name, marks);
    item.append(link);
    byId("tasks").append(item);
    links.set(task.id, { place, item, link, task });
  }
}

// A control's id is the name of what it asks for: one value, or several of which one has to fit.
const fits = (task) => controls.every(({ id, value }) => !value || [task[id]].flat().map(String).includes(value));

async function filtered() {
  const asked = () => byId("words").value.toLowerCase().split(/\s+/).filter(Boolean);
  if (asked().length && !texts) texts = JSON.parse(await part("texts")).map((text) => text.toLowerCase());
  const words = asked(); // the reader has typed on meanwhile
  let shown = 0;
  for (const { place, item, task } of links.values()) {
    item.hidden = !(fits(task) && words.every((word) => texts[place].includes(word)));
    shown += !item.hidden;
  }
  byId("count").textContent = shown || !links.size ? shown + " of " + index.tasks.length + " tasks" : "No task fits";
  marked();
}

// The open task stays open where a filter leaves it out of the list, and the page says so.
function marked() {
  const open = links.get(chosen);
  byId("left-out").hidden = !open || !open.item.hidden;
}

// Within the list alone: the page itself stays where it is.
function reveal(item) {
  const list = byId("tasks"), inner = item.getBoundingClientRect(), outer = list.getBoundingClientRect();
  list.scrollTop += Math.min(0, inner.top - outer.top) + Math.max(0, inner.bottom - outer.bottom);
}

async function show(isAsked) {
  const asked = new URLSearchParams(location.hash.slice(1));
  const id = asked.get("task"), attempt = asked.get("attempt"), found = links.get(id);
  if (id === null) return;
  if (!found) {
    links.get(chosen)?.link.removeAttribute("aria-current");
    chosen = "";
    document.title = index.title;
    marked();
    byId("task").textContent = "This run has no ended loop of task " + id + ".";
    return;
  }
  if (chosen !== id) {
    if (chosen) links.get(chosen).link.removeAttribute("aria-current");
    chosen = id;
    const html = await part("task-" + found.place);
    if (chosen !== id) return; // the reader has gone on meanwhile
    byId("task").innerHTML = html;
    document.title = found.task.shown + " · " + index.title;
    found.link.setAttribute("aria-current", "true");
    marked();
    reveal(found.item);
  }
  byId("task").querySelectorAll(".chosen").forEach((column) => column.classList.remove("chosen"));
  const column = /^[0-9]+$/.test(attempt) && byId("task").querySelector(".attempt-" + attempt);
  const { top } = byId("task").getBoundingClientRect();
  if (isAsked && (top < 0 || top > innerHeight / 2)) byId("task").scrollIntoView();
  if (column) {
    column.classList.add("chosen");
    column.scrollIntoView({ block: "nearest", inline: "start" });
  }
}

function moved(event) {
  const inside = event.target.closest("select, summary, pre");
  if (inside || event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key !== "/")) return;
  if (event.key === "Escape" && event.target === byId("words")) {
    event.preventDefault(); // which would empty the box
    (links.get(chosen)?.link ?? byId("words")).focus();
    byId("words").blur();
    return;
  }
  if (event.key === "/" && event.target !== byId("words")) {
    event.preventDefault();
    byId("words").focus();
    return;
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const shown = [...links.values()].filter(({ item }) => !item.hidden);
  if (!step || !shown.length) return;
  event.preventDefault();
  const at = shown.findIndex(({ task }) => task.id === chosen);
  const next = shown[at < 0 ? (step > 0 ? 0 : shown.length - 1) : Math.min(Math.max(at + step, 0), shown.length - 1)];
  location.hash = address(next.task.id);
  next.link.focus({ preventScroll: true });
}

listed();
controls.forEach((control) => control.addEventListener("change", filtered));
byId("words").addEventListener("input", filtered);
byId("filters").addEventListener("submit", (event) => event.preventDefault());
byId("filters").addEventListener("reset", () => setTimeout(filtered));
document.addEventListener("keydown", moved);
window.addEventListener("hashchange", () => show(true));
filtered();
const isAsked = location.hash.startsWith("#task=");
if (!isAsked && index.tasks.length) history.replaceState(null, "", address(index.tasks[0].id));
show(isAsked);
