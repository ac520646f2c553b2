/** The triangles on the graphics card: three corners of its own for every face, so that faces have plain colors. */

import * as THREE from "three";
import { MeshBVH } from "three-mesh-bvh";
import { cornerNormals, cornerPositions, faceVectors, lengths, normalized } from "../shared/geometry";
import type { Message } from "./tensors";

export class Surface {
  readonly nFaces: number;
  readonly nVertices: number;
  readonly faces: Uint32Array;
  readonly neighbors: Int32Array;
  readonly geometry = new THREE.BufferGeometry();
  readonly bvh: MeshBVH;
  /** Twice the areas of the faces; all one where no face has any. */
  readonly areas: Float32Array;
  /** Unit normals of the faces. */
  readonly normals: Float32Array;
  /** RGBA of every corner; alpha 0 hides a face. */
  readonly colors: Uint8Array;
  private readonly colorAttribute: THREE.BufferAttribute;

  constructor({ arrays }: Message) {
    const positions = arrays.positions as Float32Array;
    this.faces = arrays.faces as Uint32Array;
    this.neighbors = arrays.neighbors as Int32Array;
    this.nFaces = this.faces.length / 3;
    this.nVertices = positions.length / 3;
    const corners = cornerPositions(positions, this.faces);
    const vectors = faceVectors(corners);
    const shown = cornerNormals(this.faces, this.nVertices, vectors);
    this.areas = lengths(vectors);
    if (!this.areas.some((area) => area > 0)) this.areas.fill(1);
    this.normals = normalized(vectors);
    this.colors = new Uint8Array(this.nFaces * 12).fill(255);
    this.colorAttribute = new THREE.BufferAttribute(this.colors, 4, true);
    this.geometry.setAttribute("position", new THREE.BufferAttribute(corners, 3));
    this.geometry.setAttribute("normal", new THREE.BufferAttribute(shown, 3));
    this.geometry.setAttribute("tint", this.colorAttribute);
    this.geometry.computeBoundingSphere();
    // Indirect leaves the order of the faces alone: face i here is face i of the file.
    this.bvh = new MeshBVH(this.geometry, { indirect: true });
  }

  /** Give one face one color. */
  setFace(face: number, r: number, g: number, b: number, a = 255): void {
    const { colors } = this;
    for (let at = face * 12, end = at + 12; at < end; at += 4) {
      colors[at] = r;
      colors[at + 1] = g;
      colors[at + 2] = b;
      colors[at + 3] = a;
    }
  }

  setCorner(corner: number, r: number, g: number, b: number, a = 255): void {
    const at = corner * 4;
    this.colors[at] = r;
    this.colors[at + 1] = g;
    this.colors[at + 2] = b;
    this.colors[at + 3] = a;
  }

  isHidden(face: number): boolean {
    return this.colors[face * 12 + 3] === 0;
  }

  /** Send colors to the card: all, or the range that holds these faces. */
  upload(faces?: ArrayLike<number>): void {
    if (faces) {
      let low = Infinity;
      let high = -1;
      for (let i = 0; i < faces.length; i++) {
        if (faces[i] < low) low = faces[i];
        if (faces[i] > high) high = faces[i];
      }
      if (high < 0) return;
      this.colorAttribute.addUpdateRange(low * 12, (high - low + 1) * 12);
    } else {
      // As a range: without one, a few faces that follow before the next picture would be all that is sent.
      this.colorAttribute.clearUpdateRanges();
      this.colorAttribute.addUpdateRange(0, this.colors.length);
    }
    this.colorAttribute.needsUpdate = true;
  }

  /** How near a point of a face is to its three corners. */
  cornerWeights(face: number, point: THREE.Vector3): number[] {
    const positions = this.geometry.getAttribute("position");
    const corner = new THREE.Vector3();
    return [0, 1, 2].map((i) => 1 / (corner.fromBufferAttribute(positions, face * 3 + i).distanceTo(point) + 1e-9));
  }

  dispose(): void {
    this.geometry.dispose();
  }
}
