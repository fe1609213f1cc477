// A slider beside a number, on a logarithmic scale; and lists that are moved by one.
const STEPS = 1000;

export function sliders(root) {
  for (const slider of root.querySelectorAll("input[data-slides]")) pair(slider);
  for (const select of root.querySelectorAll("select[data-slider]")) ladder(select);
}

function pair(slider) {
  const number = document.getElementById(slider.dataset.slides);
  const least = Math.log(Number(slider.dataset.least));
  const most = Math.log(Number(slider.dataset.most));
  const follow = () => {
    const value = Number(number.value);
    if (value > 0) slider.value = String(Math.round((STEPS * (Math.log(value) - least)) / (most - least)));
    slider.setAttribute("aria-valuetext", number.value || "–");
  };
  slider.hidden = false;
  slider.addEventListener("input", () => {
    number.value = String(rounded(Math.exp(least + ((most - least) * Number(slider.value)) / STEPS)));
    slider.setAttribute("aria-valuetext", number.value);
    number.form.dispatchEvent(new Event("slid"));
  });
  slider.addEventListener("change", (event) => event.stopPropagation());
  number.addEventListener("input", follow);
  follow();
}

// Two digits are as fine as a thumb is.
function rounded(value) {
  const unit = 10 ** Math.max(Math.floor(Math.log10(value)) - 1, 0);
  return Math.round(value / unit) * unit;
}

// A list of steps is moved by a slider; the list itself stays, unseen, and is what is sent.
function ladder(select) {
  const label = select.form.querySelector(`label[for="${select.id}"]`);
  const slider = document.createElement("input");
  const told = document.createElement("output");
  Object.assign(slider, { type: "range", min: "0", max: String(select.options.length - 1), step: "1", value: String(select.selectedIndex), id: `${select.id}-slider` });
  told.className = "told";
  label.append(told);
  label.htmlFor = slider.id;
  select.tabIndex = -1;
  select.setAttribute("aria-hidden", "true");
  select.after(slider);
  const tell = () => {
    told.textContent = select.options[select.selectedIndex].text;
    slider.setAttribute("aria-valuetext", told.textContent);
  };
  slider.addEventListener("input", () => { select.selectedIndex = Number(slider.value); tell(); });
  tell();
}
