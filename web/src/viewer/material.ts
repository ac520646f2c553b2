/** How the surface is drawn: plain colors with soft light, or without any; outlines of marked faces on top. */

import * as THREE from "three";
import { SHADING } from "../shared/look";

const VERTEX = /* glsl */ `
in vec4 tint;
in float mark;
out vec4 vTint;
out vec3 vNormal, vCorner;
flat out int vMark;
void main() {
  vTint = tint;
  vNormal = normalMatrix * normal;
  int corner = gl_VertexID % 3;
  vCorner = vec3(corner == 0, corner == 1, corner == 2);
  vMark = int(mark);
  gl_Position = projectionMatrix * modelViewMatrix * vec4(position, 1.0);
}`;

const FRAGMENT = /* glsl */ `
uniform bool lighted, edges;
uniform vec3 markTint, markColor;
uniform float markShare;
in vec4 vTint;
in vec3 vNormal, vCorner;
flat in int vMark;
out vec4 result;

${SHADING}
/** 1 on the chosen sides, 0 from width pixels away. */
float nearest(vec3 sides, float width) {
  vec3 line = sides * (1.0 - smoothstep(vec3(0.0), fwidth(vCorner) * width, vCorner));
  return max(line.x, max(line.y, line.z));
}
void main() {
  if (vTint.a < 0.5) discard;
  vec3 color = vTint.rgb;
  if (edges) color *= 1.0 - EDGE_DARKNESS * edgeAt(vCorner, 1.2);
  if (lighted) color = lit(color, dot(vNormal, vNormal) > 0.0 ? normalize(gl_FrontFacing ? vNormal : -vNormal) : vec3(0));
  if (vMark != 0) {
    // What is marked ends at the sides across from these corners.
    vec3 ends = vec3(vMark & 1, (vMark >> 1) & 1, (vMark >> 2) & 1);
    // A pale seam inside of the line is seen where the color is that of the line.
    color = mix(color, markTint, markShare);
    color = mix(color, 1.0 - markColor, 0.5 * nearest(ends, 5.0));
    color = mix(color, markColor, nearest(ends, 3.0));
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
      markShare: { value: 0 },
      markTint: { value: new THREE.Color(1, 1, 1) },
      markColor: { value: new THREE.Color(1, 1, 1) },
    },
  });
}
