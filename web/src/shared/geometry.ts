/** Triangles as typed arrays: three corners of its own for every face, and the normals that light falls on. */

import { look } from "./look";

/** The place of every corner, nine numbers for a face. */
export function cornerPositions(positions: Float32Array, faces: Uint32Array): Float32Array {
  const corners = new Float32Array(3 * faces.length);
  for (let i = 0; i < faces.length; i++) corners.set(positions.subarray(3 * faces[i], 3 * faces[i] + 3), 3 * i);
  return corners;
}

/** The normal of every face, as long as twice its area. */
export function faceVectors(corners: Float32Array): Float32Array {
  const vectors = new Float32Array(corners.length / 3);
  for (let i = 0, at = 0; i < corners.length; i += 9, at += 3) {
    const ux = corners[i + 3] - corners[i], uy = corners[i + 4] - corners[i + 1], uz = corners[i + 5] - corners[i + 2];
    const vx = corners[i + 6] - corners[i], vy = corners[i + 7] - corners[i + 1], vz = corners[i + 8] - corners[i + 2];
    vectors[at] = uy * vz - uz * vy;
    vectors[at + 1] = uz * vx - ux * vz;
    vectors[at + 2] = ux * vy - uy * vx;
  }
  return vectors;
}

export function lengths(vectors: Float32Array): Float32Array {
  const at = (i: number) => Math.hypot(vectors[3 * i], vectors[3 * i + 1], vectors[3 * i + 2]);
  return Float32Array.from({ length: vectors.length / 3 }, (_, i) => at(i));
}

/** Vectors of unit length, in place; those without length stay zero. */
export function normalized(vectors: Float32Array): Float32Array {
  for (let i = 0; i < vectors.length; i += 3) {
    const length = Math.hypot(vectors[i], vectors[i + 1], vectors[i + 2]) || 1;
    for (let k = i; k < i + 3; k++) vectors[k] /= length;
  }
  return vectors;
}

/** Per corner the unit mean over the faces around its vertex, without those beyond a crease. */
export function cornerNormals(faces: Uint32Array, nVertices: number, vectors: Float32Array): Float32Array {
  const { offsets, around } = facesAround(faces, nVertices);
  const size = lengths(vectors);
  const normals = new Float32Array(3 * faces.length);
  for (let corner = 0; corner < faces.length; corner++) {
    const own = Math.floor(corner / 3), o = 3 * own;
    let x = 0, y = 0, z = 0;
    for (let i = offsets[faces[corner]]; i < offsets[faces[corner] + 1]; i++) {
      const a = 3 * around[i];
      const dot = vectors[o] * vectors[a] + vectors[o + 1] * vectors[a + 1] + vectors[o + 2] * vectors[a + 2];
      if (Math.abs(dot) <= look.crease * size[own] * size[around[i]]) continue;
      // A neighbor wound the other way counts with its normal turned round.
      const sign = dot > 0 ? 1 : -1;
      x += sign * vectors[a];
      y += sign * vectors[a + 1];
      z += sign * vectors[a + 2];
    }
    normals[3 * corner] = x;
    normals[3 * corner + 1] = y;
    normals[3 * corner + 2] = z;
  }
  return normalized(normals);
}

/** The faces around each vertex, one list after another. */
export function facesAround(faces: Uint32Array, nVertices: number): { offsets: Uint32Array; around: Uint32Array } {
  const offsets = new Uint32Array(nVertices + 1);
  for (const vertex of faces) offsets[vertex + 1]++;
  for (let i = 0; i < nVertices; i++) offsets[i + 1] += offsets[i];
  const next = offsets.slice();
  const around = new Uint32Array(faces.length);
  for (let corner = 0; corner < faces.length; corner++) around[next[faces[corner]]++] = Math.floor(corner / 3);
  return { offsets, around };
}
