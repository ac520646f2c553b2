/** Starts the page: asks the server what there is, and connects buttons, keys and dropped files to the workbench. */

import { byId, el } from "./dom";
import { listenToKeys } from "./keys";
import { complain } from "./notices";
import { Opening } from "./opening";
import { prepareSaving } from "./saving";
import { server, type Session } from "./server";
import type { Tool } from "./stage";
import { followTheme } from "./theme";
import { Workbench } from "./workbench";

const bench = new Workbench(byId("stage"));
followTheme((color) => (bench.stage.markColor = color));
server.session().then(start, complain);

function start(session: Session): void {
  const opening = new Opening(bench, session);
  const model = byId<HTMLSelectElement>("model");
  fillModels(model, session);
  const predict = () => void opening.predict(model.value);
  const save = prepareSaving(bench, opening, session);
  const file = byId<HTMLInputElement>("file");
  const open = () => file.click();
  const help = () => byId<HTMLDialogElement>("help-dialog").showModal();
  file.onchange = () => {
    void opening.files([...(file.files ?? [])]);
    file.value = "";
  };
  byId("open").onclick = byId("choose").onclick = open;
  byId("sample").onclick = () => opening.open("making a figure", server.openSample).catch(complain);
  byId("predict").onclick = predict;
  byId("save").onclick = save;
  byId("help").onclick = help;
  connectTools();
  listenToKeys(bench, { open, save, predict, help, resizeBrush });
  acceptDrops(opening);
  window.addEventListener("beforeunload", (event) => bench.labels.edited && event.preventDefault());
  document.body.dataset.ready = "true";
  const { opened } = session;
  if (opened) {
    opening
      .open(`reading ${opened.name}`, async () => opened)
      .then(() => session.preferred && predict())
      .catch(complain);
  }
}

function fillModels(select: HTMLSelectElement, { models, preferred }: Session): void {
  const options = models.map(({ name, description }) => el("option", { value: name, title: description }, name));
  select.replaceChildren(...(options.length ? options : [el("option", { value: "" }, "no models")]));
  select.disabled = !options.length;
  if (preferred) select.value = preferred;
}

function connectTools(): void {
  const { stage } = bench;
  for (const button of document.querySelectorAll<HTMLElement>("#tools [data-tool]")) {
    button.onclick = () => bench.setTool(button.dataset.tool as Tool);
  }
  byId("undo").onclick = () => bench.undo();
  byId("redo").onclick = () => bench.redo();
  byId("fit").onclick = () => stage.fit();
  byId("add-class").onclick = () => bench.addClass();
  byId("edges").onclick = () => (stage.edges = toggled("edges"));
  byId("flat").onclick = () => (stage.lit = !toggled("flat"));
  const radius = byId<HTMLInputElement>("radius");
  radius.oninput = () => (stage.brushRadius = Number(radius.value) / 500);
  radius.dispatchEvent(new Event("input"));
  const crease = byId<HTMLInputElement>("crease");
  crease.oninput = () => {
    byId("crease-text").textContent = crease.value === "180" ? "never" : `${crease.value}°`;
  };
  const tip = byId("tip");
  byId("stage").addEventListener("pointermove", ({ clientX, clientY }) => {
    const { left, top } = byId("stage").getBoundingClientRect();
    tip.style.transform = `translate(${clientX - left + 14}px, ${clientY - top + 16}px)`;
  });
}

function toggled(id: string): boolean {
  const on = byId(id).getAttribute("aria-pressed") !== "true";
  byId(id).setAttribute("aria-pressed", String(on));
  return on;
}

function resizeBrush(factor: number): void {
  const radius = byId<HTMLInputElement>("radius");
  const wanted = Math.max(Number(radius.value) * factor, 1);
  radius.value = String(factor > 1 ? Math.ceil(wanted) : Math.floor(wanted));
  radius.dispatchEvent(new Event("input"));
}

function acceptDrops(opening: Opening): void {
  const shown = (on: boolean) => {
    document.body.classList.toggle("dragging", on);
    byId("drop-hint").hidden = !on || !bench.scene;
  };
  window.addEventListener("dragover", (event) => {
    event.preventDefault();
    shown(true);
  });
  window.addEventListener("dragleave", (event) => event.relatedTarget === null && shown(false));
  window.addEventListener("drop", (event) => {
    event.preventDefault();
    shown(false);
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length) void opening.files(files);
  });
}
