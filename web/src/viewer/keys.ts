/** The keyboard. Keys go to the view unless a field for text or a list has them. */

import { byId } from "../shared/dom";
import { revealActive } from "./legend";
import type { Tool } from "./pointer";
import type { Workbench } from "./workbench";

const TOOLS: Record<string, Tool> = { v: "look", b: "brush", f: "fill", o: "lasso", i: "sample" };
const TURN = 0.12;
/** Digits that follow each other within this many milliseconds are one number. */
const TYPING = 800;

export interface Commands {
  open(): void;
  save(): void;
  predict(): void;
  help(): void;
  nextUp(): void;
}

export function listenToKeys(bench: Workbench, commands: Commands): void {
  const { stage, painting } = bench;
  const plain: Record<string, () => unknown> = {
    arrowleft: () => stage.turn(-TURN, 0),
    arrowright: () => stage.turn(TURN, 0),
    arrowup: () => stage.turn(0, TURN),
    arrowdown: () => stage.turn(0, -TURN),
    "+": () => stage.zoom(1.15),
    "=": () => stage.zoom(1.15),
    "-": () => stage.zoom(1 / 1.15),
    home: () => stage.fit(),
    "[": () => painting.resize(painting.radius / 1.2),
    "]": () => painting.resize(painting.radius * 1.2),
    w: painting.grow,
    q: painting.shrink,
    l: () => bench.nextLayer(),
    n: () => bench.uncertain.visit(bench),
    e: () => byId("edges").click(),
    g: () => byId("flat").click(),
    u: () => commands.nextUp(),
    ",": () => byId("previous").click(),
    ".": () => byId("next").click(),
    k: () => byId("keep").click(),
    p: () => commands.predict(),
    "?": () => commands.help(),
    escape: () => bench.pointer.cancel() || painting.take("look"),
  };
  const withControl: Record<string, (event: KeyboardEvent) => void> = {
    z: (event) => (event.shiftKey ? painting.redo() : painting.undo()),
    y: () => painting.redo(),
    s: () => commands.save(),
    o: () => commands.open(),
  };
  let typed = { digits: "", time: 0 };
  /** 1 and then 2 is class 12 where there are so many, else class 2. */
  const typeClass = (digit: string, time: number) => {
    const longer = typed.digits + digit;
    const follows = time - typed.time < TYPING && Number(longer) <= bench.classes.length;
    typed = { digits: follows ? longer : digit, time };
    bench.activate(Number(typed.digits) - 1);
    revealActive();
  };
  window.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    // An open dialog has all keys, wherever the focus is: Escape closes it.
    if (document.querySelector("dialog[open]") || target.closest("input:not([type=range]), select")) return;
    const key = event.key.toLowerCase();
    let run: (() => unknown) | undefined;
    if (event.ctrlKey || event.metaKey) run = withControl[key] && (() => withControl[key](event));
    else if (target.closest("input") && key.startsWith("arrow")) return;
    else if (/^[0-9]$/.test(key)) run = () => typeClass(key, event.timeStamp);
    else if (key === "enter") run = target === stage.canvas ? () => painting.actAtCenter() : undefined;
    else run = key in TOOLS ? () => painting.take(TOOLS[key]) : plain[key];
    if (!run) return;
    event.preventDefault();
    run();
  });
  const crosshair = byId("crosshair");
  stage.canvas.addEventListener("focus", () => {
    crosshair.hidden = !bench.scene || !stage.canvas.matches(":focus-visible");
  });
  stage.canvas.addEventListener("blur", () => (crosshair.hidden = true));
  stage.canvas.addEventListener("pointerdown", () => (crosshair.hidden = true));
}
