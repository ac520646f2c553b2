/** What the pointer does with the tool in hand: paint on the mesh, click, or leave the drag to the camera. */

import * as THREE from "three";
import { byId } from "../shared/dom";
import type { Stage } from "./stage";
import type { Hit } from "./surface";

export type Tool = "look" | "brush" | "fill" | "lasso" | "sample";

export interface Gestures {
  readonly tool: Tool;
  /** A click, with any tool but the brush. */
  pick(hit: Hit | null): void;
  /** The brush touches down, moves, is lifted (`end`) or is taken back by a second finger (`cancel`). */
  stroke(phase: "start" | "move" | "end" | "cancel", hit: Hit | null): void;
  /** A line was drawn around a part of the window. */
  lasso(line: [number, number][]): void;
  hover(hit: Hit | null): void;
}

const CLICK_SLACK = 5;
const NONE = -1 as unknown as THREE.TOUCH;

export class Pointer {
  private stroking: number | null = null;
  private line: [number, number][] = [];
  private down: { x: number; y: number; moved: boolean } | null = null;
  private readonly fingers = new Set<number>();

  constructor(
    box: HTMLElement,
    private readonly stage: Stage,
    private readonly gestures: Gestures,
  ) {
    const { canvas } = stage;
    // Captured on the box, so that the tools decide before the camera does.
    box.addEventListener("pointerdown", (event) => this.onDown(event), { capture: true });
    box.addEventListener("pointermove", (event) => this.onMove(event), { capture: true });
    window.addEventListener("pointerup", (event) => this.onUp(event));
    window.addEventListener("pointercancel", (event) => this.onUp(event));
    canvas.addEventListener("pointerleave", () => gestures.hover(null));
    canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  }

  private onDown(event: PointerEvent): void {
    const { stage, gestures } = this;
    if (event.target !== stage.canvas) return;
    if (event.pointerType === "touch") this.fingers.add(event.pointerId);
    if (this.fingers.size > 1) {
      this.down = null;
      this.cancel();
      return;
    }
    this.down = event.button === 0 ? { x: event.clientX, y: event.clientY, moved: false } : null;
    const free = event.button === 0 && !event.altKey;
    const hit = free && gestures.tool === "brush" ? stage.find(event.clientX, event.clientY) : null;
    const draws = free && gestures.tool === "lasso";
    // The lasso takes the pointer, and the brush on the mesh; beside it the camera turns, as with every other tool.
    const { mouseButtons, touches } = stage.controls;
    const turns = !hit && !draws;
    mouseButtons.LEFT = turns ? THREE.MOUSE.ROTATE : null;
    touches.ONE = turns ? THREE.TOUCH.ROTATE : NONE;
    touches.TWO = ["brush", "lasso"].includes(gestures.tool) ? THREE.TOUCH.DOLLY_ROTATE : THREE.TOUCH.DOLLY_PAN;
    if (turns) return;
    this.stroking = event.pointerId;
    if (hit) gestures.stroke("start", hit);
    else this.draw([[event.clientX, event.clientY]]);
  }

  /** Takes back what the pointer is about to do; returns whether there was anything. */
  cancel(): boolean {
    if (this.stroking === null) return false;
    this.stroking = null;
    this.down = null;
    if (!this.line.length) this.gestures.stroke("cancel", null);
    this.draw([]);
    return true;
  }

  /** Shows the line of the lasso so far. */
  private draw(line: [number, number][]): void {
    this.line = line;
    const { left, top } = this.stage.canvas.getBoundingClientRect();
    byId("lasso-line").setAttribute("points", line.map(([x, y]) => `${x - left},${y - top}`).join(" "));
  }

  private onMove(event: PointerEvent): void {
    const { stage, gestures } = this;
    if (this.down && Math.hypot(event.clientX - this.down.x, event.clientY - this.down.y) > CLICK_SLACK) {
      this.down.moved = true;
    }
    if (event.pointerId === this.stroking && this.line.length) {
      this.draw([...this.line, [event.clientX, event.clientY]]);
    } else if (event.pointerId === this.stroking) {
      gestures.stroke("move", stage.find(event.clientX, event.clientY));
    } else if (!this.down && event.target === stage.canvas && event.pointerType !== "touch") {
      gestures.hover(stage.find(event.clientX, event.clientY));
    }
  }

  private onUp(event: PointerEvent): void {
    const { stage, gestures } = this;
    this.fingers.delete(event.pointerId);
    if (event.pointerId === this.stroking) {
      this.stroking = null;
      this.down = null;
      if (this.line.length) gestures.lasso(this.line);
      else gestures.stroke("end", null);
      this.draw([]);
      return;
    }
    const wasClick = this.down && !this.down.moved && event.type === "pointerup";
    this.down = null;
    if (wasClick && event.target === stage.canvas) gestures.pick(stage.find(event.clientX, event.clientY));
  }
}
