// Places of a picture: one tab stop, arrows move along, and each place shows its words. Without a
// script they are plain links with titles.
export function points(figure) {
  for (const marks of figure.querySelectorAll(".marks")) {
    const links = [...marks.querySelectorAll("a")];
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    tip.setAttribute("aria-hidden", "true");
    marks.after(tip);
    const hide = () => { tip.hidden = true; };
    links.forEach((link, at) => {
      link.querySelector("title").remove();
      link.tabIndex = at === 0 ? 0 : -1;
      for (const come of ["focus", "mouseenter"]) link.addEventListener(come, () => show(tip, link));
      for (const go of ["blur", "mouseleave"]) link.addEventListener(go, hide);
      link.addEventListener("keydown", (event) => (event.key === "Escape" ? hide() : move(event, links, at)));
    });
  }
}

function show(tip, link) {
  tip.textContent = link.getAttribute("aria-label");
  tip.hidden = false;
  const [place, frame] = [link.getBoundingClientRect(), tip.parentElement.getBoundingClientRect()];
  const left = place.left - frame.left + place.width / 2 - tip.offsetWidth / 2;
  const above = place.top - frame.top - tip.offsetHeight - 6;
  tip.style.left = `${Math.max(0, Math.min(left, frame.width - tip.offsetWidth))}px`;
  tip.style.top = `${above > 0 ? above : place.bottom - frame.top + 6}px`;
}

function move(event, links, at) {
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -at, End: links.length - 1 - at };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const next = Math.max(0, Math.min(links.length - 1, at + steps[event.key]));
  links[at].tabIndex = -1;
  links[next].tabIndex = 0;
  links[next].focus();
}
