/** What stands beside the mesh: layers, legend, scores, and the note under the pointer. */

import { GRAY, type RGB } from "../shared/colors";
import { byId, el, percent, short, swatch } from "../shared/dom";
import { look } from "../shared/look";
import type { LabelLayer, Layer } from "./mesh";

export function showLayers(layers: Layer[], chosen: number, choose: (i: number) => void): void {
  const buttons = layers.map((layer, i) => {
    const aria = { role: "radio", checked: String(i === chosen) };
    return el("button", { type: "button", onclick: () => choose(i), aria }, layer.name);
  });
  byId("layers").replaceChildren(...(layers.length > 1 ? buttons : []));
}

/** The legend of a layer. A click switches a class off and on; a double click leaves it alone on. */
export function showLegend(layer: Layer | undefined, shares: number[], hidden: Set<number>, changed: () => void): void {
  const legend = byId("legend");
  if (!layer) return legend.replaceChildren();
  if (layer.kind === "field") {
    const bar = el("div", { class: "bar" });
    bar.style.background = `linear-gradient(90deg,${look.colormaps[layer.colormap].join(",")})`;
    const [low, high] = layer.limits.map((limit) => el("span", {}, short(limit)));
    return legend.replaceChildren(bar, el("div", { class: "ends" }, low, high));
  }
  const rows = layer.classes.map((name, i) => {
    const share = el("span", { class: "of" }, shares[i] > 0 ? percent(shares[i]) : "");
    const row = el(
      "button",
      { type: "button", class: "class", title: "Click: hide or show. Double click: show only this." },
      swatch(layer.colors[i]),
      el("span", { class: "word" }, name),
      share,
    );
    row.onclick = () => update(() => (hidden.has(i) ? hidden.delete(i) : hidden.add(i)));
    row.ondblclick = () =>
      update(() => {
        const alone = layer.classes.every((_, j) => j === i || hidden.has(j));
        hidden.clear();
        if (!alone) layer.classes.forEach((_, j) => j !== i && hidden.add(j));
      });
    return row;
  });
  const press = () => rows.forEach((row, i) => row.setAttribute("aria-pressed", String(!hidden.has(i))));
  const update = (change: () => void) => {
    change();
    press();
    changed();
  };
  press();
  legend.replaceChildren(...rows);
}

export function showScores(scores: [string, number][]): void {
  const rows = scores.map(([name, share]) => {
    const row = el("div", { class: "score" }, el("span", {}, name), el("span", {}, percent(share)), el("i"));
    row.style.setProperty("--share", `${100 * share}%`);
    return row;
  });
  byId("scores").replaceChildren(...rows);
}

export function showTip(x: number, y: number, lines: HTMLElement[]): void {
  const tip = byId("tip");
  tip.replaceChildren(...lines);
  tip.hidden = false;
  tip.style.left = `${Math.min(x + 16, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(y + 16, innerHeight - tip.offsetHeight - 8)}px`;
}

/** What a layer says of one of its elements. */
export function described(layer: Layer | undefined, at: number, where: string): HTMLElement[] {
  const place = el("small", {}, where);
  if (!layer) return [place];
  if (layer.kind === "field") return [el("b", {}, `${layer.name} ${short(layer.numbers[at])}`), el("br"), place];
  const rows: HTMLElement[] = [];
  for (let k = layer.nBest * at; k < layer.nBest * (at + 1); k++) {
    const share = layer.shares[k] / 255;
    if (rows.length && share < 0.005) break;
    rows.push(tipRow(layer, layer.best[k], percent(share)));
  }
  return [...(rows.length ? rows : [tipRow(layer, layer.numbers[at], "")]), place];
}

function tipRow(layer: LabelLayer, label: number, share: string): HTMLElement {
  const [name, color]: [string, RGB] = label < 0 ? ["no label", GRAY] : [layer.classes[label], layer.colors[label]];
  return el("div", { class: "row" }, swatch(color), el("b", {}, name), el("span", { class: "of" }, share));
}
