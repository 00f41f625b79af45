// What cannot be read or seen of the course's pictures and cards in this page: text with a contrast
// (WCAG 2.2) under 4.5 : 1 on what it stands on, and outputs that are cut off or scroll sideways.
() => {
  const numbers = (colour) => {
    const [r, g, b, a = 1] = colour.match(/[\d.]+/g)?.map(Number) ?? [0, 0, 0, 0];
    // color-mix() computes to color(srgb …), with shares of 1
    return colour.startsWith("color(srgb") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = (top, below) =>
    [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = (colour) =>
    [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
      const c = colour[i] / 255;
      return sum + weight * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    }, 0);
  const contrast = (one, other) => {
    const [light, dark] = [luminance(one), luminance(other)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  const ground = (node) => {
    const layers = [];
    for (let e = node; e; e = e.parentElement) {
      layers.push(numbers(getComputedStyle(e).backgroundColor));
    }
    return layers.reverse().reduce((base, layer) => over(layer, base), [255, 255, 255, 1]);
  };
  const inside = (box, x, y) => box.x <= x && x <= box.right && box.y <= y && y <= box.bottom;
  const shapesUnder = (text) => {
    const { x, y, width, height } = text.getBoundingClientRect();
    const shapes = text.closest("svg").querySelectorAll("rect, circle, polygon");
    return [...shapes].filter(
      (shape) =>
        shape.compareDocumentPosition(text) & Node.DOCUMENT_POSITION_FOLLOWING &&
        inside(shape.getBoundingClientRect(), x + width / 2, y + height / 2),
    );
  };
  const measured = (node) => {
    const style = getComputedStyle(node);
    const svg = node.closest("svg");
    let below = ground(svg ? svg.parentElement : node);
    for (const shape of svg?.matches("[data-panel]") ? shapesUnder(node) : []) {
      const { fill, fillOpacity } = getComputedStyle(shape);
      if (fill === "none") continue;
      const [r, g, b, a] = numbers(fill);
      below = over([r, g, b, a * fillOpacity], below);
    }
    const [r, g, b, a] = numbers(svg ? style.fill : style.color);
    return contrast(over([r, g, b, a * (svg ? style.opacity * style.fillOpacity : 1)], below), below);
  };
  const written = (node) =>
    [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
  const places = ".attend-view, .attend-card, .vega-embed";
  const texts = [...document.querySelectorAll(places)]
    .flatMap((place) => [place, ...place.querySelectorAll("*")])
    .filter((node) => !node.closest("svg") || node.tagName === "text")
    .filter((node) => written(node) && node.checkVisibility({ opacityProperty: true }));
  const faint = texts
    .map((node) => [measured(node), node.textContent.trim().slice(0, 40)])
    .filter(([ratio]) => ratio < 4.5)
    .map(([ratio, words]) => `${ratio.toFixed(2)}: ${words}`);
  const cut = [...document.querySelectorAll(".jp-OutputArea-output")]
    .filter((output) => output.querySelector(`${places}, svg`) || output.matches(places))
    .filter((output) => output.scrollWidth > output.clientWidth + 1)
    .map((output) => `${output.scrollWidth} > ${output.clientWidth}: ${output.textContent.slice(0, 60)}`);
  return { texts: texts.length, faint: [...new Set(faint)], cut };
};
