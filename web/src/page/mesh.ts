/** What Python wrote into the page, decoded, and the face under a ray. */

import { parseHex, type Colormap, type RGB } from "../shared/colors";
import { cornerNormals, cornerPositions, faceVectors, lengths, normalized } from "../shared/geometry";
import type { Vector } from "../shared/look";

type Element = "face" | "vertex";

interface WrittenLayer {
  name: string;
  element: Element;
  kind: "labels" | "field";
  labels: string;
  classes: string[];
  colors: string[];
  nBest?: number;
  best?: string;
  shares?: string;
  values: string;
  limits: [number, number];
  colormap: Colormap;
}

export interface WrittenScene {
  name: string;
  caption: string;
  nVertices: number;
  nFaces: number;
  positions: string;
  faces: string;
  layers: WrittenLayer[];
  scores: [string, number][];
}

export interface LabelLayer {
  kind: "labels";
  name: string;
  element: Element;
  numbers: Int16Array;
  classes: string[];
  colors: RGB[];
  /** The best classes of every element and their shares in 255ths, `nBest` of each. */
  nBest: number;
  best: Int16Array;
  shares: Uint8Array;
}

export interface FieldLayer {
  kind: "field";
  name: string;
  element: Element;
  numbers: Float32Array;
  limits: [number, number];
  colormap: Colormap;
}

export type Layer = LabelLayer | FieldLayer;

const bytes = (text: string): ArrayBuffer => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

export function decodedLayer(written: WrittenLayer): Layer {
  const { name, element, limits, colormap, classes } = written;
  if (written.kind === "field") {
    return { kind: "field", name, element, numbers: new Float32Array(bytes(written.values)), limits, colormap };
  }
  return {
    kind: "labels",
    name,
    element,
    numbers: new Int16Array(bytes(written.labels)),
    classes,
    colors: written.colors.map(parseHex),
    nBest: written.nBest ?? 0,
    best: new Int16Array(bytes(written.best ?? "")),
    shares: new Uint8Array(bytes(written.shares ?? "")),
  };
}

export interface Hit {
  face: number;
  vertex: number;
}

export class PageMesh {
  readonly faces: Uint32Array;
  readonly nFaces: number;
  readonly corners: Float32Array;
  /** Normals of the faces, as long as twice their areas. */
  readonly vectors: Float32Array;
  private readonly nVertices: number;

  constructor(scene: WrittenScene) {
    const positions = new Float32Array(bytes(scene.positions));
    this.faces = new Uint32Array(bytes(scene.faces));
    this.nFaces = this.faces.length / 3;
    this.nVertices = positions.length / 3;
    this.corners = cornerPositions(positions, this.faces);
    this.vectors = faceVectors(this.corners);
  }

  normals(smooth: boolean): Float32Array {
    if (smooth) return cornerNormals(this.faces, this.nVertices, this.vectors);
    const flat = new Float32Array(this.corners.length);
    for (let i = 0; i < this.faces.length; i++) {
      const at = 3 * Math.floor(i / 3);
      flat.set(this.vectors.subarray(at, at + 3), 3 * i);
    }
    return normalized(flat);
  }

  /** The share of the surface that each class covers. */
  shares(layer: LabelLayer): number[] {
    const totals = layer.classes.map(() => 0);
    const areas = lengths(this.vectors);
    let all = 0;
    for (let corner = 0; corner < this.faces.length; corner++) {
      const face = Math.floor(corner / 3);
      const label = layer.numbers[layer.element === "face" ? face : this.faces[corner]];
      if (label >= 0) totals[label] += areas[face];
      all += areas[face];
    }
    return totals.map((total) => total / (all || 1));
  }

  /** The nearest face that a ray meets, and its vertex closest to that point. */
  pick(origin: Vector, direction: Vector): Hit | null {
    const c = this.corners;
    const [ox, oy, oz] = origin, [dx, dy, dz] = direction;
    let best = Infinity;
    let corner = -1;
    for (let i = 0; i < c.length; i += 9) {
      const ax = c[i + 3] - c[i], ay = c[i + 4] - c[i + 1], az = c[i + 5] - c[i + 2];
      const bx = c[i + 6] - c[i], by = c[i + 7] - c[i + 1], bz = c[i + 8] - c[i + 2];
      const px = dy * bz - dz * by, py = dz * bx - dx * bz, pz = dx * by - dy * bx;
      const det = ax * px + ay * py + az * pz;
      if (det === 0) continue;
      const sx = ox - c[i], sy = oy - c[i + 1], sz = oz - c[i + 2];
      const u = (sx * px + sy * py + sz * pz) / det;
      if (u < 0 || u > 1) continue;
      const qx = sy * az - sz * ay, qy = sz * ax - sx * az, qz = sx * ay - sy * ax;
      const v = (dx * qx + dy * qy + dz * qz) / det;
      if (v < 0 || u + v > 1) continue;
      const t = (bx * qx + by * qy + bz * qz) / det;
      if (t <= 0 || t >= best) continue;
      best = t;
      const w = 1 - u - v;
      corner = i / 3 + (w >= u && w >= v ? 0 : u >= v ? 1 : 2);
    }
    return corner < 0 ? null : { face: Math.floor(corner / 3), vertex: this.faces[corner] };
  }
}
