"use strict";
// What the page shows is in its address: #section?name=value&... Every view has a link, which restores it.

const State = (() => {
  const listeners = [];
  let values = new URLSearchParams();
  let anchor = "";

  /** Undo the percent signs of an address, if it is whole: a link may have been cut off. */
  function decoded(text) {
    try {
      return decodeURIComponent(text);
    } catch {
      return text;
    }
  }

  /** Take section and values from the address; a plain #section leaves the view as it is. */
  function read() {
    const [place, query] = location.hash.slice(1).split("?");
    anchor = decoded(place);
    if (query !== undefined) {
      values = new URLSearchParams(query);
      document.getElementById(anchor)?.scrollIntoView();
    }
  }

  function link(place = anchor) {
    const query = values.toString();
    return `#${place}${query ? `?${query}` : ""}`;
  }

  /** Set values of a section, null for the usual; the address follows, and so does everything that listens. */
  function set(place, changes) {
    for (const [name, value] of Object.entries(changes)) {
      if (value === null || value === "") values.delete(name);
      else values.set(name, value);
    }
    anchor = place;
    history.replaceState(null, "", link() === `#${place}` ? `#${place}?` : link());
    listeners.forEach((listen) => listen());
  }

  window.addEventListener("hashchange", () => {
    read();
    listeners.forEach((listen) => listen());
  });
  read();
  return {
    get: (name, usual = null) => values.get(name) ?? usual,
    list: (name) => (values.get(name) || "").split(",").filter(Boolean).map(decoded),
    set,
    link,
    listen: (listener) => listeners.push(listener),
  };
})();
