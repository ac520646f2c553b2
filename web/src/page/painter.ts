// Puts a mesh on the canvas: WebGL where there is some, else sorted triangles on a plain canvas.

const VERTEX_SHADER = `#version 300 es
in vec3 position;
in vec3 normal;
uniform mat4 toScreen;
uniform mat3 toView;
out vec3 seen;
out vec3 weight;
flat out int face;
void main() {
  gl_Position = toScreen * vec4(position, 1.0);
  seen = toView * normal;
  int corner = gl_VertexID % 3;
  weight = vec3(corner == 0, corner == 1, corner == 2);
  face = gl_VertexID / 3;
}`;

const FRAGMENT_SHADER = `#version 300 es
precision highp float;
in vec3 seen;
in vec3 weight;
flat in int face;
uniform sampler2D colors;
uniform bool blend;
uniform bool edges;
uniform int hovered;
uniform vec3 ghost;
out vec4 pixel;
vec4 corner(int i) {
  int at = 3 * face + i;
  int width = textureSize(colors, 0).x;
  return texelFetch(colors, ivec2(at % width, at / width), 0);
}
void main() {
  vec3 w = weight;
  if (!blend) w = w.x >= w.y && w.x >= w.z ? vec3(1, 0, 0) : w.y >= w.z ? vec3(0, 1, 0) : vec3(0, 0, 1);
  vec4 color = w.x * corner(0) + w.y * corner(1) + w.z * corner(2);
  vec3 base = mix(ghost, color.rgb, color.a);
  vec3 n = dot(seen, seen) > 0.0 ? normalize(gl_FrontFacing ? seen : -seen) : vec3(0);
  float key = max(0.0, dot(n, vec3(-0.38, 0.57, 0.73)));
  float fill = max(0.0, dot(n, vec3(0.80, 0.10, 0.59)));
  float light = 0.50 + 0.08 * n.y + 0.53 * key + 0.15 * fill;
  if (face == hovered) light *= 1.18;
  if (edges) {
    vec3 step = fwidth(weight);
    vec3 far = smoothstep(vec3(0.0), 1.2 * step, weight);
    light *= mix(0.62, 1.0, min(far.x, min(far.y, far.z)));
  }
  float gloss = 0.08 * pow(max(0.0, dot(n, vec3(-0.204, 0.306, 0.930))), 32.0);
  pixel = vec4(base * light + gloss, 1.0);
}`;

const COLORS_PER_ROW = 3 * 512;

class GlPainter {
  constructor(canvas, gl) {
    this.canvas = canvas;
    this.gl = gl;
    this.program = this.link();
    this.at = Object.fromEntries(
      ["toScreen", "toView", "colors", "blend", "edges", "hovered", "ghost"].map((name) => [name, gl.getUniformLocation(this.program, name)]),
    );
    this.buffers = { position: gl.createBuffer(), normal: gl.createBuffer() };
    this.texture = gl.createTexture();
    gl.enable(gl.DEPTH_TEST);
  }

  link() {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX_SHADER], [gl.FRAGMENT_SHADER, FRAGMENT_SHADER]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    return program;
  }

  setShape(geometry, normals) {
    this.nCorners = geometry.faces.length;
    this.load("position", geometry.corners);
    this.load("normal", normals);
  }

  load(name, values) {
    const gl = this.gl, place = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
  }

  // Four bytes per corner; alpha 0 marks what is switched off.
  setColors(colors) {
    const gl = this.gl, rows = Math.ceil(colors.length / 4 / COLORS_PER_ROW);
    const filled = new Uint8Array(4 * rows * COLORS_PER_ROW);
    filled.set(colors);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, COLORS_PER_ROW, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, filled);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  }

  draw(camera, look) {
    const gl = this.gl;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...look.ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(this.program);
    gl.uniformMatrix4fv(this.at.toScreen, false, camera.toScreen());
    gl.uniformMatrix3fv(this.at.toView, false, camera.toView());
    gl.uniform1i(this.at.blend, look.blend);
    gl.uniform1i(this.at.edges, look.edges);
    gl.uniform1i(this.at.hovered, look.hovered);
    gl.uniform3fv(this.at.ghost, look.ghost);
    gl.drawArrays(gl.TRIANGLES, 0, this.nCorners);
  }
}

class PlainPainter {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
  }

  setShape(geometry) {
    this.geometry = geometry;
  }

  setColors(colors) {
    this.colors = colors;
  }

  draw(camera, look) {
    const { geometry, context: pen, canvas } = this;
    pen.fillStyle = `rgb(${look.ground.map((part) => 255 * part)})`;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    const view = camera.toView(), spots = camera.project(geometry.corners, canvas.width, canvas.height);
    const depth = (f) => spots[9 * f + 2] + spots[9 * f + 5] + spots[9 * f + 8];
    const order = Uint32Array.from({ length: geometry.nFaces }, (_, f) => f).sort((f, g) => depth(g) - depth(f));
    for (const f of order) {
      const [x, y, z] = geometry.vectors.subarray(3 * f, 3 * f + 3);
      const slope = (view[2] * x + view[5] * y + view[8] * z) / (Math.hypot(x, y, z) || 1);
      const light = 0.45 + 0.55 * Math.abs(slope), at = 12 * f;
      const ghost = this.colors[at + 3] === 0;
      const rgb = [0, 1, 2].map((k) => light * (ghost ? 255 * look.ghost[k] : this.colors[at + k]));
      pen.fillStyle = pen.strokeStyle = `rgb(${rgb})`;
      pen.beginPath();
      for (let c = 0; c < 3; c++) pen.lineTo(spots[9 * f + 3 * c], spots[9 * f + 3 * c + 1]);
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
  }
}

function painterFor(canvas) {
  const gl = new URLSearchParams(location.search).has("plain") ? null : canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
  return gl ? new GlPainter(canvas, gl) : new PlainPainter(canvas);
}
