/** The triangles on the graphics card: three corners of its own for every face, so that faces have plain colors. */

import * as THREE from "three";
import { MeshBVH } from "three-mesh-bvh";
import type { Frame } from "./frames";

/** Corners share a normal with neighbors that bend less than this; sharper edges stay sharp. */
const CREASE = Math.cos((40 * Math.PI) / 180);

export class Surface {
  readonly nFaces: number;
  readonly nVertices: number;
  readonly faces: Uint32Array;
  readonly neighbors: Int32Array;
  readonly geometry = new THREE.BufferGeometry();
  readonly bvh: MeshBVH;
  readonly normals: Float32Array;
  readonly centers: Float32Array;
  /** RGBA of every corner; alpha 0 hides a face. */
  readonly colors: Uint8Array;
  private readonly colorAttribute: THREE.BufferAttribute;

  constructor({ arrays }: Frame) {
    const positions = arrays.positions as Float32Array;
    this.faces = arrays.faces as Uint32Array;
    this.neighbors = arrays.neighbors as Int32Array;
    this.nFaces = this.faces.length / 3;
    this.nVertices = positions.length / 3;
    const corners = expanded(positions, this.faces);
    [this.normals, this.centers] = faceFrames(corners);
    this.colors = new Uint8Array(this.nFaces * 12).fill(255);
    this.colorAttribute = new THREE.BufferAttribute(this.colors, 4, true);
    this.geometry.setAttribute("position", new THREE.BufferAttribute(corners, 3));
    this.geometry.setAttribute(
      "normal",
      new THREE.BufferAttribute(cornerNormals(this.faces, this.nVertices, this.normals), 3),
    );
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
      this.colorAttribute.clearUpdateRanges();
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

function expanded(positions: Float32Array, faces: Uint32Array): Float32Array {
  const corners = new Float32Array(faces.length * 3);
  for (let i = 0; i < faces.length; i++) {
    corners.set(positions.subarray(faces[i] * 3, faces[i] * 3 + 3), i * 3);
  }
  return corners;
}

function faceFrames(corners: Float32Array): [Float32Array, Float32Array] {
  const n = corners.length / 9;
  const normals = new Float32Array(n * 3);
  const centers = new Float32Array(n * 3);
  for (let face = 0, c = 0; face < n; face++, c += 9) {
    const ux = corners[c + 3] - corners[c], uy = corners[c + 4] - corners[c + 1], uz = corners[c + 5] - corners[c + 2];
    const vx = corners[c + 6] - corners[c], vy = corners[c + 7] - corners[c + 1], vz = corners[c + 8] - corners[c + 2];
    const x = uy * vz - uz * vy, y = uz * vx - ux * vz, z = ux * vy - uy * vx;
    const length = Math.hypot(x, y, z) || 1;
    normals[face * 3] = x / length;
    normals[face * 3 + 1] = y / length;
    normals[face * 3 + 2] = z / length;
    for (let axis = 0; axis < 3; axis++) {
      centers[face * 3 + axis] = (corners[c + axis] + corners[c + 3 + axis] + corners[c + 6 + axis]) / 3;
    }
  }
  return [normals, centers];
}

/** Per corner: the mean normal of the faces around its vertex that bend little from the corner's own face. */
function cornerNormals(faces: Uint32Array, nVertices: number, normals: Float32Array): Float32Array {
  const start = new Uint32Array(nVertices + 1);
  for (const vertex of faces) start[vertex + 1]++;
  for (let i = 0; i < nVertices; i++) start[i + 1] += start[i];
  const fill = start.slice(0, nVertices);
  const around = new Uint32Array(faces.length);
  for (let corner = 0; corner < faces.length; corner++) around[fill[faces[corner]]++] = (corner / 3) | 0;
  const result = new Float32Array(faces.length * 3);
  for (let corner = 0; corner < faces.length; corner++) {
    const own = ((corner / 3) | 0) * 3;
    const ox = normals[own], oy = normals[own + 1], oz = normals[own + 2];
    let x = 0, y = 0, z = 0;
    for (let i = start[faces[corner]]; i < start[faces[corner] + 1]; i++) {
      const at = around[i] * 3;
      if (normals[at] * ox + normals[at + 1] * oy + normals[at + 2] * oz < CREASE) continue;
      x += normals[at];
      y += normals[at + 1];
      z += normals[at + 2];
    }
    const length = Math.hypot(x, y, z) || 1;
    result[corner * 3] = x / length;
    result[corner * 3 + 1] = y / length;
    result[corner * 3 + 2] = z / length;
  }
  return result;
}
