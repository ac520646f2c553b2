/** A camera that circles the origin: mouse, touch and keys. */

import type { Vector } from "../shared/look";

const FIELD = 0.5; // tangent of half the opening angle

export class Camera {
  aspect = 1;
  /** Where the middle of the mesh stands on the canvas, from -1 to 1. */
  shift: [number, number] = [0, 0];
  private azimuth = 0;
  private elevation = 0;
  private distance = 0;
  private target: [number, number] = [0, 0];

  constructor() {
    this.reset();
  }

  reset(): void {
    this.azimuth = 0.5;
    this.elevation = 0.25;
    this.distance = 2.35;
    this.target = [0, 0];
  }

  turn(right: number, up: number): void {
    this.azimuth -= right;
    this.elevation = Math.min(1.57, Math.max(-1.57, this.elevation + up));
  }

  zoom(factor: number): void {
    this.distance = Math.min(12, Math.max(0.15, this.distance * factor));
  }

  /** In shares of the height of the canvas. */
  move(right: number, up: number): void {
    this.target[0] -= 2 * FIELD * this.distance * right;
    this.target[1] -= 2 * FIELD * this.distance * up;
  }

  /** Columns of the rotation from the mesh to the eye: x right, y up, z toward the eye. */
  toView(): Float32Array {
    const ca = Math.cos(this.azimuth), sa = Math.sin(this.azimuth);
    const ce = Math.cos(this.elevation), se = Math.sin(this.elevation);
    return new Float32Array([ca, -se * sa, ce * sa, 0, ce, se, -sa, -se * ca, ce * ca]);
  }

  toScreen(): Float32Array {
    const { distance, shift, target, aspect } = this;
    const r = this.toView(), near = Math.max(0.02, distance - 3), far = distance + 3;
    const sy = this.narrow() / FIELD, sx = sy / aspect;
    const a = -(far + near) / (far - near), b = (-2 * far * near) / (far - near);
    const out = new Float32Array(16);
    for (let c = 0; c < 3; c++) {
      const x = r[3 * c], y = r[3 * c + 1], z = r[3 * c + 2];
      out.set([sx * x - shift[0] * z, sy * y - shift[1] * z, a * z, -z], 4 * c);
    }
    out.set([-sx * target[0] + shift[0] * distance, -sy * target[1] + shift[1] * distance, -a * distance + b, distance], 12);
    return out;
  }

  /** Pixels and depth of many points. */
  project(points: Float32Array, width: number, height: number): Float32Array {
    const m = this.toScreen(), out = new Float32Array(points.length);
    for (let i = 0; i < points.length; i += 3) {
      const x = points[i], y = points[i + 1], z = points[i + 2];
      const w = m[3] * x + m[7] * y + m[11] * z + m[15];
      out[i] = (((m[0] * x + m[4] * y + m[8] * z + m[12]) / w + 1) * width) / 2;
      out[i + 1] = ((1 - (m[1] * x + m[5] * y + m[9] * z + m[13]) / w) * height) / 2;
      out[i + 2] = w;
    }
    return out;
  }

  /** The line of sight through a point of the canvas, given from -1 to 1. */
  ray(x: number, y: number): { origin: Vector; direction: Vector } {
    const r = this.toView(), slope = FIELD / this.narrow();
    const across = (x - this.shift[0]) * slope * this.aspect, up = (y - this.shift[1]) * slope;
    const back = (a: number, b: number, c: number): Vector => [
      r[0] * a + r[1] * b + r[2] * c,
      r[3] * a + r[4] * b + r[5] * c,
      r[6] * a + r[7] * b + r[8] * c,
    ];
    return { origin: back(this.target[0], this.target[1], this.distance), direction: back(across, up, -1) };
  }

  /** Below 1 where the free part of the canvas is narrower than high. */
  private narrow(): number {
    return Math.min(1, this.aspect * (1 - Math.abs(this.shift[0])));
  }
}

/** Lets mouse, fingers and keys move the camera; the answer tells whether one of them holds it. */
export function steer(canvas: HTMLCanvasElement, camera: Camera, changed: () => void): () => boolean {
  const fingers = new Map<number, { x: number; y: number }>();
  const spread = () => {
    const [a, b] = [...fingers.values()];
    return { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, size: Math.hypot(a.x - b.x, a.y - b.y) };
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
  });
  canvas.addEventListener("pointermove", (event) => {
    const last = fingers.get(event.pointerId);
    if (!last) return;
    const height = canvas.clientHeight;
    const before = fingers.size === 2 ? spread() : null;
    fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
    if (before) {
      const after = spread();
      camera.zoom(before.size / Math.max(1, after.size));
      camera.move((after.x - before.x) / height, (before.y - after.y) / height);
    } else if (event.shiftKey || event.buttons > 1) {
      camera.move((event.clientX - last.x) / height, (last.y - event.clientY) / height);
    } else {
      camera.turn((5 * (event.clientX - last.x)) / height, (5 * (event.clientY - last.y)) / height);
    }
    changed();
  });
  for (const end of ["pointerup", "pointercancel"] as const) {
    canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  }
  const wheel = (event: WheelEvent) => {
    event.preventDefault();
    camera.zoom(Math.exp(0.0012 * event.deltaY));
    changed();
  };
  canvas.addEventListener("wheel", wheel, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  const ways: Record<string, [number, number]> = {
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
  };
  canvas.addEventListener("keydown", (event) => {
    const way = ways[event.key];
    if (way && event.shiftKey) camera.move(0.03 * way[0], 0.03 * way[1]);
    else if (way) camera.turn(0.12 * way[0], 0.12 * way[1]);
    else if (event.key === "+" || event.key === "=") camera.zoom(0.9);
    else if (event.key === "-") camera.zoom(1.1);
    else return;
    event.preventDefault();
    changed();
  });
  return () => fingers.size > 0;
}
