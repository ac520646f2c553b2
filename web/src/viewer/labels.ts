/** Labels of faces that can be edited, with undo and redo. A stroke of the brush is one step. */

export const UNLABELED = -1;
const MAX_STEPS = 200;

/** Faces that were painted together, and the labels that they had before. */
export interface Region {
  label: number;
  faces: Uint32Array;
  before: Int32Array;
}

interface Step {
  faces: Uint32Array;
  before: Int32Array;
  after: Int32Array;
  /** What was painted, none where all labels changed. */
  region: Region | null;
}

export class Labels {
  readonly values: Int32Array;
  /** 1 where a person has painted, undone or not. */
  readonly painted: Uint8Array;
  private done: Step[] = [];
  private undone: Step[] = [];
  private stroke: Map<number, number> | null = null;
  /** How many steps had been done when the labels were saved; -1 if no undo leads back there. */
  private savedAt = 0;

  constructor(n: number) {
    this.values = new Int32Array(n).fill(UNLABELED);
    this.painted = new Uint8Array(n);
  }

  /** Labels to begin with, which no undo takes away. */
  static from(values: Int32Array): Labels {
    const labels = new Labels(values.length);
    labels.values.set(values);
    return labels;
  }

  /** Whether there is something that was not saved. */
  get edited(): boolean {
    return this.stroke !== null || this.done.length !== this.savedAt;
  }

  markSaved(): void {
    this.savedAt = this.done.length;
  }

  get canUndo(): boolean {
    return this.done.length > 0;
  }

  get canRedo(): boolean {
    return this.undone.length > 0;
  }

  /** What was painted last. */
  get region(): Region | null {
    return this.done.at(-1)?.region ?? null;
  }

  /** Gives faces a label within the current stroke; returns those that changed. */
  paint(faces: Iterable<number>, label: number): number[] {
    const changed: number[] = [];
    this.stroke ??= new Map();
    for (const face of faces) {
      this.painted[face] = 1;
      if (this.values[face] === label) continue;
      if (!this.stroke.has(face)) this.stroke.set(face, this.values[face]);
      this.values[face] = label;
      changed.push(face);
    }
    return changed;
  }

  /** Ends the stroke; returns whether it changed anything. */
  commit(): boolean {
    const stroke = this.stroke;
    this.stroke = null;
    if (!stroke?.size) return false;
    const faces = Uint32Array.from(stroke.keys());
    const before = Int32Array.from(stroke.values()), label = this.values[faces[0]];
    this.push({ faces, before, after: new Int32Array(faces.length).fill(label), region: { label, faces, before } });
    return true;
  }

  /** Gives what was painted last other faces, as one step: those that enter get its label, those that leave get back
   * what they had. Returns what changed. */
  reshape(wanted: Set<number>): Uint32Array {
    const { label, ...old } = this.region!;
    const had = new Map(Array.from(old.faces, (face, i) => [face, old.before[i]]));
    const faces = Uint32Array.from([...wanted, ...had.keys()].filter((face) => wanted.has(face) !== had.has(face)));
    const before = Int32Array.from(faces, (face) => this.values[face]);
    const after = Int32Array.from(faces, (face) => had.get(face) ?? label);
    const inside = Uint32Array.from(wanted);
    const region = { label, faces: inside, before: Int32Array.from(inside, (face) => had.get(face) ?? this.values[face]) };
    for (const face of wanted) this.painted[face] = 1;
    faces.forEach((face, i) => (this.values[face] = after[i]));
    if (faces.length) this.push({ faces, before, after, region });
    return faces;
  }

  /** All labels at once, as one step. */
  replace(values: Int32Array): void {
    this.commit();
    const faces = Uint32Array.from(values.keys()).filter((face) => values[face] !== this.values[face]);
    if (!faces.length) return;
    const before = Int32Array.from(faces, (face) => this.values[face]);
    this.values.set(values);
    this.push({ faces, before, after: Int32Array.from(faces, (face) => values[face]), region: null });
  }

  undo(): Uint32Array | null {
    this.commit();
    const step = this.done.pop();
    if (!step) return null;
    step.faces.forEach((face, i) => (this.values[face] = step.before[i]));
    this.undone.push(step);
    return step.faces;
  }

  redo(): Uint32Array | null {
    this.commit();
    const step = this.undone.pop();
    if (!step) return null;
    step.faces.forEach((face, i) => (this.values[face] = step.after[i]));
    this.done.push(step);
    return step.faces;
  }

  private push(step: Step): void {
    if (this.savedAt > this.done.length) this.savedAt = -1;
    this.done.push(step);
    if (this.done.length > MAX_STEPS) {
      this.done.shift();
      this.savedAt = Math.max(-1, this.savedAt - 1);
    }
    this.undone = [];
  }
}
