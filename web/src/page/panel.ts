// What stands beside the mesh: layers, legend, scores, and the note under the pointer.

const byId = (id) => document.getElementById(id);

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const percent = (share) => (share > 0 && share < 0.01 ? "<1" : Math.round(100 * share)) + " %";
const short = (number) => (Number.isFinite(number) ? Number(number.toPrecision(3)).toString() : "none");

function showLayers(layers, chosen, choose) {
  const buttons = layers.map((layer, i) => {
    const button = element("button", { type: "button", role: "radio", "aria-checked": String(i === chosen) }, layer.name);
    button.addEventListener("click", () => choose(i));
    return button;
  });
  byId("layers").replaceChildren(...(layers.length > 1 ? buttons : []));
}

// A click switches a class off and on; a double click leaves it alone on.
function showLegend(layer, shares, hidden, changed) {
  const legend = byId("legend");
  if (!layer) return legend.replaceChildren();
  if (layer.kind === "field") {
    const bar = element("div", { class: "bar", style: `background:linear-gradient(90deg,${layer.colors})` });
    const [low, high] = layer.limits.map(short);
    return legend.replaceChildren(bar, element("div", { class: "ends" }, element("span", {}, low), element("span", {}, high)));
  }
  const rows = layer.classes.map((name, i) => {
    const row = element("button", { type: "button", class: "class", "aria-pressed": String(!hidden.has(i)), title: "Click: hide or show. Double click: show only this." },
      element("span", { class: "swatch", style: `background:${layer.colors[i]}` }),
      element("span", { class: "word" }, name),
      element("span", { class: "of" }, shares[i] > 0 ? percent(shares[i]) : ""));
    row.addEventListener("click", () => changed((set) => (set.has(i) ? set.delete(i) : set.add(i))));
    row.addEventListener("dblclick", () => changed((set) => {
      const alone = layer.classes.every((_, j) => j === i || set.has(j));
      set.clear();
      if (!alone) layer.classes.forEach((_, j) => j !== i && set.add(j));
    }));
    return row;
  });
  legend.replaceChildren(...rows);
}

function showScores(scores) {
  byId("scores").replaceChildren(...scores.map(([name, share]) =>
    element("div", { class: "score", style: `--share:${100 * share}%` }, element("span", {}, name), element("span", {}, percent(share)), element("i"))));
}

function showTip(x, y, lines) {
  const tip = byId("tip");
  tip.replaceChildren(...lines);
  tip.hidden = false;
  tip.style.left = Math.min(x + 16, innerWidth - tip.offsetWidth - 8) + "px";
  tip.style.top = Math.min(y + 16, innerHeight - tip.offsetHeight - 8) + "px";
}

function describe(layer, at, where) {
  const place = element("small", {}, where);
  if (!layer) return [place];
  if (layer.kind === "field") return [element("b", {}, `${layer.name} ${short(layer.numbers[at])}`), element("br"), place];
  const rows = [];
  for (let k = 0; k < (layer.nBest || 0); k++) {
    const label = layer.bestNumbers[layer.nBest * at + k], share = layer.shareNumbers[layer.nBest * at + k] / 255;
    if (k > 0 && share < 0.005) break;
    rows.push(row(layer, label, percent(share)));
  }
  if (!rows.length) rows.push(row(layer, layer.numbers[at], ""));
  return [...rows, place];
}

function row(layer, label, share) {
  return element("div", { class: "row" },
    element("span", { class: "swatch", style: `background:${label < 0 ? "#969696" : layer.colors[label]}` }),
    element("b", {}, label < 0 ? "no label" : layer.classes[label]),
    element("span", { class: "of" }, share));
}
