/** What the page tells a person in passing: short messages, and how far the server is. */

import { byId, el, icon } from "../shared/dom";
import type { Progress } from "./server";

const SECONDS = { plain: 6, error: 14 };

interface Action {
  title: string;
  run: () => void;
}

export function say(text: string, action?: Action): void {
  show(text, "plain", action);
}

export const complain = (error: unknown): void => complainWith(error);

/** A complaint with a way out. */
export function complainWith(error: unknown, action?: Action): void {
  show(error instanceof Error ? error.message : String(error), "error", action);
}

function show(text: string, kind: keyof typeof SECONDS, action?: Action): void {
  const box = byId("toasts");
  const same = [...box.children].find((toast) => toast.firstChild?.textContent === text);
  same?.remove();
  const close = el("button", { class: "close", title: "Dismiss", aria: { label: "Dismiss" } }, icon("close"));
  const toast = el("div", { class: `toast ${kind === "error" ? "error" : ""}` }, el("span", {}, text));
  if (action) {
    toast.append(el("button", { class: "link", onclick: () => (toast.remove(), action.run()) }, action.title));
  }
  toast.append(close);
  close.onclick = () => toast.remove();
  box.append(toast);
  while (box.children.length > 3) box.firstChild?.remove();
  setTimeout(() => toast.remove(), SECONDS[kind] * 1000);
}

export function showBusy(progress: Pick<Progress, "stage" | "fraction"> | null): void {
  const box = byId("busy");
  box.hidden = progress === null;
  if (!progress) return;
  const known = progress.fraction !== null;
  box.classList.toggle("unknown", !known);
  byId("busy-stage").textContent = progress.stage;
  byId("busy-part").textContent = known ? `${Math.round(100 * progress.fraction!)} %` : "";
  byId("busy-fill").style.width = known ? `${100 * progress.fraction!}%` : "";
}
