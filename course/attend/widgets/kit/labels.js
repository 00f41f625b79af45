// A slider's handle gets its slider's name and says the value that stands beside it; ipywidgets
// leaves it without a name, and lets it say the number of the choice instead of the choice.

function label(root) {
  for (const slider of root.querySelectorAll(".widget-hslider, .widget-vslider")) {
    const name = slider.querySelector(".widget-label")?.textContent.trim();
    const value = slider.querySelector(".widget-readout")?.textContent.trim();
    for (const handle of slider.querySelectorAll(".noUi-handle")) {
      write(handle, "aria-label", name);
      write(handle, "aria-valuetext", value);
    }
  }
}

function write(node, attribute, words) {
  // only what is new: the observer below would call again for ever
  if (words && node.getAttribute(attribute) !== words) node.setAttribute(attribute, words);
}

export default {
  render({ el }) {
    el.style.display = "none";
    const observer = new MutationObserver(() => label(el.closest(".attend-view") ?? el));
    const begin = () => {
      const root = el.closest(".attend-view");
      if (!root) {
        waiting = requestAnimationFrame(begin); // not in the page yet
        return;
      }
      label(root);
      observer.observe(root, {
        subtree: true,
        childList: true,
        characterData: true,
        attributeFilter: ["aria-valuetext"],
      });
    };
    let waiting = requestAnimationFrame(begin);
    return () => {
      cancelAnimationFrame(waiting);
      observer.disconnect();
    };
  },
};
