/** Distances along the surface. */

import type { Hit, Surface } from "./surface";

/** From a point of a face to the vertices within `radius` and to those just beyond, elsewhere infinite.
 *
 * Each triangle carries distances from two of its corners to the third as if the way there were unfolded into its
 * plane. On a flat surface this is exact. */
export function distancesFrom(surface: Surface, { face, point }: Hit, radius: number): Float32Array {
  const { places, corners } = surface;
  const { offsets, around } = surface.facesAtPlaces;
  const distances = new Float32Array(offsets.length - 1).fill(Infinity);
  const waiting = new Set<number>();
  const offer = (place: number, distance: number) => {
    if (distance > distances[place] * (1 - 1e-5)) return;
    distances[place] = distance;
    if (distance < radius) waiting.add(place);
  };
  for (let i = 3 * face; i < 3 * face + 3; i++) {
    const [x, y, z] = corners.subarray(3 * i, 3 * i + 3);
    offer(places[i], Math.hypot(point.x - x, point.y - y, point.z - z));
  }
  // A set is gone through in the order of entry, with what enters meanwhile.
  for (const place of waiting) {
    waiting.delete(place);
    for (let at = offsets[place]; at < offsets[place + 1]; at++) {
      const first = 3 * around[at];
      for (let i = 0; i < 3; i++) {
        const a = first + ((i + 1) % 3), b = first + ((i + 2) % 3);
        if (places[first + i] === place) continue;
        const [da, db] = [distances[places[a]], distances[places[b]]];
        offer(places[first + i], carried(da, db, between(corners, a, b), between(corners, a, first + i), between(corners, b, first + i)));
      }
    }
  }
  return distances;
}

/** The distance of the corner c of a triangle from those of a and b and the lengths of its sides. */
function carried(da: number, db: number, ab: number, ac: number, bc: number): number {
  const alongSides = Math.min(da + ac, db + bc);
  if (!(da + db < Infinity) || ab === 0) return alongSides;
  // a at (0, 0), b at (ab, 0), c above and the source below.
  const cx = (ac * ac - bc * bc + ab * ab) / (2 * ab), cy = Math.sqrt(Math.max(0, ac * ac - cx * cx));
  const sx = (da * da - db * db + ab * ab) / (2 * ab), sy = -Math.sqrt(Math.max(0, da * da - sx * sx));
  const crossing = (sx * cy - cx * sy) / (cy - sy);
  return crossing >= 0 && crossing <= ab ? Math.hypot(cx - sx, cy - sy) : alongSides;
}

function between(corners: Float32Array, i: number, k: number): number {
  const x = corners[3 * i] - corners[3 * k], y = corners[3 * i + 1] - corners[3 * k + 1];
  return Math.hypot(x, y, corners[3 * i + 2] - corners[3 * k + 2]);
}
