/** Starts the page: asks the server what there is, and connects buttons, keys and dropped files to the workbench. */

import { parseHex } from "../shared/colors";
import { byId, el } from "../shared/dom";
import { listenToKeys } from "./keys";
import { fillModels, followLearning } from "./learning";
import { complain } from "./notices";
import { Opening } from "./opening";
import { prepareSaving } from "./saving";
import { SeriesBar } from "./series";
import { server, type Session } from "./server";
import type { Tool } from "./pointer";
import { followTheme } from "./theme";
import { connectSettings } from "./toolbar";
import { Workbench } from "./workbench";

const UPS: [string, string][] = [
  ["auto", "automatic"],
  ...["y", "z", "x", "-y", "-z", "-x"].map((axis): [string, string] => [axis, axis]),
];
const bench = new Workbench(byId("stage"));
followTheme((color) => (bench.stage.markColor = color));
server.session().then(start, complain);

function start(session: Session): void {
  const opening = new Opening(bench, session);
  bench.palette = session.palette.map(parseHex);
  const model = byId<HTMLSelectElement>("model");
  fillModels(model, session);
  const [faces, up] = [byId<HTMLSelectElement>("faces"), byId<HTMLSelectElement>("up")];
  fillSelect(faces, resolutions(session.faces), session.faces);
  fillSelect(up, UPS, session.up);
  let predicts = session.preferred !== null;
  const predict = () => {
    predicts = true;
    return opening.predict(model.value, faces.value);
  };
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
  faces.onchange = () => bench.prediction && predict();
  up.onchange = () => opening.setUp(up.value).catch(complain);
  byId("save").onclick = save;
  byId("help").onclick = help;
  connectTools();
  const nextUp = () => {
    up.selectedIndex = (up.selectedIndex + 1) % up.options.length;
    up.dispatchEvent(new Event("change"));
  };
  listenToKeys(bench, { open, save, predict, help, nextUp });
  acceptDrops(opening);
  window.addEventListener("beforeunload", (event) => bench.labels.edited && event.preventDefault());
  document.body.dataset.ready = "true";
  const { opened, series } = session;
  if (series) {
    // Once a model was asked, the other meshes are predicted when they are opened.
    void new SeriesBar(bench, opening, series, async () => predicts && predict()).begin();
    followLearning(model, predict);
  } else if (opened) {
    opening
      .open(`reading ${opened.name}`, async () => opened)
      .then(() => void (session.preferred && predict()))
      .catch(complain);
  }
}

function fillSelect(select: HTMLSelectElement, options: [string, string][], chosen: string): void {
  select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  select.value = chosen;
}

/** Resolutions to choose from, and the one that the command line asked for. */
function resolutions(asked: string): [string, string][] {
  const numbers = new Set([500, 1000, 2000, 5000, 10_000, 20_000]);
  if (Number(asked)) numbers.add(Number(asked));
  const sorted = [...numbers].sort((a, b) => a - b);
  const counts = sorted.map((n): [string, string] => [String(n), `${n.toLocaleString("en")} faces`]);
  return [["auto", "as in training"], ...counts, ["original", "all faces of the file"]];
}

function connectTools(): void {
  connectSettings(bench);
  for (const button of document.querySelectorAll<HTMLElement>("#tools [data-tool]")) {
    button.onclick = () => bench.painting.take(button.dataset.tool as Tool);
  }
  byId("undo").onclick = bench.painting.undo;
  byId("redo").onclick = bench.painting.redo;
  byId("visit-uncertain").onclick = () => bench.uncertain.visit(bench);
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
