/** Starts the page: asks the server what there is, and connects buttons, keys and dropped files to the workbench. */

import { parseHex } from "../shared/colors";
import { byId, el } from "../shared/dom";
import { listenToKeys } from "./keys";
import { complain } from "./notices";
import { Opening } from "./opening";
import { prepareSaving } from "./saving";
import { server, type Session } from "./server";
import type { Tool } from "./stage";
import { followTheme } from "./theme";
import { connectSettings, resizeBrush } from "./toolbar";
import { Workbench } from "./workbench";

const bench = new Workbench(byId("stage"));
followTheme((color) => (bench.stage.markColor = color));
server.session().then(start, complain);

function start(session: Session): void {
  const opening = new Opening(bench, session);
  bench.palette = session.palette.map(parseHex);
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
  byId("up").onclick = () => opening.nextUp().catch(complain);
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
  connectSettings(bench.stage);
  for (const button of document.querySelectorAll<HTMLElement>("#tools [data-tool]")) {
    button.onclick = () => bench.setTool(button.dataset.tool as Tool);
  }
  byId("undo").onclick = bench.undo;
  byId("redo").onclick = bench.redo;
  byId("add-class").onclick = () => bench.addClass();
  const tip = byId("tip");
  byId("stage").addEventListener("pointermove", ({ clientX, clientY }) => {
    const { left, top } = byId("stage").getBoundingClientRect();
    tip.style.transform = `translate(${clientX - left + 14}px, ${clientY - top + 16}px)`;
  });
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
