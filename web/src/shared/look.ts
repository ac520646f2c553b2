/** How a mesh looks, in this page, in the viewer and in PNG pictures: light, creases, edges, from one file of numbers. */

import look from "../../../src/hodgeformer/draw/look.json";

export { look };

export type Vector = [number, number, number];

const float = (value: number): string => value.toFixed(4);
const lamp = (name: string, [x, y, z, strength]: number[]): string =>
  `vec3 ${name}Way = vec3(${[x, y, z].map(float).join(", ")}); float ${name}Strength = ${float(strength)};`;
const EXPONENT = 2 ** look.gloss_doublings;

/** For fragment shaders. `lit`: a color under the lights, n the unit normal toward the eye. `edgeAt`: 1 on the edges of
 * a triangle, 0 inside, from the weights of its corners. */
export const SHADING = /* glsl */ `
vec3 lit(vec3 color, vec3 n) {
  ${lamp("ambient", look.ambient)}
  ${lamp("key", look.key)}
  ${lamp("fill", look.fill)}
  ${lamp("gloss", look.gloss)}
  float light = ambientStrength + dot(n, ambientWay)
    + keyStrength * max(0.0, dot(n, keyWay)) + fillStrength * max(0.0, dot(n, fillWay));
  return color * light + glossStrength * pow(max(0.0, dot(n, glossWay)), ${float(EXPONENT)});
}
float edgeAt(vec3 weights, float width) {
  vec3 inside = smoothstep(vec3(0.0), fwidth(weights) * width, weights);
  return 1.0 - min(inside.x, min(inside.y, inside.z));
}
const float EDGE_DARKNESS = 0.38;
`;

/** The same light without a graphics card: what a color part (0 to 255) is multiplied with, and what is added. */
export function lightOn(n: Vector): [number, number] {
  const toward = (way: number[]) => way[0] * n[0] + way[1] * n[1] + way[2] * n[2];
  const lamps = [look.key, look.fill].map((way) => way[3] * Math.max(0, toward(way)));
  const gloss = look.gloss[3] * Math.max(0, toward(look.gloss)) ** EXPONENT;
  return [look.ambient[3] + toward(look.ambient) + lamps[0] + lamps[1], 255 * gloss];
}
