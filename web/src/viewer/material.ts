/** How the surface is drawn: plain colors with soft light, or without any; the brush and the chosen face on top. */

import * as THREE from "three";

const VERTEX = /* glsl */ `
in vec4 tint;
out vec4 vTint;
out vec3 vNormal, vPlace, vCorner;
flat out int vFace;
void main() {
  vTint = tint;
  vNormal = normalMatrix * normal;
  vPlace = position;
  int corner = gl_VertexID % 3;
  vCorner = vec3(corner == 0, corner == 1, corner == 2);
  vFace = gl_VertexID / 3;
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;

const FRAGMENT = /* glsl */ `
uniform bool lit, edges;
uniform int chosen;
uniform vec3 brushPoint, brushColor, markColor;
uniform float brushRadius;
in vec4 vTint;
in vec3 vNormal, vPlace, vCorner;
flat in int vFace;
out vec4 result;

float edgeOf(float width) {
  vec3 d = fwidth(vCorner) * width;
  vec3 inside = smoothstep(vec3(0.0), d, vCorner);
  return 1.0 - min(min(inside.x, inside.y), inside.z);
}

void main() {
  if (vTint.a < 0.5) discard;
  vec3 color = vTint.rgb;
  if (lit) {
    vec3 n = normalize(gl_FrontFacing ? vNormal : -vNormal);
    float key = max(dot(n, normalize(vec3(0.35, 0.55, 0.75))), 0.0);
    float fill = max(dot(n, normalize(vec3(-0.7, 0.1, 0.5))), 0.0);
    float shade = 0.50 + 0.12 * (0.5 + 0.5 * n.y) + 0.42 * key + 0.12 * fill;
    float gleam = pow(max(dot(n, normalize(vec3(0.2, 0.35, 0.9))), 0.0), 40.0);
    color = color * shade + 0.10 * gleam;
  }
  if (edges) color = mix(color, color * 0.45, 0.55 * edgeOf(1.1));
  if (vFace == chosen) color = mix(mix(color, markColor, 0.30), markColor, edgeOf(3.0));
  if (brushRadius > 0.0) {
    float d = distance(vPlace, brushPoint);
    float w = fwidth(d);
    color = mix(color, brushColor, 0.35 * (1.0 - step(brushRadius, d)));
    color = mix(color, markColor, 1.0 - smoothstep(0.7 * w, 1.6 * w, abs(d - brushRadius)));
  }
  result = vec4(color, 1.0);
}`;

export function surfaceMaterial() {
  return new THREE.ShaderMaterial({
    glslVersion: THREE.GLSL3,
    vertexShader: VERTEX,
    fragmentShader: FRAGMENT,
    side: THREE.DoubleSide,
    uniforms: {
      lit: { value: true },
      edges: { value: false },
      chosen: { value: -1 },
      brushPoint: { value: new THREE.Vector3() },
      brushColor: { value: new THREE.Color(1, 1, 1) },
      brushRadius: { value: 0 },
      markColor: { value: new THREE.Color(1, 1, 1) },
    },
  });
}
