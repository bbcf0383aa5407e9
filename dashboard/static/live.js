// Keeps the open page fresh: refreshes on every event, polls as well, and says how fresh it is.
(() => {
  "use strict";
  const stream = document.getElementById("stream");
  const freshness = document.getElementById("freshness");
  const dialog = document.getElementById("dialog");
  const said = document.getElementById("said");
  const announcer = document.getElementById("announcer");

  const POLL = 5000; // progress and memory make no events
  const CALM = 400; // at most one refresh in this time, and always one after the last event
  const LATE = 3 * POLL;

  let isStreaming = false;
  let hasFailed = false;
  let freshAt = Date.now();
  let askedAt = -CALM;
  let pending = 0;

  const clock = (moment) => moment.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

  function refresh() {
    if (document.hidden || pending) return;
    pending = setTimeout(() => {
      pending = 0;
      askedAt = performance.now();
      htmx.trigger(document.body, "refresh");
    }, Math.max(0, askedAt + CALM - performance.now()));
  }

  function sayFreshness() {
    const isStale = hasFailed || Date.now() - freshAt > LATE;
    const state = isStale ? "stale" : isStreaming ? "live" : "polling";
    const words = { live: "live", polling: "polling", stale: `stale since ${clock(new Date(freshAt))}` };
    if (freshness.dataset.freshness !== state || isStale) freshness.textContent = words[state];
    if (freshness.dataset.freshness === state) return;
    if (isStale) announcer.textContent = `The server does not answer. What you see is of ${clock(new Date(freshAt))}.`;
    else if (freshness.dataset.freshness === "stale") announcer.textContent = "The server answers again.";
    freshness.dataset.freshness = state;
  }

  function follow(isOpen) {
    isStreaming = isOpen;
    refresh();
    sayFreshness();
  }

  function beat() {
    if (document.hidden) return;
    if (!isStreaming) htmx.trigger(stream, "connect");
    refresh();
    sayFreshness();
  }

  function keepFresh() {
    const isRack = (event) => event.detail.ctx?.sourceElement?.id === "rack";
    document.addEventListener("htmx:sse:after:connection", () => follow(true));
    document.addEventListener("htmx:sse:before:connection", (event) => event.detail.connection.attempt && follow(false));
    document.addEventListener("htmx:sse:error", () => follow(false));
    document.addEventListener("htmx:sse:close", () => follow(false));
    document.addEventListener("htmx:sse:after:message", refresh);
    document.addEventListener("htmx:after:request", (event) => {
      if (!isRack(event)) return;
      hasFailed = !event.detail.ctx.response.raw.ok;
      if (!hasFailed) freshAt = Date.now();
      sayFreshness();
    });
    document.addEventListener("htmx:error", (event) => {
      if (!isRack(event)) return;
      hasFailed = true;
      sayFreshness();
    });
    document.addEventListener("visibilitychange", beat);
    setInterval(beat, POLL);
    document.addEventListener("DOMContentLoaded", beat);
  }

  document.addEventListener("htmx:after:swap", (event) => {
    const target = event.detail.ctx.target;
    if (target?.id === "confirmation" && !dialog.open) dialog.showModal();
    if (target !== said) return;
    dialog.close();
    htmx.trigger(document.body, "refresh");
    setTimeout(() => said.replaceChildren(), 12000);
  });

  document.addEventListener("click", (event) => {
    const isOutside = event.target === dialog;
    if (!isOutside && !(dialog.open && event.target.closest("[data-close]"))) return;
    event.preventDefault();
    dialog.close();
  });

  document.addEventListener("pointerover", (event) => {
    const time = event.target.closest?.("time[datetime]");
    if (time) time.title = new Date(time.dateTime).toLocaleString([], { dateStyle: "medium", timeStyle: "long" });
  });

  if (stream) keepFresh();
})();
