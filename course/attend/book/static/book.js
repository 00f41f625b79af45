// Charts and live pictures of the book. Each stands in the page with its data; nothing is fetched.

const DATA = ':scope > script[type="application/json"]';

/** What an anywidget's module needs of a model, where no kernel is behind it. */
class Model {
  constructor(state) {
    this.state = state;
    this.listeners = {};
  }
  get(name) {
    return this.state[name];
  }
  set(name, value) {
    this.state[name] = value;
    for (const call of this.listeners[`change:${name}`] ?? []) call();
  }
  on(event, call) {
    for (const name of event.split(/\s+/)) (this.listeners[name] ??= []).push(call);
  }
  off(event, call) {
    for (const name of event ? event.split(/\s+/) : Object.keys(this.listeners)) {
      this.listeners[name] = (this.listeners[name] ?? []).filter((each) => call && each !== call);
    }
  }
  save_changes() {}
  send() {}
}

function chart(place) {
  const spec = JSON.parse(place.querySelector(DATA).textContent);
  const style =
    ".vega-embed { display: block; position: relative; max-width: 620px; }" +
    ".vega-embed svg.marks { max-width: 100% !important; height: auto; }";
  const drawn = document.createElement("div");
  place.append(drawn);
  window
    .vegaEmbed(drawn, spec, { renderer: "svg", actions: false, defaultStyle: style })
    .catch((error) => (drawn.textContent = `This chart could not be drawn: ${error.message}`));
}

/** Put the live widget in the place of its still picture; keep that one if it does not start. */
async function alive(place) {
  const { _esm: source, ...state } = JSON.parse(place.querySelector(DATA).textContent);
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  const drawn = document.createElement("div");
  try {
    const module = await import(url);
    await module.default.render({ model: new Model(state), el: drawn });
    place.replaceChildren(drawn);
  } finally {
    URL.revokeObjectURL(url);
  }
}

function begin() {
  for (const part of document.querySelectorAll('.caption[role="heading"]')) part.ariaLevel = "2";
  document.querySelectorAll(".attend-chart").forEach(chart);
  document.querySelectorAll(".attend-alive").forEach(alive);
  for (const scrolled of document.querySelectorAll("pre, .table-wrapper, .attend-still, .equation")) {
    if (scrolled.scrollWidth > scrolled.clientWidth) scrolled.tabIndex = 0;
    else if (scrolled.matches(".equation")) scrolled.removeAttribute("tabindex");
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
