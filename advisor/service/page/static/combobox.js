// A field that finds names while one types (ARIA: an editable combobox with a list). Without a
// script it is a field with the browser's own list.
const TYPING_MS = 120;

export function comboboxes(root) {
  for (const field of root.querySelectorAll("input[data-names]")) combobox(field);
}

function combobox(field) {
  const list = document.createElement("ul");
  list.id = `${field.id}-names`;
  list.className = "names";
  list.setAttribute("role", "listbox");
  list.setAttribute("aria-label", field.labels[0].textContent.trim());
  list.hidden = true;
  field.removeAttribute("list");
  for (const [name, value] of [["role", "combobox"], ["aria-autocomplete", "list"], ["aria-expanded", "false"], ["aria-controls", list.id]]) field.setAttribute(name, value);
  field.after(list);
  const said = document.getElementById("said");
  let [timer, asked, active] = [0, 0, -1];

  const close = () => {
    clearTimeout(timer);
    asked += 1;
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    activate(-1);
  };
  const activate = (at) => {
    active = at;
    [...list.children].forEach((one, number) => one.setAttribute("aria-selected", String(number === at)));
    if (at < 0) return field.removeAttribute("aria-activedescendant");
    field.setAttribute("aria-activedescendant", list.children[at].id);
    return list.children[at].scrollIntoView({ block: "nearest" });
  };
  const find = async () => {
    const mine = (asked += 1);
    let found;
    try {
      const response = await fetch(`/names/${field.dataset.names}?search=${encodeURIComponent(last(field))}&cloud=${field.form.elements.cloud?.value ?? ""}`);
      if (!response.ok) return;
      found = await response.json();
    } catch { return; }
    if (mine !== asked) return;
    if (found.names.some((name) => name.toLowerCase() === last(field).toLowerCase())) field.form.dispatchEvent(new Event("named"));
    if (document.activeElement !== field) return;
    if (!found.names.length || (found.count === 1 && found.names[0] === last(field))) { close(); return; }
    list.replaceChildren(...found.names.map((name, at) => option(list, name, at)));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    activate(-1);
    said.textContent = field.dataset.found.replace("{shown}", found.names.length).replace("{count}", found.count);
  };
  const take = (at) => {
    const name = list.children[at].textContent;
    field.value = field.value.slice(0, field.value.length - last(field).length) + name;
    close();
    field.dispatchEvent(new Event("change", { bubbles: true }));
  };

  field.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(find, TYPING_MS); });
  field.addEventListener("blur", close);
  field.addEventListener("click", () => { if (list.hidden) find(); });
  field.addEventListener("keydown", (event) => {
    const open = !list.hidden;
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key === "Escape" && open) { event.preventDefault(); close(); }
    else if (event.key === "Enter" && open && active >= 0) { event.preventDefault(); take(active); }
    else if (event.key === "Enter") close();
    else if (event.key in steps) {
      event.preventDefault();
      if (!open) find();
      else activate(around(active + steps[event.key], list.children.length));
    }
  });
  // The field keeps the focus: a press on the list takes nothing from it.
  list.addEventListener("mousedown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => { const one = event.target.closest("[role=option]"); if (one) take([...list.children].indexOf(one)); });
}

// -1 is the field itself, on the way around.
function around(at, count) { return at >= count ? -1 : at < -1 ? count - 1 : at; }

// Of several names divided by commas the last one is being typed.
function last(field) {
  return field.dataset.several === undefined ? field.value.trim() : field.value.split(",").at(-1).trim();
}

function option(list, name, at) {
  const one = document.createElement("li");
  one.id = `${list.id}-${at}`;
  one.setAttribute("role", "option");
  one.setAttribute("aria-selected", "false");
  one.textContent = name;
  return one;
}
