// What the modules of live widgets share; it stands in front of each of them (see live.py).

/** Wrap a widget: sentence, picture, a place for controls, and a line that says the numbers. */
function live(begin) {
  return {
    render({ model, el }) {
      el.classList.add("attend-live", "attend-view");
      const see = make("p", { innerHTML: "<strong>What to see.</strong> " });
      see.append(model.get("see"));
      const controls = make("div");
      const picture = make("div", { innerHTML: model.get("picture") }); // drawn by the course
      const said = make("p");
      said.setAttribute("role", "status");
      el.append(see, controls, picture, said);
      const parts = {};
      for (const node of picture.querySelectorAll("[data-part]")) parts[node.dataset.part] = node;
      begin({ model, picture, parts, controls, say: (words) => (said.textContent = words) });
    },
  };
}

function make(tag, properties = {}) {
  return Object.assign(document.createElement(tag), properties);
}

/** Set attributes of an SVG element; numbers are rounded to a tenth of a unit. */
function set(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    node.setAttribute(name, typeof value === "number" ? Math.round(10 * value) / 10 : value);
  }
}

/** Add a labelled slider; `change(value)` is called as it moves, `say(value)` names its value. */
function slider(place, { label, min, max, step, value, say, change }) {
  const input = make("input", { type: "range", min, max, step, value });
  const shown = make("span");
  const update = () => {
    shown.textContent = say(input.valueAsNumber);
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    update();
    change(input.valueAsNumber);
  });
  input.addEventListener("keydown", (event) => event.stopPropagation()); // or Lab takes the arrows
  const row = make("label");
  row.append(label, input, shown);
  place.append(row);
  update();
  return input;
}

/**
 * Let a part of a picture be dragged by mouse, pen or finger, and moved by the arrow keys
 * (with Shift ten times as far). Places are in the plane's own units: `unit` of the picture each,
 * around `centre`, up to `reach` from it in x and in y.
 */
function draggable(node, { name, unit, centre, reach, step, at, move }) {
  const svg = node.ownerSVGElement;
  svg.setAttribute("role", "group"); // an image may hold nothing that one can reach
  // hundredths, which are what is said; + 0 makes a 0 of -0
  const clamp = (value) => Math.round(100 * Math.max(-reach, Math.min(reach, value))) / 100 + 0;
  const update = () => {
    const [x, y] = at();
    set(node, {
      "aria-valuenow": x.toFixed(2),
      "aria-valuetext": `${x.toFixed(2)}, ${y.toFixed(2)}`,
    });
  };
  const go = (x, y) => {
    move([clamp(x), clamp(y)]);
    update();
  };
  set(node, {
    tabindex: "0",
    role: "slider",
    "aria-label": `${name}: drag it, or use the arrow keys`,
    "aria-valuemin": `${-reach}`,
    "aria-valuemax": `${reach}`,
  });
  const follow = (event) => {
    const point = new DOMPoint(event.clientX, event.clientY);
    const { x, y } = point.matrixTransform(svg.getScreenCTM().inverse());
    go((x - centre[0]) / unit, (centre[1] - y) / unit);
  };
  node.addEventListener("pointerdown", (event) => {
    node.setPointerCapture(event.pointerId);
    node.focus();
    event.preventDefault();
  });
  node.addEventListener("pointermove", (event) => {
    if (node.hasPointerCapture(event.pointerId)) follow(event);
  });
  node.addEventListener("keydown", (event) => {
    const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const way = ways[event.key];
    if (!way) return;
    const far = event.shiftKey ? 10 * step : step;
    const [x, y] = at();
    go(x + far * way[0], y + far * way[1]);
    event.preventDefault();
    event.stopPropagation(); // or JupyterLab goes to the next cell
  });
  update();
}
