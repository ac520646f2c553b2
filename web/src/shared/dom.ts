/** Short ways to find and make elements. */

export function byId<T extends HTMLElement = HTMLElement>(id: string): T {
  return document.getElementById(id) as T;
}

type Child = Node | string | null;

export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> & { class?: string; aria?: Record<string, string> } = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const { class: className, aria = {}, ...rest } = properties;
  const element = document.createElement(tag);
  Object.assign(element, rest);
  if (className) element.className = className;
  for (const [key, value] of Object.entries(aria)) element.setAttribute(key === "role" ? key : `aria-${key}`, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

export function icon(name: string): SVGElement {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

export function swatch(rgb: ArrayLike<number>): HTMLElement {
  const box = el("span", { class: "swatch" });
  box.style.background = `rgb(${rgb[0]} ${rgb[1]} ${rgb[2]})`;
  return box;
}

export const percent = (part: number): string =>
  part > 0 && part < 0.001 ? "<0.1 %" : `${(100 * part).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %`;

/** A number in three digits. */
export const short = (value: number): string => (Number.isFinite(value) ? Number(value.toPrecision(3)).toString() : "none");
