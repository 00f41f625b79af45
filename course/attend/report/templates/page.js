(() => {
  const table = document.querySelector("table.heat");
  if (!table) return;
  const body = table.tBodies[0], rows = [...body.rows];
  const link = (pattern, id, text) => {
    const made = document.createElement("a");
    made.href = pattern.replace("STUDENT", encodeURIComponent(id));
    made.textContent = text;
    return made;
  };
  for (const row of rows) {
    const head = row.cells[0], name = head.textContent;
    const id = head.dataset.id ? decodeURIComponent(head.dataset.id) : name;
    const { feedback, copy } = table.dataset;
    if (feedback) head.replaceChildren(link(feedback, id, name));
    if (copy) head.append(" ", link(copy, id, "copy"));
    if (copy) head.lastChild.className = "copy";
    row.name = name.toLowerCase();
  }
  const value = (row, column) => {
    if (column === 0) return row.name;
    const number = row.cells.length > column ? parseFloat(row.cells[column].textContent) : -2;
    return Number.isFinite(number) ? number : -1;
  };
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") === (column ? "descending" : "ascending");
      const first = column ? !up : up, sign = first ? -1 : 1;
      for (const other of head.parentNode.cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", first ? "descending" : "ascending");
      rows.sort((a, b) => sign * order(value(a, column), value(b, column)) || order(a.name, b.name));
      body.append(...rows);
    });
  });
  const box = document.createElement("input"), said = document.createElement("output");
  box.type = "search";
  box.placeholder = "find a student";
  box.setAttribute("aria-label", "Find a student");
  box.addEventListener("input", () => {
    const words = box.value.trim().toLowerCase();
    let shown = 0;
    for (const row of rows) shown += !(row.hidden = !row.name.includes(words));
    said.textContent = words ? ` ${shown} of ${rows.length}` : "";
  });
  const line = document.createElement("p");
  line.append(box, said);
  table.parentNode.before(line);
})();
