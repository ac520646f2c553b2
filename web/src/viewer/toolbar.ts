/** The tools at the edge of the view, and what they can be set to. */

import { byId } from "../shared/dom";
import type { Labels } from "./labels";
import type { Tool } from "./pointer";
import type { Stage } from "./stage";

export function showTool(tool: Tool): void {
  byId("stage").dataset.tool = tool;
  for (const button of document.querySelectorAll<HTMLElement>("#tools [data-tool]")) {
    button.setAttribute("aria-pressed", String(button.dataset.tool === tool));
  }
  byId("tool-options").hidden = tool !== "brush" && tool !== "fill";
  byId("radius-row").hidden = tool !== "brush";
  byId("crease-row").hidden = tool !== "fill";
}

export function showHistory(labels: Labels): void {
  byId<HTMLButtonElement>("undo").disabled = !labels.canUndo;
  byId<HTMLButtonElement>("redo").disabled = !labels.canRedo;
}

/** The bend, in degrees, at which a fill stops. */
export const chosenCrease = (): number => Number(byId<HTMLInputElement>("crease").value);

export function resizeBrush(factor: number): void {
  const radius = byId<HTMLInputElement>("radius");
  const wanted = Math.max(Number(radius.value) * factor, 1);
  radius.value = String(factor > 1 ? Math.ceil(wanted) : Math.floor(wanted));
  radius.dispatchEvent(new Event("input"));
}

export function connectSettings(stage: Stage): void {
  byId("fit").onclick = () => stage.fit();
  byId("edges").onclick = () => (stage.edges = toggled("edges"));
  byId("flat").onclick = () => (stage.lit = !toggled("flat"));
  const radius = byId<HTMLInputElement>("radius");
  radius.oninput = () => (stage.brushRadius = Number(radius.value) / 500);
  radius.dispatchEvent(new Event("input"));
  byId("crease").oninput = () => {
    byId("crease-text").textContent = chosenCrease() === 180 ? "never" : `${chosenCrease()}°`;
  };
}

function toggled(id: string): boolean {
  const on = byId(id).getAttribute("aria-pressed") !== "true";
  byId(id).setAttribute("aria-pressed", String(on));
  return on;
}
