/** Puts a mesh on the canvas: WebGL where there is some, else sorted triangles on a plain canvas. */

import { lightOn, SHADING, type Vector } from "../shared/look";
import type { Camera } from "./camera";
import type { PageMesh } from "./mesh";

const VERTEX_SHADER = /* glsl */ `#version 300 es
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

const FRAGMENT_SHADER = /* glsl */ `#version 300 es
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
${SHADING}
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
  if (face == hovered) base *= 1.18;
  if (edges) base *= 1.0 - EDGE_DARKNESS * edgeAt(weight, 1.2);
  pixel = vec4(lit(base, dot(seen, seen) > 0.0 ? normalize(gl_FrontFacing ? seen : -seen) : vec3(0)), 1.0);
}`;

const COLORS_PER_ROW = 3 * 512;

export interface Look {
  ground: Vector;
  /** In place of the color of what is switched off. */
  ghost: Vector;
  blend: boolean;
  edges: boolean;
  hovered: number;
}

export interface Painter {
  setShape(mesh: PageMesh, smooth: boolean): void;
  /** Four bytes per corner; alpha 0 marks what is switched off. */
  setColors(colors: Uint8Array): void;
  draw(camera: Camera, look: Look): void;
}

export function painterFor(canvas: HTMLCanvasElement): Painter {
  const plain = new URLSearchParams(location.search).has("plain");
  const gl = plain ? null : canvas.getContext("webgl2", { antialias: true, preserveDrawingBuffer: true });
  return gl ? new GlPainter(canvas, gl) : new PlainPainter(canvas, canvas.getContext("2d")!);
}

class GlPainter implements Painter {
  private readonly program: WebGLProgram;
  private readonly buffers: Record<string, WebGLBuffer>;
  private readonly texture: WebGLTexture;
  private nCorners = 0;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly gl: WebGL2RenderingContext,
  ) {
    this.program = this.link();
    this.buffers = { position: gl.createBuffer(), normal: gl.createBuffer() };
    this.texture = gl.createTexture();
    gl.enable(gl.DEPTH_TEST);
  }

  setShape(mesh: PageMesh, smooth: boolean): void {
    this.nCorners = mesh.faces.length;
    this.load("position", mesh.corners);
    this.load("normal", mesh.normals(smooth));
  }

  setColors(colors: Uint8Array): void {
    const { gl } = this, rows = Math.ceil(colors.length / 4 / COLORS_PER_ROW);
    const filled = new Uint8Array(4 * rows * COLORS_PER_ROW);
    filled.set(colors);
    gl.bindTexture(gl.TEXTURE_2D, this.texture);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA8, COLORS_PER_ROW, rows, 0, gl.RGBA, gl.UNSIGNED_BYTE, filled);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
    gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  }

  draw(camera: Camera, look: Look): void {
    const { gl, program } = this;
    const at = (name: string) => gl.getUniformLocation(program, name);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...look.ground, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    gl.useProgram(program);
    gl.uniformMatrix4fv(at("toScreen"), false, camera.toScreen());
    gl.uniformMatrix3fv(at("toView"), false, camera.toView());
    gl.uniform1i(at("blend"), Number(look.blend));
    gl.uniform1i(at("edges"), Number(look.edges));
    gl.uniform1i(at("hovered"), look.hovered);
    gl.uniform3fv(at("ghost"), look.ghost);
    gl.drawArrays(gl.TRIANGLES, 0, this.nCorners);
  }

  private link(): WebGLProgram {
    const { gl } = this, program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX_SHADER], [gl.FRAGMENT_SHADER, FRAGMENT_SHADER]] as const) {
      const shader = gl.createShader(kind)!;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader) ?? "");
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program) ?? "");
    return program;
  }

  private load(name: "position" | "normal", values: Float32Array): void {
    const { gl } = this, place = gl.getAttribLocation(this.program, name);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
    gl.bufferData(gl.ARRAY_BUFFER, values, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, 3, gl.FLOAT, false, 0, 0);
  }
}

class PlainPainter implements Painter {
  private mesh: PageMesh | null = null;
  private colors = new Uint8Array();

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly pen: CanvasRenderingContext2D,
  ) {}

  setShape(mesh: PageMesh): void {
    this.mesh = mesh;
  }

  setColors(colors: Uint8Array): void {
    this.colors = colors as Uint8Array<ArrayBuffer>;
  }

  draw(camera: Camera, look: Look): void {
    const { mesh, pen, canvas, colors } = this;
    pen.fillStyle = `rgb(${look.ground.map((part) => 255 * part)})`;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    if (!mesh) return;
    const view = camera.toView(), spots = camera.project(mesh.corners, canvas.width, canvas.height);
    const depth = (f: number) => spots[9 * f + 2] + spots[9 * f + 5] + spots[9 * f + 8];
    const order = Uint32Array.from({ length: mesh.nFaces }, (_, f) => f).sort((f, g) => depth(g) - depth(f));
    for (const f of order) {
      const [light, gloss] = lightOn(towardEye(mesh.vectors.subarray(3 * f, 3 * f + 3), view)), at = 12 * f;
      const ghost = colors[at + 3] === 0;
      const rgb = [0, 1, 2].map((k) => light * (ghost ? 255 * look.ghost[k] : colors[at + k]) + gloss);
      pen.fillStyle = pen.strokeStyle = `rgb(${rgb})`;
      pen.beginPath();
      for (let c = 0; c < 3; c++) pen.lineTo(spots[9 * f + 3 * c], spots[9 * f + 3 * c + 1]);
      pen.closePath();
      pen.fill();
      pen.stroke();
    }
  }
}

/** A normal in the frame of the eye, of unit length and on its side. */
function towardEye([x, y, z]: Float32Array, view: Float32Array): Vector {
  const seen = [0, 1, 2].map((k) => view[k] * x + view[3 + k] * y + view[6 + k] * z);
  const scale = (seen[2] < 0 ? -1 : 1) / (Math.hypot(x, y, z) || 1);
  return [seen[0] * scale, seen[1] * scale, seen[2] * scale];
}
