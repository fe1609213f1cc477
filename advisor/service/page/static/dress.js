// What new HTML gets: pictures to point at, and buttons that only a script can serve.
import { points } from "./points.js";

export function dress(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) copies(button);
  for (const figure of root.querySelectorAll(".picture")) points(figure);
}

// A button without words of its own copies the address, which is the question.
function copies(button) {
  if (!navigator.clipboard) return;
  button.hidden = false;
  const name = button.textContent;
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(button.dataset.copy || location.href);
    button.textContent = button.dataset.done;
    document.getElementById("said").textContent = button.dataset.done;
    setTimeout(() => { button.textContent = name; }, 2000);
  });
}
