// A camera that circles the origin: mouse, touch and keys.

const FIELD = 0.5; // tangent of half the opening angle

class Camera {
  constructor() {
    this.reset();
    this.aspect = 1;
    this.shift = [0, 0];
  }

  reset() {
    this.azimuth = 0.5;
    this.elevation = 0.25;
    this.distance = 2.35;
    this.target = [0, 0];
  }

  turn(right, up) {
    this.azimuth -= right;
    this.elevation = Math.min(1.57, Math.max(-1.57, this.elevation + up));
  }

  zoom(factor) {
    this.distance = Math.min(12, Math.max(0.15, this.distance * factor));
  }

  // In shares of the height of the canvas.
  move(right, up) {
    this.target[0] -= 2 * FIELD * this.distance * right;
    this.target[1] -= 2 * FIELD * this.distance * up;
  }

  // Columns of the rotation from the mesh to the eye: x right, y up, z toward the eye.
  toView() {
    const [ca, sa, ce, se] = [Math.cos(this.azimuth), Math.sin(this.azimuth), Math.cos(this.elevation), Math.sin(this.elevation)];
    return new Float32Array([ca, -se * sa, ce * sa, 0, ce, se, -sa, -se * ca, ce * ca]);
  }

  toScreen() {
    const r = this.toView(), near = Math.max(0.02, this.distance - 3), far = this.distance + 3;
    const narrow = Math.min(1, this.aspect * this.room());
    const sx = narrow / (FIELD * this.aspect), sy = narrow / FIELD;
    const [tx, ty] = this.target;
    const a = -(far + near) / (far - near), b = (-2 * far * near) / (far - near);
    const out = new Float32Array(16);
    for (let c = 0; c < 3; c++) {
      const [x, y, z] = [r[3 * c], r[3 * c + 1], r[3 * c + 2]];
      out.set([sx * x - this.shift[0] * z, sy * y - this.shift[1] * z, a * z, -z], 4 * c);
    }
    const depth = this.distance;
    out.set([-sx * tx + this.shift[0] * depth, -sy * ty + this.shift[1] * depth, -a * depth + b, depth], 12);
    return out;
  }

  room() {
    return 1 - Math.abs(this.shift[0]);
  }

  // Pixels and depth of many points.
  project(points, width, height) {
    const m = this.toScreen(), out = new Float32Array(points.length);
    for (let i = 0; i < points.length; i += 3) {
      const [x, y, z] = [points[i], points[i + 1], points[i + 2]];
      const w = m[3] * x + m[7] * y + m[11] * z + m[15];
      out[i] = ((m[0] * x + m[4] * y + m[8] * z + m[12]) / w + 1) * width / 2;
      out[i + 1] = (1 - (m[1] * x + m[5] * y + m[9] * z + m[13]) / w) * height / 2;
      out[i + 2] = w;
    }
    return out;
  }

  // The line of sight through a point of the canvas, given from -1 to 1.
  ray(x, y) {
    const r = this.toView(), narrow = Math.min(1, this.aspect * this.room());
    const across = (x - this.shift[0]) * FIELD * this.aspect / narrow, up = (y - this.shift[1]) * FIELD / narrow;
    const back = (a, b, c) => [0, 1, 2].map((i) => r[3 * i] * a + r[3 * i + 1] * b + r[3 * i + 2] * c);
    return { origin: back(this.target[0], this.target[1], this.distance), direction: back(across, up, -1) };
  }
}

function steer(canvas, camera, changed) {
  const fingers = new Map();
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
  for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, (event) => fingers.delete(event.pointerId));
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoom(Math.exp(0.0012 * event.deltaY));
    changed();
  }, { passive: false });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  const keys = { ArrowLeft: [1, 0], ArrowRight: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  canvas.addEventListener("keydown", (event) => {
    const way = keys[event.key];
    if (way && event.shiftKey) camera.move(-0.03 * way[0], 0.03 * way[1]);
    else if (way) camera.turn(-0.12 * way[0], 0.12 * way[1]);
    else if (event.key === "+" || event.key === "=") camera.zoom(0.9);
    else if (event.key === "-") camera.zoom(1.1);
    else return;
    event.preventDefault();
    changed();
  });
  return () => fingers.size > 0;
}
