/** What is known of the clicked face, or of the whole mesh where the model names the whole mesh. */

import { GRAY } from "../shared/colors";
import { byId, el, percent, swatch } from "../shared/dom";
import type { ClassEntry, Field, Prediction } from "./layers";

const MOST = 5;

export interface Clicked {
  face: number;
  label: ClassEntry | null;
  prediction: Prediction | null;
  field: { field: Field; value: number } | null;
}

/** The name of what the pointer is on; null takes it away. */
export function showTip(entry: ClassEntry | null | undefined): void {
  const tip = byId("tip");
  tip.hidden = entry === null;
  if (entry === null) return;
  tip.replaceChildren(swatch(entry?.color ?? GRAY), el("span", {}, entry?.name ?? "unlabeled"));
}

export function inspect(clicked: Clicked | null, prediction: Prediction | null): void {
  const box = byId("inspector");
  if (prediction && prediction.rows === 1) {
    const best = prediction.classes[prediction.labels[0]];
    box.replaceChildren(title("Whole mesh", best), el("p", { class: "small" }, `Predicted by ${prediction.model}`));
    box.append(bars(prediction, 0));
  } else if (clicked) {
    const heading = title(`Face ${clicked.face}`, clicked.label);
    heading.dataset.face = String(clicked.face);
    box.replaceChildren(heading);
    if (clicked.field) {
      const { field, value } = clicked.field;
      const number = Number.isNaN(value) ? "none" : value.toPrecision(4);
      box.append(el("p", { class: "small" }, `${field.note}: ${number}`));
    }
    if (clicked.prediction) box.append(bars(clicked.prediction, clicked.face));
  } else {
    box.replaceChildren(
      el("p", { class: "small" }, prediction ? "Click a face to see its probabilities." : "Click a face to see its label."),
    );
  }
}

function title(text: string, entry: ClassEntry | null): HTMLElement {
  const name = el("span", { id: "inspected-class" }, entry?.name ?? "unlabeled");
  return el("h3", {}, swatch(entry?.color ?? GRAY), name, el("span", { class: "small" }, text));
}

function bars({ classes, probabilities }: Prediction, row: number): HTMLElement {
  const n = classes.length;
  const order = [...classes.keys()].sort((a, b) => probabilities[row * n + b] - probabilities[row * n + a]);
  const lines = order.slice(0, MOST).map((i) => {
    const part = probabilities[row * n + i];
    const fill = el("div");
    fill.style.width = `${100 * part}%`;
    fill.style.background = `rgb(${classes[i].color.join(" ")})`;
    const bar = el("div", { class: "track" }, fill);
    return el("div", {}, el("span", { title: classes[i].name }, classes[i].name), bar, el("span", {}, percent(part)));
  });
  const rest = n > MOST ? el("p", { class: "small" }, `and ${n - MOST} more classes`) : null;
  return el("div", { class: "bars" }, ...lines, rest);
}
