/** The triangles on the graphics card: three corners of its own for every face, so that faces have plain colors. */

import * as THREE from "three";
import { MeshBVH } from "three-mesh-bvh";
import { cornerNormals, cornerPositions, faceVectors, facesAround, lengths, normalized } from "../shared/geometry";
import type { Message } from "./tensors";

/** A face and a point on it. */
export interface Hit {
  face: number;
  point: THREE.Vector3;
}

export class Surface {
  readonly nFaces: number;
  readonly nVertices: number;
  readonly faces: Uint32Array;
  /** Numbers of the places of the corners: vertices at the same place are one. */
  readonly places: Uint32Array;
  /** The face across each side, from a corner to the next; -1 where there is none. */
  readonly neighbors: Int32Array;
  /** The length of a unit of the view in units of the file. */
  readonly scale: number;
  /** The place of every corner, nine numbers for a face. */
  readonly corners: Float32Array;
  readonly geometry = new THREE.BufferGeometry();
  readonly bvh: MeshBVH;
  /** Twice the areas of the faces; all one where no face has any. */
  readonly areas: Float32Array;
  /** Unit normals of the faces. */
  readonly normals: Float32Array;
  /** RGBA of every corner; alpha 0 hides a face. */
  readonly colors: Uint8Array;
  private readonly colorAttribute: THREE.BufferAttribute;
  /** Of every corner, what the shader reads: 0, or 8 and the sides at which the marked faces end. */
  private readonly marks: THREE.BufferAttribute;
  private marked: ArrayLike<number> = [];
  private found: ReturnType<typeof facesAround> | null = null;

  constructor({ about, arrays }: Message) {
    const positions = arrays.positions as Float32Array;
    this.faces = arrays.faces as Uint32Array;
    this.places = arrays.places as Uint32Array;
    this.neighbors = arrays.neighbors as Int32Array;
    this.scale = about.scale as number;
    this.nFaces = this.faces.length / 3;
    this.nVertices = positions.length / 3;
    this.corners = cornerPositions(positions, this.faces);
    const vectors = faceVectors(this.corners);
    const shown = cornerNormals(this.faces, this.nVertices, vectors);
    this.areas = lengths(vectors);
    if (!this.areas.some((area) => area > 0)) this.areas.fill(1);
    this.normals = normalized(vectors);
    this.colors = new Uint8Array(this.nFaces * 12).fill(255);
    this.colorAttribute = new THREE.BufferAttribute(this.colors, 4, true);
    this.geometry.setAttribute("position", new THREE.BufferAttribute(this.corners, 3));
    this.geometry.setAttribute("normal", new THREE.BufferAttribute(shown, 3));
    this.geometry.setAttribute("tint", this.colorAttribute);
    this.marks = new THREE.BufferAttribute(new Uint8Array(this.nFaces * 3), 1);
    this.geometry.setAttribute("mark", this.marks);
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

  /** The faces around each place, found when they are first asked for. */
  get facesAtPlaces(): ReturnType<typeof facesAround> {
    this.found ??= facesAround(this.places, this.places.reduce((a, b) => Math.max(a, b), 0) + 1);
    return this.found;
  }

  /** Outlines these faces and no others; returns whether anything changed. */
  mark(faces: ArrayLike<number>): boolean {
    if (!faces.length && !this.marked.length) return false;
    const { marks, neighbors } = this;
    const set = (face: number, value: number) => marks.array.fill(value, 3 * face, 3 * face + 3);
    const inside = new Set(Array.from(faces));
    for (const face of Array.from(this.marked)) set(face, 0);
    for (const face of inside) {
      let ends = 8;
      for (let side = 0; side < 3; side++) {
        // The side from corner i to the next lies across from the third.
        if (!inside.has(neighbors[3 * face + side])) ends |= 1 << ((side + 2) % 3);
      }
      set(face, ends);
    }
    this.marked = faces;
    marks.needsUpdate = true;
    return true;
  }

  isHidden(face: number): boolean {
    return this.colors[face * 12 + 3] === 0;
  }

  center(face: number, into: THREE.Vector3): THREE.Vector3 {
    const { corners } = this, at = 9 * face;
    return into.set(
      (corners[at] + corners[at + 3] + corners[at + 6]) / 3,
      (corners[at + 1] + corners[at + 4] + corners[at + 7]) / 3,
      (corners[at + 2] + corners[at + 5] + corners[at + 8]) / 3,
    );
  }

  /** The first face that a ray meets, hidden ones aside. */
  firstHit(ray: THREE.Ray): Hit | null {
    const first = this.bvh.raycastFirst(ray, THREE.DoubleSide);
    if (!first) return null;
    if (!this.isHidden(first.faceIndex!)) return { face: first.faceIndex!, point: first.point };
    const others = this.bvh.raycast(ray, THREE.DoubleSide).filter((hit) => !this.isHidden(hit.faceIndex!));
    others.sort((a, b) => a.distance - b.distance);
    return others.length ? { face: others[0].faceIndex!, point: others[0].point } : null;
  }

  /** Whether nothing lies between an eye and the center of a face. */
  isSeen(face: number, eye: THREE.Vector3): boolean {
    if (this.isHidden(face)) return false;
    const center = this.center(face, new THREE.Vector3());
    const first = this.firstHit(new THREE.Ray(eye, center.clone().sub(eye).normalize()));
    return first?.face === face || (first !== null && eye.distanceTo(first.point) > eye.distanceTo(center) * (1 - 1e-5));
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
