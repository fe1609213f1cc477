// A slider beside a number, on a logarithmic scale; and sliders that say their value.
const STEPS = 1000;

export function sliders(root) {
  for (const slider of root.querySelectorAll("input[data-slides]")) pair(slider);
  for (const slider of root.querySelectorAll("input[type=range][data-says]")) says(slider);
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

// A slider over a list of values: `data-values` holds them, `data-for` the input that is sent.
function says(slider) {
  const values = slider.dataset.values.split(" ");
  const sent = document.getElementById(slider.dataset.for);
  const output = document.getElementById(slider.dataset.says);
  const tell = () => {
    const value = values[Number(slider.value)];
    sent.value = value;
    output.textContent = slider.dataset.unit ? `${value.replace(/[^0-9.].*$/, "")} ${slider.dataset.unit}` : value;
    slider.setAttribute("aria-valuetext", output.textContent);
  };
  slider.addEventListener("input", tell);
  slider.setAttribute("aria-valuetext", output.textContent);
}
