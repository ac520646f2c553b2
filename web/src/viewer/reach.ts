/** Which faces a tool reaches: under a round brush, or a connected part. */

import { distancesFrom } from "./geodesic";
import type { Hit } from "./stage";
import type { Surface } from "./surface";

/** The face that was hit, and those that hang together with it and whose corners lie, on average, within `radius` of
 * the point along the surface. A part that is near but not connected is never reached. */
export function underBrush(surface: Surface, hit: Hit, radius: number): number[] {
  const { places } = surface;
  const distances = distancesFrom(surface, hit, radius);
  const mean = (face: number) =>
    (distances[places[3 * face]] + distances[places[3 * face + 1]] + distances[places[3 * face + 2]]) / 3;
  return flood(surface, hit.face, (face) => mean(face) < radius && !surface.isHidden(face));
}

/** The connected part around a face: faces of the same label, cut off where the surface bends more than `crease`
 * degrees between neighbors (180: nowhere). */
export function connectedPart(surface: Surface, hit: number, labels: Int32Array, crease: number): number[] {
  const label = labels[hit];
  const limit = crease >= 180 ? -2 : Math.cos((crease * Math.PI) / 180);
  const { normals } = surface;
  return flood(surface, hit, (face, from) => {
    if (labels[face] !== label || surface.isHidden(face)) return false;
    const a = face * 3, b = from * 3;
    return normals[a] * normals[b] + normals[a + 1] * normals[b + 1] + normals[a + 2] * normals[b + 2] >= limit;
  });
}

function flood(surface: Surface, seed: number, accepts: (face: number, from: number) => boolean): number[] {
  const seen = new Set<number>([seed]);
  const queue = [seed];
  for (let at = 0; at < queue.length; at++) {
    for (let side = 0; side < 3; side++) {
      const next = surface.neighbors[queue[at] * 3 + side];
      if (next < 0 || seen.has(next) || !accepts(next, queue[at])) continue;
      seen.add(next);
      queue.push(next);
    }
  }
  return queue;
}
