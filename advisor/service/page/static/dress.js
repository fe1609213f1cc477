// What new HTML gets: charts, and buttons that only a script can serve.
import { draw } from "./charts.js";

export function dress(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) copies(button);
  for (const place of root.querySelectorAll("[data-plot]")) draw(place);
}

function copies(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  const name = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = button.dataset.done;
    document.getElementById("said").textContent = button.dataset.done;
    setTimeout(() => { button.textContent = name; }, 2000);
  });
}
