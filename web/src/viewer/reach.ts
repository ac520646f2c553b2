/** Which faces a tool reaches: under a round brush, a connected part, or one ring of faces more or less. */

import { distancesFrom } from "./geodesic";
import type { Region } from "./labels";
import type { Hit, Surface } from "./surface";

/** The face that was hit, and those that hang together with it and whose corners lie, on average, within `radius` of
 * the point along the surface. A part that is near but not connected is never reached. */
export function underBrush(surface: Surface, hit: Hit, radius: number): number[] {
  const { places } = surface;
  const distances = distancesFrom(surface, hit, radius);
  const mean = (face: number) =>
    (distances[places[3 * face]] + distances[places[3 * face + 1]] + distances[places[3 * face + 2]]) / 3;
  return flood(surface, hit.face, (face) => mean(face) < radius && !surface.isHidden(face));
}

/** The connected part around a face: faces of the same label, up to edges with a dihedral angle of more than `crease`
 * degrees (180: no edge). */
export function connectedPart(surface: Surface, hit: number, labels: Int32Array, crease: number): number[] {
  const limit = crease >= 180 ? -2 : Math.cos((crease * Math.PI) / 180);
  return flood(surface, hit, (face, from, side) => {
    if (labels[face] !== labels[hit] || surface.isHidden(face)) return false;
    return bend(surface, from, side, face) >= limit;
  });
}

/** The cosine of the dihedral angle between a face and the one across its side; flat is 1. */
function bend({ normals, places }: Surface, from: number, side: number, face: number): number {
  const a = 3 * from, b = 3 * face;
  const [start, end] = [places[a + side], places[a + ((side + 1) % 3)]];
  // Neighbors go along their side in opposite ways, unless one of them is wound the other way round.
  const turned = [0, 1, 2].some((i) => places[b + i] === start && places[b + ((i + 1) % 3)] === end);
  const dot = normals[a] * normals[b] + normals[a + 1] * normals[b + 1] + normals[a + 2] * normals[b + 2];
  return turned ? -dot : dot;
}

/** The region and the faces beside it that do not have its label yet. */
export function grown(surface: Surface, { faces, label }: Region, labels: Int32Array): Set<number> {
  const beside = besides(surface, faces).filter((face) => labels[face] !== label && !surface.isHidden(face));
  return new Set([...faces, ...beside]);
}

/** The region without the faces that border on another label. */
export function shrunk(surface: Surface, { faces, label }: Region, labels: Int32Array): Set<number> {
  return new Set(faces.filter((face) => besides(surface, [face]).every((other) => labels[other] === label)));
}

function besides({ neighbors }: Surface, faces: ArrayLike<number>): number[] {
  return Array.from(faces).flatMap((face) => [...neighbors.subarray(3 * face, 3 * face + 3)].filter((other) => other >= 0));
}

export function flood(surface: Surface, seed: number, accepts: (face: number, from: number, side: number) => boolean): number[] {
  const seen = new Set<number>([seed]);
  const queue = [seed];
  for (let at = 0; at < queue.length; at++) {
    for (let side = 0; side < 3; side++) {
      const next = surface.neighbors[queue[at] * 3 + side];
      if (next < 0 || seen.has(next) || !accepts(next, queue[at], side)) continue;
      seen.add(next);
      queue.push(next);
    }
  }
  return queue;
}
