/** The tool in hand and what it does to the labels. Everything here can be undone. */

import { showTip } from "./inspector";
import * as layers from "./layers";
import type { Gestures, Tool } from "./pointer";
import { connectedPart, underBrush } from "./reach";
import type { Hit } from "./stage";
import { chosenCrease, showHistory, showTool } from "./toolbar";
import type { Workbench } from "./workbench";

export class Painting implements Gestures {
  tool: Tool = "look";

  constructor(private readonly bench: Workbench) {}

  take(tool: Tool): void {
    this.tool = tool;
    this.bench.stage.showBrush(null);
    showTool(tool);
    if (tool !== "look") this.bench.showLabels();
  }

  undo = (): void => this.redraw(this.bench.labels.undo());
  redo = (): void => this.redraw(this.bench.labels.redo());

  pick(hit: Hit | null): void {
    const { bench, tool } = this;
    if (!bench.surface) return;
    if (hit && tool === "fill") {
      this.paint(connectedPart(bench.surface, hit.face, bench.labels.values, chosenCrease()));
      this.finish();
    }
    if (hit && tool === "sample") {
      bench.activate(bench.labels.values[hit.face]);
      this.take("brush");
    }
    this.hover(hit);
    bench.stage.choose(hit && this.tool === "look" ? hit.face : -1);
    bench.look(hit);
  }

  stroke(phase: "start" | "move" | "end" | "cancel", hit: Hit | null): void {
    const { bench } = this;
    if (!bench.surface) return;
    if (hit) {
      bench.stage.showBrush(hit.point, bench.activeColor);
      this.paint(underBrush(bench.surface, hit.face, hit.point, bench.stage.brushRadius));
    }
    if (phase === "end") this.finish();
    if (phase === "cancel" && bench.labels.commit()) this.undo();
  }

  hover(hit: Hit | null): void {
    const { bench, tool } = this;
    bench.stage.showBrush(hit && tool === "brush" ? hit.point : null, bench.activeColor);
    showTip(hit && tool !== "brush" ? bench.classAt(hit.face) : null);
  }

  /** The tool at the center of the view, for hands without a pointer. */
  actAtCenter(): void {
    const hit = this.bench.stage.findCenter();
    if (this.tool !== "brush") this.pick(hit);
    else if (hit) {
      this.stroke("start", hit);
      this.stroke("end", null);
    }
  }

  /** Labels are shown first: they decide what is hidden, and what is painted is seen among its like. */
  private paint(faces: number[]): void {
    const { bench } = this;
    bench.showLabels();
    const changed = bench.labels.paint(faces, bench.active);
    if (!changed.length) return;
    layers.paintLabels(bench.surface!, bench.labels.values, bench.classes, changed);
    bench.stage.invalidate();
  }

  private finish(): void {
    const { bench } = this;
    bench.labels.commit();
    bench.drawLegend();
    showHistory(bench.labels);
  }

  private redraw(faces: Uint32Array | null): void {
    const { bench } = this;
    if (!faces) return;
    bench.showLabels();
    layers.paintLabels(bench.surface!, bench.labels.values, bench.classes, faces);
    this.finish();
    bench.stage.invalidate();
  }
}
