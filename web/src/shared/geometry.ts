// Meshes as typed arrays: decoding, corners, normals, and the face under a ray.

function decode(text, Type) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Type(bytes.buffer);
}

function parseColor(text) {
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

class Geometry {
  constructor(scene) {
    this.vertices = decode(scene.positions, Float32Array);
    this.faces = decode(scene.faces, Uint32Array);
    this.nFaces = this.faces.length / 3;
    this.corners = new Float32Array(9 * this.nFaces);
    for (let i = 0; i < this.faces.length; i++) {
      this.corners.set(this.vertices.subarray(3 * this.faces[i], 3 * this.faces[i] + 3), 3 * i);
    }
    this.vectors = this.faceVectors();
  }

  // Normal times twice the area.
  faceVectors() {
    const out = new Float32Array(3 * this.nFaces);
    const c = this.corners;
    for (let f = 0; f < this.nFaces; f++) {
      const i = 9 * f;
      const ux = c[i + 3] - c[i], uy = c[i + 4] - c[i + 1], uz = c[i + 5] - c[i + 2];
      const vx = c[i + 6] - c[i], vy = c[i + 7] - c[i + 1], vz = c[i + 8] - c[i + 2];
      out[3 * f] = uy * vz - uz * vy;
      out[3 * f + 1] = uz * vx - ux * vz;
      out[3 * f + 2] = ux * vy - uy * vx;
    }
    return out;
  }

  areas() {
    const v = this.vectors;
    return Float32Array.from({ length: this.nFaces }, (_, f) => Math.hypot(v[3 * f], v[3 * f + 1], v[3 * f + 2]) / 2);
  }

  // Per corner the mean over the faces around its vertex, without those beyond a sharp edge.
  smoothNormals() {
    const around = this.facesAround();
    const v = this.vectors;
    const lengths = this.areas().map((area) => 2 * area);
    const out = new Float32Array(9 * this.nFaces);
    for (let i = 0; i < this.faces.length; i++) {
      const f = Math.floor(i / 3);
      let x = 0, y = 0, z = 0;
      for (let at = around.offsets[this.faces[i]]; at < around.offsets[this.faces[i] + 1]; at++) {
        const g = around.members[at];
        const dot = v[3 * f] * v[3 * g] + v[3 * f + 1] * v[3 * g + 1] + v[3 * f + 2] * v[3 * g + 2];
        if (Math.abs(dot) > 0.6 * lengths[f] * lengths[g]) {
          const sign = Math.sign(dot);
          x += sign * v[3 * g]; y += sign * v[3 * g + 1]; z += sign * v[3 * g + 2];
        }
      }
      out.set([x, y, z], 3 * i);
    }
    return out;
  }

  flatNormals() {
    const out = new Float32Array(9 * this.nFaces);
    for (let i = 0; i < this.faces.length; i++) {
      const f = Math.floor(i / 3);
      out.set(this.vectors.subarray(3 * f, 3 * f + 3), 3 * i);
    }
    return out;
  }

  facesAround() {
    const offsets = new Uint32Array(this.vertices.length / 3 + 1);
    for (const vertex of this.faces) offsets[vertex + 1]++;
    for (let i = 1; i < offsets.length; i++) offsets[i] += offsets[i - 1];
    const next = offsets.slice();
    const members = new Uint32Array(this.faces.length);
    for (let i = 0; i < this.faces.length; i++) members[next[this.faces[i]]++] = Math.floor(i / 3);
    return { offsets, members };
  }

  // The nearest face that a ray meets, and its corner closest to that point.
  pick(origin, direction) {
    const c = this.corners;
    const [ox, oy, oz] = origin, [dx, dy, dz] = direction;
    let best = Infinity, hit = null;
    for (let i = 0; i < c.length; i += 9) {
      const ax = c[i + 3] - c[i], ay = c[i + 4] - c[i + 1], az = c[i + 5] - c[i + 2];
      const bx = c[i + 6] - c[i], by = c[i + 7] - c[i + 1], bz = c[i + 8] - c[i + 2];
      const px = dy * bz - dz * by, py = dz * bx - dx * bz, pz = dx * by - dy * bx;
      const det = ax * px + ay * py + az * pz;
      if (det === 0) continue;
      const sx = ox - c[i], sy = oy - c[i + 1], sz = oz - c[i + 2];
      const u = (sx * px + sy * py + sz * pz) / det;
      if (u < 0 || u > 1) continue;
      const qx = sy * az - sz * ay, qy = sz * ax - sx * az, qz = sx * ay - sy * ax;
      const v = (dx * qx + dy * qy + dz * qz) / det;
      if (v < 0 || u + v > 1) continue;
      const t = (bx * qx + by * qy + bz * qz) / det;
      if (t > 0 && t < best) {
        best = t;
        const w = 1 - u - v;
        hit = { face: i / 9, corner: w >= u && w >= v ? 0 : u >= v ? 1 : 2 };
      }
    }
    return hit;
  }
}
