/** How the surface is drawn: plain colors with soft light, or without any; the brush and the chosen face on top. */

import * as THREE from "three";
import { SHADING } from "../shared/look";

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
uniform bool lighted, edges;
uniform int chosen;
uniform vec3 brushPoint, brushColor, markColor;
uniform float brushRadius;
in vec4 vTint;
in vec3 vNormal, vPlace, vCorner;
flat in int vFace;
out vec4 result;

${SHADING}
void main() {
  if (vTint.a < 0.5) discard;
  vec3 color = vTint.rgb;
  if (edges) color *= 1.0 - EDGE_DARKNESS * edgeAt(vCorner, 1.2);
  if (lighted) color = lit(color, dot(vNormal, vNormal) > 0.0 ? normalize(gl_FrontFacing ? vNormal : -vNormal) : vec3(0));
  if (vFace == chosen) color = mix(mix(color, markColor, 0.30), markColor, edgeAt(vCorner, 3.0));
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
      lighted: { value: true },
      edges: { value: false },
      chosen: { value: -1 },
      brushPoint: { value: new THREE.Vector3() },
      brushColor: { value: new THREE.Color(1, 1, 1) },
      brushRadius: { value: 0 },
      markColor: { value: new THREE.Color(1, 1, 1) },
    },
  });
}
