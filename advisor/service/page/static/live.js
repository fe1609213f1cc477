// A form whose answer is asked for again whenever it changes: the last question wins.
import { dress } from "./dress.js";
import { sliders } from "./sliders.js";

const TYPING_MS = 350;
const SLIDING_MS = 60;
const SLOW_MS = 1500;
const TOO_SLOW_MS = 60_000;

// What the page shows; going back to another question loads it. A jump to #main is none.
let shown = location.search;
window.addEventListener("popstate", () => { if (location.search !== shown) location.reload(); });

export function liven(form) {
  const region = document.getElementById(form.getAttribute("data-live"));
  let timer = 0;
  let asking = null;
  const later = (wait, told) => {
    clearTimeout(timer);
    timer = setTimeout(() => ask(told), wait);
  };
  const ask = async (told = "replace") => {
    asking?.abort();
    asking = new AbortController();
    const mine = asking;
    const query = words(form);
    region.setAttribute("aria-busy", "true");
    const slow = setTimeout(() => tellSlow(region), SLOW_MS);
    const html = await answer(form, query, AbortSignal.any([mine.signal, AbortSignal.timeout(TOO_SLOW_MS)]));
    clearTimeout(slow);
    if (mine !== asking) return;
    region.removeAttribute("aria-busy");
    region.querySelector(":scope > .slow")?.remove();
    if (mine.signal.aborted) return;
    if (isOther(form, html)) { location.assign(otherAddress(form)); return; }
    show(region, form, html);
    if (!form.hasAttribute("data-inner")) remember(form, query, told);
  };
  form.addEventListener("named", () => later(TYPING_MS));
  form.addEventListener("input", (event) => {
    // Half a name is no question: its field says when it is whole.
    if (event.target.dataset.names !== undefined) return;
    if (event.target.dataset.slides === undefined && event.target.type !== "radio") later(event.target.type === "range" ? SLIDING_MS : TYPING_MS);
  });
  form.addEventListener("slid", () => later(SLIDING_MS));
  form.addEventListener("change", (event) => later(event.target.type === "radio" || event.target.tagName === "SELECT" ? 0 : TYPING_MS, "push"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(timer);
    ask("push");
  });
  region.addEventListener("click", (event) => {
    if (event.target.closest("[data-again]")) ask();
    if (event.target.closest("[data-stop]")) asking.abort();
  });
}

// Above the old answer, which stays readable while the new one is computed.
function tellSlow(region) {
  if (!region.querySelector(":scope > .slow")) region.prepend(document.getElementById("slow").content.cloneNode(true));
}

// The words that say something: a form sends empty ones too.
function words(form) {
  const query = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) query.append(name, value.trim());
  return query;
}

// The region's new HTML; what to do where the server is away is a template of the page.
async function answer(form, query, signal) {
  const asked = new URLSearchParams(query);
  asked.set("part", form.hasAttribute("data-inner") ? "inner" : "answer");
  const lang = new URLSearchParams(location.search).get("lang");
  if (lang) asked.set("lang", lang);
  try {
    const response = await fetch(`${form.getAttribute("action")}?${asked}`, { signal });
    if (response.status === 401 || response.status === 403) return template("key-refused");
    if (response.status === 429 || response.status >= 500) return template("server-away");
    return await response.text();
  } catch (error) {
    return error.name === "AbortError" ? "" : template("server-away");
  }
}

// Networks and language models have other fields: a name of the other kind gets its own form.
function isOther(form, html) {
  const speaks = /data-speaks="(1?)"/.exec(html);
  return speaks !== null && form.dataset.speaks !== undefined && speaks[1] !== form.dataset.speaks && !html.includes('class="problem"');
}

function otherAddress(form) {
  const kept = new URLSearchParams();
  for (const name of ["model", "instance", "cloud", "region"]) if (form.elements[name]?.value) kept.set(name, form.elements[name].value);
  const lang = new URLSearchParams(location.search).get("lang");
  if (lang) kept.set("lang", lang);
  return `${form.getAttribute("action")}?${kept}`;
}

function template(id) {
  return document.getElementById(id).innerHTML;
}

function show(region, form, html) {
  const open = [...region.querySelectorAll("details")].map((one) => one.open);
  region.innerHTML = html;
  region.querySelectorAll("details").forEach((one, at) => { if (open[at]) one.open = true; });
  sliders(region);
  dress(region);
  for (const inner of region.querySelectorAll("form[data-live]")) liven(inner);
  const told = region.firstElementChild;
  mark(form, told?.dataset.wrong ?? "", region);
  if (told?.dataset.said) document.getElementById("said").textContent = told.dataset.said;
}

// Which fields are wrong; the words stand in the answer, which says them aloud.
function mark(form, wrong, region) {
  const names = wrong.split(" ").filter(Boolean);
  for (const field of form.elements) {
    if (names.includes(field.name)) {
      field.setAttribute("aria-invalid", "true");
      const box = region.querySelector(".problem");
      if (box) {
        box.id = "problem";
        field.setAttribute("aria-describedby", "problem");
      }
    } else if (field.getAttribute("aria-invalid")) {
      field.removeAttribute("aria-invalid");
      document.getElementById(`${field.name}-wrong`)?.remove();
      const hint = document.getElementById(`${field.name}-hint`);
      hint ? field.setAttribute("aria-describedby", hint.id) : field.removeAttribute("aria-describedby");
    }
  }
}

function remember(form, query, told) {
  const lang = new URLSearchParams(location.search).get("lang");
  if (lang) query.set("lang", lang);
  const address = `${form.getAttribute("action")}?${query.toString().replaceAll("%3A", ":").replaceAll("%2C", ",")}`;
  if (address === location.pathname + location.search) return;
  told === "push" ? history.pushState(null, "", address) : history.replaceState(null, "", address);
  shown = location.search;
  for (const link of document.querySelectorAll("a[data-switch]")) {
    const changed = new URLSearchParams(query);
    const kind = link.dataset.switch;
    changed.set(kind, new URLSearchParams(new URL(link.href).search).get(kind));
    link.search = changed.toString();
  }
}
