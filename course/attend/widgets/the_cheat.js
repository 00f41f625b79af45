// The cheat. Python trains and draws; this asks for another mask, by mouse or by keys.

export default live(({ model, picture, controls, say }) => {
  let chosen = 1;

  const cells = () => picture.querySelectorAll("[data-offset]");

  function frame() {
    for (const cell of cells()) {
      const framed = Number(cell.dataset.offset) === chosen;
      cell.style.stroke = framed ? "#D55E00" : "";
      cell.style.strokeWidth = framed ? "2px" : "";
    }
  }

  function ask(offsets) {
    say("Training …");
    picture.style.opacity = 0.5;
    model.set("offsets", offsets.sort((a, b) => a - b));
    model.save_changes();
  }

  function turn(offset) {
    const open = model.get("offsets");
    ask(open.includes(offset) ? open.filter((one) => one !== offset) : [...open, offset]);
  }

  function show() {
    picture.innerHTML = model.get("picture"); // drawn by the course
    answer();
  }

  function answer() {
    picture.style.opacity = 1;
    say(model.get("said"));
    frame();
  }

  const name = (offset) =>
    offset === 0 ? "itself" : `${Math.abs(offset)} ${offset > 0 ? "ahead" : "back"}`;

  picture.addEventListener("click", (event) => {
    const cell = event.target.closest("[data-offset]");
    if (!cell) return;
    chosen = Number(cell.dataset.offset);
    choice.value = chosen;
    choice.dispatchEvent(new Event("input"));
    turn(chosen);
  });
  const choice = slider(controls, {
    label: "diagonal",
    min: Math.min(...model.get("past")),
    max: model.get("ahead"),
    step: 1,
    value: chosen,
    say: name,
    change: (offset) => {
      chosen = offset;
      frame();
    },
  });
  for (const [label, act] of [
    ["show or hide it", () => turn(chosen)],
    ["only the past", () => ask([...model.get("past")])],
  ]) {
    const button = make("button", { textContent: label, className: "jupyter-button" });
    button.addEventListener("click", act);
    choice.parentNode.append(button);
  }
  model.on("change:picture", show);
  model.on("change:said", answer);
  answer();
});
