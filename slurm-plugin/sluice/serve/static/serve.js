// Every page works without this. With it, tables sort and filter without a jump to the top, and a
// page with data-refresh renews itself while somebody looks at it and nobody has paused it.
"use strict";

let paused = false;
let timer = 0;

async function load(address, remember) {
  const answer = await fetch(address, { credentials: "same-origin", redirect: "manual" });
  if (!answer.ok) throw new Error(String(answer.status));
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("live");
  const shown = document.getElementById("live");
  if (!fresh || !shown) throw new Error("no content");
  const focused = document.activeElement && document.activeElement.id;
  const scrolled = [...shown.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  const open = [...shown.querySelectorAll("details")].map((one) => one.open);
  shown.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((one, i) => { one.open ||= open[i]; });
  fresh.querySelectorAll(".scroll").forEach((box, i) => { box.scrollLeft = scrolled[i] || 0; });
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  if (remember) history.replaceState(null, "", address);
  begin();
}

function tell(text) {
  document.getElementById("news").textContent = text;
}

function begin() {
  clearTimeout(timer);
  const live = document.getElementById("live");
  const seconds = Number(live?.dataset.refresh || 0);
  if (!seconds) return;
  const button = document.getElementById("pause");
  button.hidden = false;
  button.textContent = paused ? "Go on" : "Pause";
  if (!paused && !document.hidden) {
    timer = setTimeout(() => {
      load(location.href, false).catch(() => {
        tell("This page could not be renewed; the next attempt follows.");
        begin();
      });
    }, seconds * 1000);
  }
}

function follow(address, what) {
  load(address, true).then(() => tell(what)).catch(() => { location.href = address; });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a.sort");
  if (link && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    follow(link.href, `Sorted by ${link.textContent}.`);
  } else if (event.target.id === "pause") {
    paused = !paused;
    tell(paused ? "Paused." : "The page renews itself again.");
    begin();
  }
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.matches(".choose") || form.method !== "get" || form.elements.job?.value) return;
  event.preventDefault();
  const chosen = [...new FormData(form)].filter(([, value]) => value !== "");
  const kept = new URLSearchParams(location.search).get("sort");
  if (kept) chosen.push(["sort", kept]);
  follow(`${location.pathname}?${new URLSearchParams(chosen)}`, "Rows chosen.");
});

document.addEventListener("visibilitychange", begin);
begin();
