/** Which faces a tool reaches: under a round brush, or a connected part. */

import * as THREE from "three";
import { CONTAINED, INTERSECTED, NOT_INTERSECTED } from "three-mesh-bvh";
import type { Surface } from "./surface";

/** Faces that touch the ball around a point and hang together with the face that was hit, so that a brush on one side
 * of a thin part leaves the other side alone. */
export function underBrush(surface: Surface, hit: number, point: THREE.Vector3, radius: number): number[] {
  const ball = new THREE.Sphere(point, radius);
  const touched = new Set<number>([hit]);
  surface.bvh.shapecast({
    intersectsBounds: (box) => {
      if (!ball.intersectsBox(box)) return NOT_INTERSECTED;
      return farthest(box, point) < radius * radius ? CONTAINED : INTERSECTED;
    },
    intersectsTriangle: (triangle, face, contained) => {
      if (contained || triangle.closestPointToPoint(point, SCRATCH).distanceToSquared(point) < radius * radius) {
        touched.add(face);
      }
      return false;
    },
  });
  return flood(surface, hit, (face) => touched.has(face) && !surface.isHidden(face));
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

function farthest(box: THREE.Box3, point: THREE.Vector3): number {
  const x = Math.max(point.x - box.min.x, box.max.x - point.x);
  const y = Math.max(point.y - box.min.y, box.max.y - point.y);
  const z = Math.max(point.z - box.min.z, box.max.z - point.z);
  return x * x + y * y + z * z;
}

const SCRATCH = new THREE.Vector3();
