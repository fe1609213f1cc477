// Light and dark: as the system has it, until somebody switches.
const YEAR_SECONDS = 365 * 24 * 3600;

export function switches() {
  const link = document.querySelector("[data-switch=theme]");
  const name = link.querySelector("span");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const tell = () => { name.textContent = isDark() ? link.dataset.light : link.dataset.dark; };
  link.setAttribute("role", "button");
  link.addEventListener("click", (event) => {
    event.preventDefault();
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    document.cookie = `theme=${theme}; max-age=${YEAR_SECONDS}; path=/; samesite=lax`;
    tell();
  });
  link.addEventListener("keydown", (event) => { if (event.key === " ") { event.preventDefault(); link.click(); } });
  system.addEventListener("change", tell);
  tell();
}
