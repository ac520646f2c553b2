/** The tools at the edge of the view, and what they can be set to. */

import { byId, short } from "../shared/dom";
import type { Labels } from "./labels";
import type { Tool } from "./pointer";
import type { Workbench } from "./workbench";

export function showTool(tool: Tool): void {
  byId("stage").dataset.tool = tool;
  for (const button of document.querySelectorAll<HTMLElement>("#tools [data-tool]")) {
    button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
  }
  byId("tool-options").hidden = tool === "look" || tool === "sample";
  byId("radius-row").hidden = tool !== "brush";
  byId("crease-row").hidden = tool !== "fill";
}

export function showHistory(labels: Labels): void {
  byId<HTMLButtonElement>("undo").disabled = !labels.canUndo;
  byId<HTMLButtonElement>("redo").disabled = !labels.canRedo;
  for (const id of ["grow", "shrink"]) byId<HTMLButtonElement>(id).disabled = !labels.region;
}

/** The angle of an edge, in degrees, above which a fill stops. */
export const chosenCrease = (): number => Number(byId<HTMLInputElement>("crease").value);

/** The place of the slider as a radius of the brush, for a mesh of this size. */
export const chosenRadius = (scale: number): number => (Number(byId<HTMLInputElement>("radius").value) * scale) / 500;

export function showRadius(radius: number, scale: number): void {
  byId<HTMLInputElement>("radius").value = String((500 * radius) / scale);
  const number = byId<HTMLInputElement>("radius-number");
  if (document.activeElement !== number) number.value = short(radius); // what is being typed stays
}

export function connectSettings({ stage, painting }: Workbench): void {
  byId("fit").onclick = () => stage.fit();
  byId("edges").onclick = () => (stage.edges = toggled("edges"));
  byId("flat").onclick = () => (stage.lit = !toggled("flat"));
  byId("grow").onclick = painting.grow;
  byId("shrink").onclick = painting.shrink;
  const number = byId<HTMLInputElement>("radius-number");
  number.oninput = () => painting.resize(Number(number.value));
  byId("radius").oninput = () => painting.resize(chosenRadius(painting.scale));
  byId("crease").oninput = () => {
    byId("crease-text").textContent = chosenCrease() === 180 ? "none" : `${chosenCrease()}°`;
  };
}

function toggled(id: string): boolean {
  const on = byId(id).getAttribute("aria-pressed") !== "true";
  byId(id).setAttribute("aria-pressed", String(on));
  return on;
}
