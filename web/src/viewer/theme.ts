/** Dark and light: what the system says, until a person says otherwise. */

import { byId } from "../shared/dom";

export function followTheme(changed: (markColor: string) => void): void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const apply = () => {
    const theme = localStorage.getItem("theme") ?? (system.matches ? "dark" : "light");
    document.documentElement.dataset.theme = theme;
    changed(getComputedStyle(document.documentElement).getPropertyValue("--mark").trim());
  };
  system.addEventListener("change", apply);
  byId("theme").onclick = () => {
    localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
    apply();
  };
  apply();
}
