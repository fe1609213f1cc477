// Fields of one task alone: those of the other are neither shown nor sent.
export function tasks(form) {
  const groups = [...form.querySelectorAll("[data-of]")];
  const choose = () => {
    const task = form.querySelector("[name=task]:checked")?.value;
    for (const group of groups) group.hidden = group.disabled = group.dataset.of !== task;
  };
  form.addEventListener("change", (event) => { if (event.target.name === "task") choose(); }, true);
  if (groups.length) choose();
}
