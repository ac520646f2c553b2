/** The choice of layers, the questions a layer asks, and the scale of its colors. */

import { byId, el, short } from "../shared/dom";
import { colorTable } from "../shared/colors";
import { colormapOf, type Field } from "./layers";

export interface LayerItem {
  key: string;
  title: string;
}

export interface Question {
  key: string;
  title: string;
  options: [string, string][];
  value: string;
}

/** What a person has chosen in each layer; the first option until then. */
export class Answers {
  private readonly given = new Map<string, Record<string, string>>();

  set(layer: string, key: string, value: string): void {
    this.given.set(layer, { ...this.given.get(layer), [key]: value });
  }

  ask(layer: string, choices: Omit<Question, "value">[]): Question[] {
    const given = this.given.get(layer) ?? {};
    return choices.map((choice) => {
      const known = choice.options.some(([value]) => value === given[choice.key]);
      return { ...choice, value: known ? given[choice.key] : choice.options[0][0] };
    });
  }
}

export function drawLayers(items: LayerItem[], current: string, choose: (key: string) => void): void {
  const buttons = items.map(({ key, title }) => {
    const checked = key === current;
    const aria = { role: "radio", checked: String(checked) };
    const button = el("button", { tabIndex: checked ? 0 : -1, onclick: () => choose(key), aria }, title);
    button.dataset.layer = key;
    button.onkeydown = (event) => step(event, items, key, choose);
    return button;
  });
  const focused = byId("layers").contains(document.activeElement);
  byId("layers").replaceChildren(...buttons);
  if (focused) buttons.find((button) => button.dataset.layer === current)?.focus();
}

export function drawQuestions(questions: Question[], hint: string, answer: (key: string, value: string) => void): void {
  const rows: HTMLElement[] = questions.map((question) => {
    const select = el("select");
    select.dataset.key = question.key;
    select.append(...question.options.map(([value, text]) => el("option", { value }, text)));
    select.value = question.value;
    select.onchange = () => answer(question.key, select.value);
    return el("label", {}, question.title, select);
  });
  if (hint) rows.push(el("p", { class: "small" }, hint));
  byId("layer-options").replaceChildren(...rows);
}

export function drawScale(field: Field | null): void {
  byId("scale").hidden = field === null;
  if (!field) return;
  const context = byId<HTMLCanvasElement>("scale-bar").getContext("2d")!;
  const table = colorTable(colormapOf(field));
  const image = context.createImageData(256, 1);
  for (let i = 0; i < 256; i++) image.data.set([...table[i], 255], i * 4);
  context.putImageData(image, 0, 0);
  byId("scale-low").textContent = short(field.low);
  byId("scale-high").textContent = short(field.high);
  byId("scale-note").textContent = field.note;
}

function step(event: KeyboardEvent, items: LayerItem[], key: string, choose: (key: string) => void): void {
  const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (!move) return;
  event.preventDefault();
  event.stopPropagation();
  const at = items.findIndex((item) => item.key === key);
  choose(items[(at + move + items.length) % items.length].key);
}
