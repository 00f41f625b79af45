// Draw a curve. Without functions of the learner's the state is worked out here; with them, Python
// answers, and this only moves what is drawn.

/** The state of N numbers that has read the curve, and the curve that it draws back. */
function remember(curve, size, span, { steps, spans }) {
  const [a, b] = steps[spans.indexOf(span)];
  let state = new Array(size).fill(0);
  for (const x of curve) {
    const before = state;
    state = before.map((_, n) => b[n] * x + before.reduce((sum, h, k) => sum + a[n][k] * h, 0));
  }
  const drawn = curve.map((_, i) => {
    const age = (span / curve.length) * (curve.length - 1 - i + 0.5);
    const z = 2 * Math.exp(-age) - 1;
    let [before, now, sum] = [0, 1, 0]; // Legendre's polynomials at z, one after the other
    for (let n = 0; n < size; n++) {
      sum += state[n] * Math.sqrt(2 * n + 1) * now;
      [before, now] = [now, ((2 * n + 1) * z * now - n * before) / (n + 1)];
    }
    return sum;
  });
  return { size, span, state, drawn, note: "" };
}

export default live(({ model, picture, parts, controls, say }) => {
  const scene = model.get("scene");
  const panels = picture.querySelectorAll("svg[data-panel]");
  const count = model.get("curve").length;
  const step = scene.wide / (count - 1);
  const limit = (value) => Math.max(-1.08, Math.min(1.08, value));
  const spots = (values) =>
    values.map((v, i) => `${(scene.left + step * i).toFixed(1)},${(scene.middle - scene.tall * limit(v)).toFixed(1)}`).join(" ");
  let at = Math.floor(count / 2);

  function draw() {
    const curve = model.get("curve");
    set(parts.curve, { points: spots(curve) });
    set(parts.pen, { cx: scene.left + step * at, cy: scene.middle - scene.tall * curve[at] });
    set(parts.pen, { "aria-valuenow": curve[at].toFixed(2), "aria-valuetext": `place ${at + 1} of ${count}, height ${curve[at].toFixed(2)}` });
    const own = model.get("asks"); // Python's answer comes a moment later
    const answer = own ? model.get("answer") : remember(curve, model.get("size"), model.get("span"), scene);
    if (!answer.drawn) {
      say(answer.note);
      return;
    }
    set(parts.drawn, { points: spots(answer.drawn) });
    const { tall } = scene.bar;
    for (let n = 0; n < scene.most; n++) {
      const value = answer.state[n] ?? 0;
      const high = Math.min(Math.abs(tall * value), scene.tall);
      set(parts[`number-${n}`], { y: value > 0 ? scene.middle - high : scene.middle, height: high });
    }
    const off = (from, to) => {
      const part = curve.slice(from, to).map((v, i) => (v - answer.drawn[from + i]) ** 2);
      return Math.sqrt(part.reduce((a, b) => a + b, 0) / part.length).toFixed(2);
    };
    const half = Math.floor(count / 2);
    const many = `${answer.size} ${answer.size > 1 ? "numbers draw" : "number draws"}`;
    const words = `${many} it back: off by ${off(0, half)} in its older half, by ${off(half, count)} in its newer half.`;
    for (const panel of panels) {
      const heading = panel.querySelector("text").textContent;
      panel.setAttribute("aria-label", `${heading}. ${words}`);
    }
    say(answer.note ? `${words} ${answer.note}` : words);
  }

  function change(name, value) {
    model.set(name, value);
    model.save_changes();
    draw();
  }

  /** Draw a straight stroke of the pen, from one place and height to another. */
  function stroke(from, to) {
    const curve = [...model.get("curve")];
    const far = Math.max(1, Math.abs(to[0] - from[0]));
    for (let k = 0; k <= far; k++) {
      const place = Math.round(from[0] + ((to[0] - from[0]) * k) / far);
      curve[place] = Math.round(100 * (from[1] + ((to[1] - from[1]) * k) / far)) / 100;
    }
    at = to[0];
    choice.value = "";
    change("curve", curve);
  }

  const where = (event) => {
    const svg = parts.field.ownerSVGElement;
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const place = Math.max(0, Math.min(count - 1, Math.round((x - scene.left) / step)));
    return [place, Math.max(-1, Math.min(1, (scene.middle - y) / scene.tall))];
  };
  let last = null;
  for (const node of [parts.field, parts.pen]) {
    node.style.touchAction = "none";
    node.style.cursor = "crosshair";
    node.addEventListener("pointerdown", (event) => {
      node.setPointerCapture(event.pointerId);
      parts.pen.focus();
      event.preventDefault();
      last = where(event);
      stroke(last, last);
    });
    node.addEventListener("pointermove", (event) => {
      if (!node.hasPointerCapture(event.pointerId)) return;
      const now = where(event);
      stroke(last, now);
      last = now;
    });
  }
  parts.field.ownerSVGElement.setAttribute("role", "group");
  set(parts.pen, {
    tabindex: "0",
    role: "slider",
    "aria-label": "pen: draw with it, or move it by the arrow keys (up and down bend the curve)",
    "aria-valuemin": "-1",
    "aria-valuemax": "1",
  });
  parts.pen.addEventListener("keydown", (event) => {
    const far = event.shiftKey ? 10 : 1;
    const way = { ArrowLeft: -far, ArrowRight: far }[event.key];
    const bend = { ArrowUp: 0.05 * far, ArrowDown: -0.05 * far }[event.key];
    if (way) {
      at = Math.max(0, Math.min(count - 1, at + way));
      draw();
    } else if (bend) {
      choice.value = "";
      const bent = model.get("curve").map((v, i) => v + bend * Math.exp(-(((i - at) / 5) ** 2)));
      change("curve", bent.map((v) => Math.round(100 * Math.max(-1, Math.min(1, v))) / 100));
    } else return;
    event.preventDefault();
    event.stopPropagation(); // or JupyterLab goes to the next cell
  });

  slider(controls, {
    label: "numbers N",
    min: 1,
    max: scene.most,
    step: 1,
    value: model.get("size"),
    say: (size) => `${size}`,
    change: (size) => change("size", size),
  });
  slider(controls, {
    label: "time that passes",
    min: 0,
    max: scene.spans.length - 1,
    step: 1,
    value: scene.spans.indexOf(model.get("span")),
    say: (i) => `${scene.spans[i]} (Δ = ${(scene.spans[i] / count).toFixed(3)})`,
    change: (i) => change("span", scene.spans[i]),
  });
  const row = make("label");
  const choice = make("select");
  choice.append(make("option", { value: "", textContent: "yours" }));
  for (const name of Object.keys(scene.curves)) choice.append(make("option", { value: name, textContent: name }));
  choice.value = "waves";
  choice.addEventListener("change", () => {
    if (choice.value) change("curve", scene.curves[choice.value]);
  });
  row.append("curve", choice);
  controls.append(row);
  model.on("change:answer", draw);
  draw();
});
