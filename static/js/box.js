// What every page does in the browser: find, theme, copy, confirm, times that stay true, and saying when the box is gone.
(() => {
  "use strict";
  const root = document.documentElement;

  // "/" focuses the search unless somebody is typing.
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, textarea, select, [contenteditable]");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    document.getElementById("find")?.focus();
  });

  // The theme is kept in a cookie, so that the server can send the page in it.
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const setTheme = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    document.cookie = `theme=${root.dataset.theme}; path=/; max-age=31536000; samesite=lax`;
    document.dispatchEvent(new CustomEvent("themechange"));
  };

  const copy = async (button) => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      return;
    }
    const label = button.getAttribute("aria-label");
    button.classList.add("done");
    button.setAttribute("aria-label", "Copied");
    setTimeout(() => { button.classList.remove("done"); button.setAttribute("aria-label", label); }, 1500);
  };

  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-theme-toggle]")) setTheme();
    const button = event.target.closest("[data-copy]");
    if (button) copy(button);
  });

  // A question before something that cannot be undone, in a dialog of the page instead of the browser's.
  document.addEventListener("htmx:confirm", (event) => {
    if (!event.detail.question) return;
    event.preventDefault();
    const dialog = document.querySelector("[data-ask]");
    dialog.querySelector("p").textContent = event.detail.question;
    const asker = event.target.querySelector("button"), yes = dialog.querySelector("[value=yes]");
    yes.textContent = asker?.textContent.trim() || "Continue";
    yes.className = asker?.matches(".danger") ? "danger" : "primary";
    dialog.onclick = (click) => {
      const answer = click.target.closest("button")?.value;
      if (!answer) return;
      dialog.close();
      if (answer === "yes") event.detail.issueRequest(true);
    };
    dialog.showModal();
  });

  // A term's explanation, beside it and inside the window; Escape puts it away.
  const explain = (event) => {
    document.querySelectorAll(".term.on").forEach((term) => term.classList.remove("on"));
    const term = event.target.closest?.(".term");
    if (!term || event.key === "Escape") return;
    const tip = term.querySelector(".tip"), place = term.getBoundingClientRect();
    term.classList.add("on");
    const left = Math.min(place.left, innerWidth - tip.offsetWidth - 12);
    const below = place.bottom + 6 + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(12, left)}px`;
    tip.style.top = `${below ? place.bottom + 6 : place.top - tip.offsetHeight - 6}px`;
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, explain);
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") explain(event); });
  document.addEventListener("scroll", () => document.querySelectorAll(".term.on").forEach((term) => term.classList.remove("on")), { capture: true, passive: true });

  // Relative times age while the page stays open.
  const words = (seconds) => {
    const ahead = seconds < 0, s = Math.abs(seconds);
    if (s < 45) return ahead ? "in a moment" : "just now";
    const [n, unit] = s < 3600 ? [Math.max(1, Math.round(s / 60)), "m"] : s < 86400 ? [Math.floor(s / 3600), "h"] : [Math.floor(s / 86400), "d"];
    return ahead ? `in ${n}${unit}` : `${n}${unit} ago`;
  };
  const age = () => document.querySelectorAll("time[data-relative]").forEach((time) => {
    time.textContent = words((Date.now() - Date.parse(time.dateTime)) / 1000);
  });
  setInterval(age, 20000);

  // Say when requests fail for want of an answer, and take it back with the first that succeeds.
  const lost = (is) => { document.querySelector("[data-lost]").hidden = !is; };
  document.addEventListener("htmx:sendError", () => lost(true));
  document.addEventListener("htmx:afterRequest", (event) => { if (event.detail.xhr?.status) lost(false); });

  // What shows live state is asked for again after a change: at most once in `data-fresh` seconds, and never missing the
  // last change, though the answer replaces the very element that asked.
  const asked = new Map(), waiting = new Set();
  const look = (id) => {
    const part = document.getElementById(id);
    waiting.delete(id);
    if (!part) return;
    const due = part.classList.contains("htmx-request") ? 100 : (asked.get(id) ?? -Infinity) + part.dataset.fresh * 1000 - performance.now();
    if (due > 0) {
      waiting.add(id);
      setTimeout(look, due, id);
    } else {
      asked.set(id, performance.now());
      window.htmx.trigger(part, "look");
    }
  };

  // A fresh answer changes only what differs, so that what somebody points at, reads or has opened stays as it is.
  const isTheReaders = (name, node) => (name === "open" && node.matches("details")) || (name === "class" && node.matches(".term.on")) || name === "tabindex";
  if (window.Idiomorph) window.Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !isTheReaders(name, node);

  // A browser keeps few connections to one place: a page that nobody sees gives its stream back until it is seen.
  class Stream {
    constructor(url) {
      this.url = url;
      this.heard = [];
      this.open();
      this.turn = () => document.hidden ? this.source.close() : this.source.readyState === EventSource.CLOSED && this.open();
      document.addEventListener("visibilitychange", this.turn);
    }
    open() {
      this.source = new EventSource(this.url);
      this.source.onopen = (event) => this.onopen?.(event);
      this.source.onerror = (event) => this.onerror?.(event);
      this.source.addEventListener("changed", () => document.querySelectorAll("[data-fresh]").forEach((part) => waiting.has(part.id) || look(part.id)));
      for (const [kind, listener] of this.heard) this.source.addEventListener(kind, listener);
    }
    addEventListener(kind, listener) { this.heard.push([kind, listener]); this.source.addEventListener(kind, listener); }
    removeEventListener(kind, listener) {
      this.heard = this.heard.filter((entry) => entry[0] !== kind || entry[1] !== listener);
      this.source.removeEventListener(kind, listener);
    }
    close() { document.removeEventListener("visibilitychange", this.turn); this.source.close(); }
    get readyState() { return this.source.readyState; }
  }
  if (window.htmx) window.htmx.createEventSource = (url) => new Stream(url);

  // One click, one request: a form sent a moment ago is not sent again.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, 1500);
  }, { capture: true });

  // How much of an upload was sent.
  document.addEventListener("htmx:xhr:progress", (event) => {
    const bar = event.target.querySelector?.("[data-upload-bar]");
    if (!bar || !event.detail.total) return;
    const share = Math.round(event.detail.loaded / event.detail.total * 100);
    bar.hidden = false;
    bar.setAttribute("aria-valuenow", share);
    bar.firstElementChild.style.width = `${share}%`;
  });

  // What scrolls inside itself can be scrolled by keyboard too, and shows its current part.
  const reachable = (where) => where.querySelectorAll(".scroll, pre, .strip, .tabs, .rail nav").forEach((box) => {
    if (box.scrollWidth <= box.clientWidth && box.scrollHeight <= box.clientHeight) return;
    if (!box.matches("nav")) box.tabIndex = 0;
    const current = box.querySelector("[aria-current], .end-good, .end-bad");
    if (current) box.scrollLeft = current.offsetLeft - box.offsetLeft - 12;
  });
  document.addEventListener("htmx:load", (event) => reachable(event.detail.elt.parentElement || document));
  reachable(document);
})();
