// Follows a job without loading its page anew: on each event the page is fetched again, and what
// has changed in it is put in place. Elements that stay the same element keep focus, scrolling and
// open details. Without this script the page asks for itself again.
"use strict";

(() => {
  // Every change of the status comes as progress too.
  const EVENTS = ["progress", "backend", "stop_requested", "result_stored"];
  // Some news has no event, such as trouble of the backend, and a proxy may cut the events off.
  const POLL_MS = 10_000;

  const live = document.getElementById("live");
  if (!live || "ended" in live.dataset) return;

  /** What an element is, whatever it holds: two of one kind are the same element, changed. */
  const kind = (node) =>
    node.nodeType === Node.ELEMENT_NODE
      ? [node.nodeName, node.id, node.classList[0], node.getAttribute("aria-labelledby"),
          node.getAttribute("action")].join(" ")
      : node.nodeName;

  /** The old node that a fresh one takes the place of: only elements are looked for further on. */
  const matching = (place, fresh) => {
    if (fresh.nodeType !== Node.ELEMENT_NODE) {
      return place && kind(place) === kind(fresh) ? place : null;
    }
    let found = place;
    while (found && kind(found) !== kind(fresh)) found = found.nextSibling;
    return found;
  };

  const copyAttributes = (old, fresh) => {
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    for (const { name } of [...old.attributes]) {
      // Whether details are open is the reader's own.
      if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    }
  };

  const update = (old, fresh) => {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    copyAttributes(old, fresh);
    let place = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const match = matching(place, next);
      if (!match) {
        old.insertBefore(next, place);
        continue;
      }
      while (place !== match) {
        const gone = place;
        place = place.nextSibling;
        gone.remove();
      }
      update(match, next);
      place = match.nextSibling;
    }
    while (place) {
      const gone = place;
      place = place.nextSibling;
      gone.remove();
    }
  };

  const show = (fresh) => {
    const hadFocus = live.contains(document.activeElement);
    const log = live.querySelector("pre");
    const wasAtEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    update(live, fresh);
    // The button that had the focus may be gone: what came of it takes it.
    if (hadFocus && !live.contains(document.activeElement)) {
      live.querySelector(".verdict").focus({ preventScroll: true });
    }
    if (wasAtEnd) log.scrollTop = log.scrollHeight;
  };

  const load = async () => {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.redirected) {
      // The login has ended.
      location.reload();
    } else if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.getElementById("live");
      if (fresh) show(fresh);
    }
  };

  let isLoading = false;
  let isWanted = false;
  const refresh = async () => {
    isWanted = true;
    if (isLoading) return;
    isLoading = true;
    while (isWanted) {
      isWanted = false;
      // A service that is away for now is asked again later.
      await load().catch(() => {});
    }
    isLoading = false;
    if ("ended" in live.dataset) stop();
  };

  const source = new EventSource(`${location.pathname}/events`);
  for (const name of EVENTS) source.addEventListener(name, refresh);
  const timer = setInterval(() => document.hidden || refresh(), POLL_MS);
  const stop = () => {
    source.close();
    clearInterval(timer);
  };
})();
