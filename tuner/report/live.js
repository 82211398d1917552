// The page that follows a search: takes the place of sections that have changed, and leaves open what the reader has opened.
"use strict";
const connection = document.getElementById("connection");
let ended = false;

function replace(key, html) {
  const old = document.getElementById(key);
  if (!old) return;
  const open = new Set([...old.querySelectorAll("details[open]")].map((item) => item.id));
  const focused = document.activeElement && old.contains(document.activeElement) ? document.activeElement : null;
  const owner = focused ? focused.closest("details") : null;
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const made = holder.content.firstElementChild;
  for (const item of made.querySelectorAll("details")) item.open = open.has(item.id);
  const scrolled = [...old.querySelectorAll(".wide, pre")].map((item) => [item.getAttribute("aria-label"), item.scrollLeft, item.scrollTop]);
  old.replaceWith(made);
  for (const [label, left, top] of scrolled) {
    const item = [...made.querySelectorAll(".wide, pre")].find((other) => other.getAttribute("aria-label") === label);
    if (item) { item.scrollLeft = left; item.scrollTop = top; }
  }
  const again = owner ? document.getElementById(owner.id) : null;
  if (again) again.querySelector("summary").focus();
}

const source = new EventSource("events");
source.addEventListener("sections", (event) => {
  const sections = JSON.parse(event.data);
  for (const key of Object.keys(sections)) replace(key, sections[key]);
  connection.textContent = "Live: the page changes as results come.";
});
source.addEventListener("end", () => {
  ended = true;
  source.close();
  connection.textContent = "The search has ended; this is its last state.";
});
source.onerror = () => {
  if (!ended) connection.textContent = "Not connected: the command may have ended. The page tries again.";
};
