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

/** Let the controls of a still picture leaf through the table of pictures that comes with it. */
async function leaf(place) {
  const table = place.querySelector(":scope > script");
  const bytes = Uint8Array.from(atob(table.textContent), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { controls, pieces, states } = await new Response(unpacked).json();
  const [widget] = place.children;
  const [see, ...drawn] = widget.children;
  const row = make("div", { className: "attend-controls" });
  const picture = make("div");
  const said = make("p", { className: "attend-said" });
  said.setAttribute("role", "status");
  picture.append(...drawn);
  const chosen = controls.map(({ at }) => at);
  const turn = (which, stop) => {
    chosen[which] = stop;
    const state = chosen.reduce((sum, at, i) => sum * controls[i].stops.length + at, 0);
    picture.innerHTML = states[state].map((piece) => pieces[piece]).join("");
    said.textContent = picture.querySelector("svg")?.getAttribute("aria-label") ?? "";
  };
  controls.forEach((control, which) => row.append(knob(control, (stop) => turn(which, stop))));
  const more = "Pictures made beforehand. In the notebook, the widget has all its controls.";
  widget.replaceChildren(see, row, picture, make("p", { className: "attend-more", textContent: more }), said);
  table.remove();
}

/** A slider or a list for one control; `turn(stop)` is called as it moves. */
function knob({ label, kind, stops, at }, turn) {
  const row = make("label", { textContent: label || "choice" });
  if (kind === "choice") {
    const list = make("select");
    list.append(...stops.map((stop, i) => make("option", { value: i, textContent: stop })));
    list.value = at;
    list.addEventListener("change", () => turn(Number(list.value)));
    row.append(list);
    return row;
  }
  const slider = make("input", { type: "range", min: 0, max: stops.length - 1, step: 1 });
  slider.value = at;
  const shown = make("span");
  const say = () => {
    shown.textContent = stops[slider.valueAsNumber];
    slider.setAttribute("aria-valuetext", shown.textContent);
  };
  slider.addEventListener("input", () => {
    say();
    turn(slider.valueAsNumber);
  });
  say();
  row.append(slider, shown);
  return row;
}

function make(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

function begin() {
  for (const part of document.querySelectorAll('.caption[role="heading"]')) part.ariaLevel = "2";
  document.querySelectorAll(".attend-chart").forEach(chart);
  document.querySelectorAll(".attend-alive").forEach(alive);
  document.querySelectorAll(".attend-leaf").forEach(leaf);
  for (const scrolled of document.querySelectorAll("pre, .table-wrapper, .attend-still, .attend-leaf, .equation")) {
    if (scrolled.scrollWidth > scrolled.clientWidth) scrolled.tabIndex = 0;
    else if (scrolled.matches(".equation")) scrolled.removeAttribute("tabindex");
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
else begin();
