/** The list of classes: color, name, share of the surface, and whether it is seen. One of them is painted with. */

import { byId, el, icon, percent, swatch } from "../shared/dom";
import { GRAY, parseHex, toHex } from "../shared/colors";
import type { ClassEntry } from "./layers";
import { UNLABELED } from "./labels";

export interface LegendEvents {
  activate(label: number): void;
  /** A color or whether a class is seen has changed. */
  recolor(): void;
  rename(): void;
}

export function drawLegend(
  classes: ClassEntry[],
  shares: Float64Array,
  active: number,
  editable: boolean,
  events: LegendEvents,
): void {
  const rows = classes.map((entry, label) =>
    row(entry, label, percent(shares[label + 1]), label === active, editable, events),
  );
  if (editable || shares[0]) {
    const bare: ClassEntry = { name: "unlabeled", color: GRAY, hidden: false };
    rows.push(row(bare, UNLABELED, percent(shares[0]), active === UNLABELED, editable, events));
  }
  byId("legend").replaceChildren(...rows);
  byId("add-class").hidden = !editable;
}

/** Scrolls to the class that is painted with, where it is out of sight. */
export function revealActive(): void {
  const row = byId("legend").querySelector("[aria-current=true]");
  if (!row) return;
  const [here, panel, inspector] = [row, byId("panel"), byId("inspector")].map((it) => it.getBoundingClientRect());
  if (here.top < panel.top || here.bottom > inspector.top) row.scrollIntoView({ block: "center" });
}

/** The share of the surface that each label covers, unlabeled first. */
export function sharesOf(labels: Int32Array, areas: Float32Array, nClasses: number): Float64Array {
  const covered = new Float64Array(nClasses + 1);
  labels.forEach((label, face) => (covered[label >= 0 && label < nClasses ? label + 1 : 0] += areas[face]));
  const total = covered.reduce((sum, area) => sum + area, 0);
  return covered.map((area) => area / total);
}

function row(
  entry: ClassEntry,
  label: number,
  share: string,
  active: boolean,
  editable: boolean,
  events: LegendEvents,
): HTMLElement {
  const isClass = label !== UNLABELED;
  const color = swatch(entry.color);
  if (editable && isClass) color.append(colorInput(entry, events));
  const item = el(
    "li",
    { class: entry.hidden ? "off" : "", tabIndex: 0 },
    editable ? el("span", { class: "key" }, String(label + 1)) : null,
    color,
    editable && isClass ? nameInput(entry, events) : el("span", { class: "name" }, entry.name),
    el("span", { class: "share" }, share),
    isClass ? eye(entry, events) : el("span", { class: "see" }),
  );
  item.dataset.label = String(label);
  item.title = editable ? `Paint with ${entry.name} (${label + 1})` : entry.name;
  if (editable) {
    item.setAttribute("aria-current", String(active));
    item.onclick = () => events.activate(label);
    item.onkeydown = (event) => {
      if (event.target === item && (event.key === "Enter" || event.key === " ")) {
        event.preventDefault();
        event.stopPropagation();
        events.activate(label);
      }
    };
  }
  return item;
}

function colorInput(entry: ClassEntry, events: LegendEvents): HTMLElement {
  const input = el("input", { type: "color", value: toHex(entry.color), aria: { label: `Color of ${entry.name}` } });
  input.oninput = () => {
    entry.color = parseHex(input.value);
    input.parentElement!.style.background = input.value;
    events.recolor();
  };
  return input;
}

function nameInput(entry: ClassEntry, events: LegendEvents): HTMLElement {
  const input = el("input", { class: "name", value: entry.name, spellcheck: false, aria: { label: "Class name" } });
  input.maxLength = 60;
  input.onkeydown = (event) => {
    event.stopPropagation();
    if (event.key === "Enter" || event.key === "Escape") input.blur();
  };
  input.onchange = () => {
    entry.name = input.value.trim() || entry.name;
    events.rename();
  };
  return input;
}

function eye(entry: ClassEntry, events: LegendEvents): HTMLElement {
  const title = `${entry.hidden ? "Show" : "Hide"} ${entry.name}`;
  const button = el("button", { class: "see", title, aria: { label: title } }, icon(entry.hidden ? "eye-off" : "eye"));
  button.onclick = (event) => {
    event.stopPropagation();
    entry.hidden = !entry.hidden;
    events.recolor();
    events.rename();
  };
  return button;
}
