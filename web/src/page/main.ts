// Everything together: one state, one draw.

const scenes = JSON.parse(byId("data").textContent);
const canvas = byId("canvas");
const painter = painterFor(canvas);
const camera = new Camera();
const state = { scene: 0, layer: 0, hovered: -1, edges: false, smooth: true, dark: matchMedia("(prefers-color-scheme: dark)").matches, hidden: new Set() };
let geometry = null;
let waiting = false;

function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const layer = currentLayer();
    painter.draw(camera, {
      ground: state.dark ? [0.082, 0.094, 0.114] : [1, 1, 1],
      ghost: state.dark ? [0.30, 0.33, 0.37] : [0.88, 0.89, 0.91],
      blend: Boolean(layer) && layer.kind === "field" && layer.element === "vertex",
      edges: state.edges,
      hovered: state.hovered,
    });
    document.documentElement.dataset.drawn = "yes";
  });
}

const currentLayer = () => scenes[state.scene].layers[state.layer];

function unpack(layer) {
  if (layer.numbers) return;
  layer.numbers = layer.kind === "labels" ? decode(layer.labels, Int16Array) : decode(layer.values, Float32Array);
  if (layer.nBest) {
    layer.bestNumbers = decode(layer.best, Int16Array);
    layer.shareNumbers = decode(layer.shares, Uint8Array);
  }
}

function colorOf(layer, at) {
  const value = layer.numbers[at], table = layer.parsed;
  if (layer.kind === "labels") return value < 0 ? [150, 150, 150, 255] : [...table[value], state.hidden.has(value) ? 0 : 255];
  if (!Number.isFinite(value)) return [150, 150, 150, 255];
  const [low, high] = layer.limits, share = Math.min(1, Math.max(0, (value - low) / (high - low || 1))) * (table.length - 1);
  const i = Math.min(table.length - 2, Math.floor(share));
  return [...table[i].map((part, k) => part + (share - i) * (table[i + 1][k] - part)), 255];
}

function paint() {
  const layer = currentLayer();
  const colors = new Uint8Array(4 * geometry.faces.length).fill(255);
  if (layer) {
    unpack(layer);
    layer.parsed = layer.colors.map(parseColor);
    for (let i = 0; i < geometry.faces.length; i++) {
      colors.set(colorOf(layer, layer.element === "face" ? Math.floor(i / 3) : geometry.faces[i]), 4 * i);
    }
  } else {
    for (let i = 0; i < colors.length; i += 4) colors.set([186, 193, 204], i);
  }
  painter.setColors(colors);
  redraw();
}

// The share of the surface that each class covers.
function shares(layer) {
  if (!layer || layer.kind !== "labels") return [];
  unpack(layer);
  const totals = layer.classes.map(() => 0), areas = geometry.areas();
  let all = 0;
  areas.forEach((area, f) => {
    for (let c = 0; c < 3; c++) {
      const label = layer.numbers[layer.element === "face" ? f : geometry.faces[3 * f + c]];
      if (label >= 0) totals[label] += area;
      all += area;
    }
  });
  return totals.map((total) => total / (all || 1));
}

function chooseLayer(i) {
  const keep = currentLayer();
  state.layer = Math.min(i, Math.max(0, scenes[state.scene].layers.length - 1));
  const layer = currentLayer();
  if (!keep || !layer || String(keep.classes) !== String(layer.classes)) state.hidden.clear();
  showLayers(scenes[state.scene].layers, state.layer, chooseLayer);
  refreshLegend(shares(layer));
  paint();
}

function refreshLegend(covered) {
  showLegend(currentLayer(), covered, state.hidden, (change) => {
    change(state.hidden);
    byId("legend").querySelectorAll(".class").forEach((row, i) => row.setAttribute("aria-pressed", String(!state.hidden.has(i))));
    paint();
  });
}

function shape() {
  painter.setShape(geometry, state.smooth ? geometry.smoothNormals() : geometry.flatNormals());
  redraw();
}

function chooseScene(i) {
  state.scene = (i + scenes.length) % scenes.length;
  const scene = scenes[state.scene];
  geometry = new Geometry(scene);
  state.hovered = -1;
  byId("scene").selectedIndex = state.scene;
  byId("name").textContent = scene.name;
  byId("caption").textContent = [scene.caption, `${scene.nVertices.toLocaleString("en")} vertices, ${scene.nFaces.toLocaleString("en")} faces`].filter(Boolean).join(" · ");
  showScores(scene.scores);
  shape();
  chooseLayer(state.layer);
}

function hover(event) {
  const box = canvas.getBoundingClientRect();
  const { origin, direction } = camera.ray((2 * (event.clientX - box.left)) / box.width - 1, 1 - (2 * (event.clientY - box.top)) / box.height);
  const hit = geometry.pick(origin, direction);
  const face = hit ? hit.face : -1;
  if (face !== state.hovered) {
    state.hovered = face;
    redraw();
  }
  byId("tip").hidden = !hit;
  if (!hit) return;
  const layer = currentLayer(), vertex = geometry.faces[3 * face + hit.corner];
  const onVertex = layer && layer.element === "vertex";
  showTip(event.clientX, event.clientY, describe(layer, onVertex ? vertex : face, onVertex ? `vertex ${vertex}` : `face ${face}`));
}

function setTheme(dark) {
  state.dark = dark;
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  redraw();
}

function toggle(name, after) {
  state[name] = !state[name];
  byId(name).setAttribute("aria-pressed", String(state[name]));
  after();
}

function resize() {
  const scale = Math.min(2, devicePixelRatio || 1);
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
  camera.aspect = canvas.width / canvas.height;
  // The mesh stands in the middle of what the panel leaves free.
  const wide = innerWidth > 620;
  camera.shift = wide ? [272 / Math.max(545, canvas.clientWidth), 0] : [0, 0.35];
  redraw();
}

const actions = {
  edges: () => toggle("edges", redraw),
  smooth: () => toggle("smooth", shape),
  reset: () => { camera.reset(); redraw(); },
  theme: () => setTheme(!state.dark),
  previous: () => chooseScene(state.scene - 1),
  next: () => chooseScene(state.scene + 1),
};
const keys = { e: "edges", s: "smooth", r: "reset", t: "theme", PageUp: "previous", PageDown: "next" };

const busy = steer(canvas, camera, redraw);
canvas.addEventListener("pointermove", (event) => busy() || hover(event));
canvas.addEventListener("pointerleave", () => { byId("tip").hidden = true; state.hovered = -1; redraw(); });
for (const [id, act] of Object.entries(actions)) byId(id).addEventListener("click", act);
addEventListener("keydown", (event) => {
  if (!event.ctrlKey && !event.metaKey && !event.altKey && event.target.tagName !== "SELECT" && keys[event.key]) actions[keys[event.key]]();
});
addEventListener("resize", resize);
byId("scenes").hidden = scenes.length < 2;
byId("scene").replaceChildren(...scenes.map((scene) => element("option", {}, scene.name)));
byId("scene").addEventListener("change", (event) => chooseScene(event.target.selectedIndex));
resize();
setTheme(state.dark);
chooseScene(0);
