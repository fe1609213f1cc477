// Points by keyboard and by mouse: one tab stop a chart, arrows move along, and each point says itself.
export function keys(place, chart, rows) {
  place.querySelectorAll(".point, .tip, .points").forEach((old) => old.remove());
  const group = document.createElement("div");
  group.className = "points";
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", place.dataset.label ?? "");
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const buttons = rows.map((row, at) => point(row, at === 0));
  buttons.forEach((button, at) => {
    const tell = () => say(tip, place, button, rows[at].said);
    button.addEventListener("focus", tell);
    button.addEventListener("mouseenter", tell);
    button.addEventListener("click", tell);
    for (const left of ["blur", "mouseleave"]) button.addEventListener(left, () => { tip.hidden = true; });
    button.addEventListener("keydown", (event) => move(event, buttons, at, tip));
    group.append(button);
  });
  place.append(group, tip);
  const arrange = () => rows.forEach((row, at) => {
    buttons[at].style.left = `${chart.valToPos(row.x, "x") + chart.over.offsetLeft}px`;
    buttons[at].style.top = `${chart.valToPos(row.median ?? row.lower, "y") + chart.over.offsetTop}px`;
  });
  // Layout is done when uPlot has drawn: its first draw comes in a microtask.
  queueMicrotask(() => requestAnimationFrame(arrange));
  place.addEventListener("resized", () => requestAnimationFrame(arrange));
}

function point(row, first) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "point";
  button.tabIndex = first ? 0 : -1;
  button.setAttribute("aria-label", row.said);
  return button;
}

function say(tip, place, button, text) {
  tip.textContent = text;
  tip.hidden = false;
  const room = place.clientWidth - tip.offsetWidth;
  tip.style.left = `${Math.max(0, Math.min(button.offsetLeft + 18, room))}px`;
  const above = button.offsetTop - tip.offsetHeight - 16;
  tip.style.top = `${above > 0 ? above : button.offsetTop + 16}px`;
}

function move(event, buttons, at, tip) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -at, End: buttons.length - 1 - at };
  if (event.key === "Escape") tip.hidden = true;
  if (!(event.key in steps)) return;
  event.preventDefault();
  const next = Math.max(0, Math.min(buttons.length - 1, at + steps[event.key]));
  buttons[at].tabIndex = -1;
  buttons[next].tabIndex = 0;
  buttons[next].focus();
}
