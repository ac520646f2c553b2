/** From what a person wants to see to the color of every face. */

import { colorScale, GRAY, type Colormap, type RGB } from "../shared/colors";
import type { Surface } from "./surface";

export interface ClassEntry {
  name: string;
  color: RGB;
  hidden: boolean;
}

export interface Prediction {
  model: string;
  task: string;
  classes: ClassEntry[];
  labels: Int32Array;
  probabilities: Float32Array;
  /** One row for the whole mesh, or one per face. */
  rows: number;
}

export interface Field {
  values: Float32Array;
  element: "vertex" | "face";
  signed: boolean;
  note: string;
  low: number;
  high: number;
}

/** Signed fields are drawn around zero. */
export const colormapOf = ({ signed }: Field): Colormap => (signed ? "diverging" : "sequential");

export function paintLabels(
  surface: Surface,
  labels: Int32Array,
  classes: ClassEntry[],
  faces?: ArrayLike<number>,
): void {
  const one = (face: number) => {
    const entry = classes[labels[face]];
    const [r, g, b] = entry ? entry.color : GRAY;
    surface.setFace(face, r, g, b, entry?.hidden ? 0 : 255);
  };
  if (faces) for (let i = 0; i < faces.length; i++) one(faces[i]);
  else for (let face = 0; face < surface.nFaces; face++) one(face);
  surface.upload(faces);
}

export function paintField(surface: Surface, field: Field, hidden: (face: number) => boolean): void {
  const { low, high, values } = field;
  const colorOf = colorScale(colormapOf(field), low, high);
  if (field.element === "face") {
    for (let face = 0; face < surface.nFaces; face++) {
      const color = colorOf(values[face]);
      surface.setFace(face, color[0], color[1], color[2], hidden(face) ? 0 : 255);
    }
  } else {
    for (let corner = 0; corner < surface.faces.length; corner++) {
      const color = colorOf(values[surface.faces[corner]]);
      surface.setCorner(corner, color[0], color[1], color[2], hidden((corner / 3) | 0) ? 0 : 255);
    }
  }
  surface.upload();
}

/** The probability of the most likely class of every face. */
export function confidence({ labels, probabilities, classes }: Prediction): Field {
  const values = Float32Array.from(labels, (label, face) => probabilities[face * classes.length + label]);
  return { values, element: "face", signed: false, note: "Probability of the predicted class", low: 0, high: 1 };
}

export function classProbability({ labels, probabilities, classes }: Prediction, wanted: number): Field {
  const values = Float32Array.from(labels, (_, face) => probabilities[face * classes.length + wanted]);
  return { values, element: "face", signed: false, note: `Probability of ${classes[wanted].name}`, low: 0, high: 1 };
}

/** A field of the server with the range it is drawn in, around zero if signed; not a number is no value. */
export function withRange(values: Float32Array, rest: Omit<Field, "values" | "low" | "high">): Field {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (!rest.signed) return { ...rest, values, low, high };
  const reach = Math.max(Math.abs(low), Math.abs(high));
  return { ...rest, values, low: -reach, high: reach };
}
