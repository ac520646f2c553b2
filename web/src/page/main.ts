/** The page without a server: one state, one draw. What it shows stands in the page as JSON. */

import { colorScale, GRAY, parseHex, type RGB } from "../shared/colors";
import { byId, el } from "../shared/dom";
import { look } from "../shared/look";
import { Camera, steer } from "./camera";
import { decodedLayer, PageMesh, type Layer, type WrittenScene } from "./mesh";
import { painterFor } from "./painter";
import { described, showLayers, showLegend, showScores, showTip } from "./panel";
import "./page.css";

const scenes = JSON.parse(byId("data").textContent) as WrittenScene[];
const canvas = byId<HTMLCanvasElement>("canvas");
const painter = painterFor(canvas);
const camera = new Camera();
const state = { scene: 0, layer: 0, hovered: -1, edges: false, smooth: true, dark: false };
const hidden = new Set<number>();
let mesh: PageMesh;
let layers: Layer[] = [];
let waiting = false;

const currentLayer = (): Layer | undefined => layers[state.layer];

function redraw(): void {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const layer = currentLayer();
    painter.draw(camera, {
      ground: state.dark ? [0.082, 0.094, 0.114] : [1, 1, 1],
      ghost: state.dark ? [0.3, 0.33, 0.37] : [0.88, 0.89, 0.91],
      blend: layer?.kind === "field" && layer.element === "vertex",
      edges: state.edges,
      hovered: state.hovered,
    });
    document.documentElement.dataset.drawn = "yes";
  });
}

function colorsOf(layer: Layer): (at: number) => RGB {
  if (layer.kind === "labels") return (at) => layer.colors[layer.numbers[at]] ?? GRAY;
  const color = colorScale(layer.colormap, ...layer.limits);
  return (at) => color(layer.numbers[at]);
}

function paint(): void {
  const layer = currentLayer();
  const plain = parseHex(look.plain);
  const color = layer ? colorsOf(layer) : () => plain;
  const colors = new Uint8Array(4 * mesh.faces.length).fill(255);
  for (let corner = 0; corner < mesh.faces.length; corner++) {
    const at = layer?.element === "vertex" ? mesh.faces[corner] : Math.floor(corner / 3);
    colors.set(color(at), 4 * corner);
    if (layer?.kind === "labels" && hidden.has(layer.numbers[at])) colors[4 * corner + 3] = 0;
  }
  painter.setColors(colors);
  redraw();
}

const classNames = (layer: Layer | undefined): string => (layer?.kind === "labels" ? layer.classes.join("\n") : "");

function chooseLayer(i: number, before = classNames(currentLayer())): void {
  state.layer = Math.min(i, Math.max(0, layers.length - 1));
  const layer = currentLayer();
  if (classNames(layer) !== before) hidden.clear();
  showLayers(layers, state.layer, chooseLayer);
  showLegend(layer, layer?.kind === "labels" ? mesh.shares(layer) : [], hidden, paint);
  paint();
}

function shape(): void {
  painter.setShape(mesh, state.smooth);
  redraw();
}

function chooseScene(i: number): void {
  const before = classNames(currentLayer());
  state.scene = (i + scenes.length) % scenes.length;
  state.hovered = -1;
  const scene = scenes[state.scene];
  mesh = new PageMesh(scene);
  layers = scene.layers.map(decodedLayer);
  byId<HTMLSelectElement>("scene").selectedIndex = state.scene;
  byId("name").textContent = scene.name;
  const size = `${scene.nVertices.toLocaleString("en")} vertices, ${scene.nFaces.toLocaleString("en")} faces`;
  byId("caption").textContent = [scene.caption, size].filter(Boolean).join(" · ");
  showScores(scene.scores);
  shape();
  chooseLayer(state.layer, before);
}

function hover({ clientX, clientY }: PointerEvent): void {
  const { left, top, width, height } = canvas.getBoundingClientRect();
  const { origin, direction } = camera.ray((2 * (clientX - left)) / width - 1, 1 - (2 * (clientY - top)) / height);
  const hit = mesh.pick(origin, direction);
  mark(hit?.face ?? -1);
  byId("tip").hidden = !hit;
  if (!hit) return;
  const layer = currentLayer();
  const [kind, at] = layer?.element === "vertex" ? ["vertex", hit.vertex] as const : ["face", hit.face] as const;
  showTip(clientX, clientY, described(layer, at, `${kind} ${at}`));
}

function mark(face: number): void {
  if (face === state.hovered) return;
  state.hovered = face;
  redraw();
}

function setTheme(dark: boolean): void {
  state.dark = dark;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  redraw();
}

function toggle(name: "edges" | "smooth", after: () => void): void {
  state[name] = !state[name];
  byId(name).setAttribute("aria-pressed", String(state[name]));
  after();
}

function resize(): void {
  const scale = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  camera.aspect = canvas.width / canvas.height;
  // The mesh stands in the middle of what the panel leaves free.
  camera.shift = innerWidth > 620 ? [272 / Math.max(545, canvas.clientWidth), 0] : [0, 0.35];
  redraw();
}

const actions: Record<string, () => void> = {
  edges: () => toggle("edges", redraw),
  smooth: () => toggle("smooth", shape),
  reset: () => {
    camera.reset();
    redraw();
  },
  theme: () => setTheme(!state.dark),
  previous: () => chooseScene(state.scene - 1),
  next: () => chooseScene(state.scene + 1),
};
const keys: Record<string, string> = {
  e: "edges", s: "smooth", r: "reset", t: "theme", PageUp: "previous", PageDown: "next",
};

const held = steer(canvas, camera, redraw);
canvas.addEventListener("pointermove", (event) => held() || hover(event));
canvas.addEventListener("pointerleave", () => {
  byId("tip").hidden = true;
  mark(-1);
});
for (const [id, act] of Object.entries(actions)) byId(id).onclick = act;
addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLSelectElement;
  if (!event.ctrlKey && !event.metaKey && !event.altKey && !typing) actions[keys[event.key]]?.();
});
addEventListener("resize", resize);
byId("scenes").hidden = scenes.length < 2;
const list = byId<HTMLSelectElement>("scene");
list.replaceChildren(...scenes.map((scene) => el("option", {}, scene.name)));
list.onchange = () => chooseScene(list.selectedIndex);
resize();
setTheme(matchMedia("(prefers-color-scheme: dark)").matches);
chooseScene(0);
