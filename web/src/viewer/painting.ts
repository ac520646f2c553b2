/** The tool in hand and what it does to the labels. Everything here can be undone. */

import { showTip } from "./inspector";
import * as layers from "./layers";
import type { Gestures, Tool } from "./pointer";
import { connectedPart, grown, shrunk, underBrush } from "./reach";
import type { Hit } from "./surface";
import { chosenCrease, chosenRadius, showHistory, showRadius, showTool } from "./toolbar";
import type { Workbench } from "./workbench";

export class Painting implements Gestures {
  tool: Tool = "look";
  /** Of the brush, in the units of the file. */
  radius = 0;

  constructor(private readonly bench: Workbench) {}

  take(tool: Tool): void {
    this.tool = tool;
    this.bench.stage.mark([]);
    showTool(tool);
    if (tool !== "look") this.bench.showLabels();
  }

  /** Sets the radius of the brush where it is one. */
  resize(radius: number): void {
    if (radius > 0) this.radius = radius;
    showRadius(this.radius, this.scale);
  }

  /** For a new mesh: a brush of the same radius where meshes belong together, else of the same part of the mesh. */
  begin(keepsRadius: boolean): void {
    this.resize(keepsRadius && this.radius ? this.radius : chosenRadius(this.scale));
  }

  get scale(): number {
    return this.bench.surface?.scale ?? 1;
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
    bench.stage.mark(hit && this.tool === "look" ? [hit.face] : []);
    bench.look(hit);
  }

  stroke(phase: "start" | "move" | "end" | "cancel", hit: Hit | null): void {
    const { bench } = this;
    if (!bench.surface) return;
    if (hit) this.paint(this.preview(hit));
    if (phase === "end") this.finish();
    if (phase === "cancel" && bench.labels.commit()) this.undo();
  }

  lasso(line: [number, number][]): void {
    this.bench.showLabels(); // what is hidden there does not hide what is behind
    this.paint(this.bench.stage.facesInside(line));
    this.finish();
  }

  hover(hit: Hit | null): void {
    const { bench, tool } = this;
    if (tool === "brush") this.preview(hit);
    showTip(hit && tool !== "brush" ? bench.classAt(hit.face) : null);
  }

  /** Grows (or shrinks) what was painted last by one ring of faces. */
  private resizeRegion(resized: typeof grown): void {
    const { labels, surface } = this.bench;
    labels.commit();
    const faces = labels.region && surface ? resized(surface, labels.region, labels.values) : new Set<number>();
    if (faces.size) this.redraw(labels.reshape(faces));
  }

  grow = (): void => this.resizeRegion(grown);
  shrink = (): void => this.resizeRegion(shrunk);

  /** The tool at the center of the view, for hands without a pointer. */
  actAtCenter(): void {
    const hit = this.bench.stage.findCenter();
    if (this.tool !== "brush") this.pick(hit);
    else if (hit) {
      this.stroke("start", hit);
      this.stroke("end", null);
    }
  }

  /** Outlines what the brush would paint. */
  private preview(hit: Hit | null): number[] {
    const { stage, surface, activeColor } = this.bench;
    const faces = hit && surface ? underBrush(surface, hit, this.radius / surface.scale) : [];
    stage.mark(faces, activeColor);
    return faces;
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
