// A running sweep: each event of its stream has the page ask for how it stands now.
const AT_MOST_EVERY_MS = 400;

export function followSweeps() {
  for (const region of document.querySelectorAll("[data-follows]")) follow(region);
}

function follow(region) {
  if (!running(region)) return;
  let timer = 0;
  const soon = () => { timer ||= setTimeout(async () => { timer = 0; await refresh(region); if (!running(region)) events.close(); }, AT_MOST_EVERY_MS); };
  const events = new EventSource(region.dataset.follows);
  for (const name of ["message", "state", "began", "trial_started", "trial_done", "trial_failed", "trial_lost", "trial_left", "ended", "end", "progress"]) events.addEventListener(name, soon);
  events.addEventListener("error", soon);
}

function running(region) { return region.firstElementChild?.dataset.runs === "1"; }

async function refresh(region) {
  try {
    const response = await fetch(region.dataset.part);
    if (response.status === 401 || response.status === 403) { region.innerHTML = document.getElementById("key-refused").innerHTML; return; }
    if (!response.ok) return;
    const before = region.firstElementChild?.dataset.said;
    region.innerHTML = await response.text();
    const said = region.firstElementChild?.dataset.said;
    if (said !== before) document.getElementById("said").textContent = said;
  } catch { /* The stream tries again by itself, and so does this with its next event. */ }
}
