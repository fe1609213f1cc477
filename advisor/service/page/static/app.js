// The page works without this file. It redraws answers while one types, draws charts, and keeps addresses true.
import { liven } from "./live.js";
import { dress } from "./dress.js";
import { switches } from "./theme.js";
import { comboboxes } from "./combobox.js";
import { tasks } from "./tasks.js";
import { sliders } from "./sliders.js";
import { followSweeps } from "./sweeps.js";

document.documentElement.classList.add("live");
switches();
comboboxes(document);
sliders(document);
dress(document);
for (const form of document.querySelectorAll("form[data-live]")) { tasks(form); liven(form); }
followSweeps();
