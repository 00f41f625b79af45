// Drag the query. Without a function of the learner's the numbers are worked out here; with one,
// Python answers, and this only moves what is drawn.

/** Softmax attention of one query, and minus the gradient of ½‖output − goal‖² by q. */
function attend(q, stretch, { keys, values, goal }) {
  const scale = stretch / Math.sqrt(q.length);
  const scores = keys.map((key) => scale * (key[0] * q[0] + key[1] * q[1]));
  const largest = Math.max(...scores);
  const exponentials = scores.map((score) => Math.exp(score - largest));
  const total = exponentials.reduce((a, b) => a + b);
  const weights = exponentials.map((e) => e / total);
  const mean = (rows) => [0, 1].map((c) => rows.reduce((sum, row, j) => sum + weights[j] * row[c], 0));
  const output = mean(values);
  const miss = [0, 1].map((c) => output[c] - values[goal][c]);
  // dL/dscore_j = p_j (v_j - o) · (o - goal), and dscore_j/dq = scale · k_j
  const pull = [0, 1].map((c) =>
    values.reduce((sum, value, j) => {
      const along = (value[0] - output[0]) * miss[0] + (value[1] - output[1]) * miss[1];
      return sum - weights[j] * along * scale * keys[j][c];
    }, 0),
  );
  return { weights, output, pull, note: "" };
}

export default live(({ model, picture, parts, controls, say }) => {
  const scene = model.get("scene");
  const spot = ([x, y]) => [scene.centre[0] + scene.unit * x, scene.centre[1] - scene.unit * y];
  const panels = picture.querySelectorAll("svg[data-panel]");
  let answer = null;

  function draw() {
    const q = model.get("q");
    const [x, y] = spot(q);
    set(parts.query, { cx: x, cy: y });
    set(parts["query-line"], { x2: x, y2: y });
    // Python's answer comes a moment later: until then the last one stays
    answer = model.get("asks") ? model.get("answer") : attend(q, model.get("stretch"), scene);
    if (!answer.weights) {
      say(answer.note);
      return;
    }
    const { weights, output, pull, note } = answer;
    const out = spot(output);
    set(parts.output, { cx: out[0], cy: out[1] });
    weights.forEach((weight, j) => {
      const thick = { "stroke-width": 0.5 + 9 * weight, opacity: (0.35 + 0.5 * weight).toFixed(2) };
      set(parts[`fan-${j}`], { x1: x, y1: y, ...thick });
      set(parts[`spoke-${j}`], { x1: out[0], y1: out[1], ...thick });
      parts[`weight-${j}`].textContent = `${scene.tokens[j]} ${weight.toFixed(2)}`;
    });
    const norm = Math.hypot(...pull);
    const long = Math.min(scene.pull * norm, scene.longest);
    const angle = (Math.atan2(-pull[1], pull[0]) * 180) / Math.PI;
    set(parts.pull, {
      transform: `translate(${x} ${y}) rotate(${angle})`,
      visibility: long >= 1 ? "visible" : "hidden",
    });
    set(parts["pull-shaft"], { x2: 13 + long });
    set(parts["pull-head"], { points: `${23 + long},0 ${11 + long},-7 ${11 + long},7` });
    const looks = weights.map((weight, j) => `${scene.tokens[j]} ${weight.toFixed(2)}`).join(", ");
    const pulled = norm < 1e-3 ? norm.toExponential(0) : norm.toFixed(2);
    const words = `Weights: ${looks}; output (${output.map((c) => c.toFixed(2)).join(", ")}); arrow ${pulled}.`;
    for (const panel of panels) {
      const heading = panel.querySelector("text").textContent;
      panel.setAttribute("aria-label", `${heading}. ${words}`);
    }
    say(note ? `${words} ${note}` : words);
  }

  function change(name, value) {
    model.set(name, value);
    model.save_changes();
    draw();
  }

  slider(controls, {
    label: "stretch the scores",
    min: 0,
    max: 6,
    step: 0.25,
    value: Math.log2(model.get("stretch")),
    say: (power) => `× ${(2 ** power).toFixed(power < 3 ? 1 : 0)}`,
    change: (power) => change("stretch", 2 ** power),
  });
  draggable(parts.query, {
    name: "query",
    unit: scene.unit,
    centre: scene.centre,
    reach: scene.reach,
    step: 0.05,
    at: () => model.get("q"),
    move: (q) => change("q", q),
  });
  model.on("change:answer", draw);
  draw();
});
