/** The open mesh with its labels and layers, and everything a person can do to them. */

import { GRAY, type RGB } from "../shared/colors";
import { complain } from "./notices";
import { inspect, showTip } from "./inspector";
import { Labels, UNLABELED } from "./labels";
import { Answers, drawLayers, drawQuestions, drawScale, type LayerItem, type Question } from "./layer-panel";
import * as layers from "./layers";
import type { ClassEntry, Field, Prediction } from "./layers";
import { drawLegend, sharesOf } from "./legend";
import { Painting } from "./painting";
import { Pointer } from "./pointer";
import { server, type FieldSource, type MeshInfo } from "./server";
import { Stage } from "./stage";
import type { Hit, Surface } from "./surface";
import { showHistory } from "./toolbar";
import { Uncertain } from "./uncertain";

export class Workbench {
  readonly stage: Stage;
  readonly painting = new Painting(this);
  readonly pointer: Pointer;
  readonly uncertain = new Uncertain();
  scene: MeshInfo | null = null;
  surface: Surface | null = null;
  labels = new Labels(0);
  classes: ClassEntry[] = [];
  /** Colors for classes that no model named. */
  palette: RGB[] = [GRAY];
  /** Classes stay from mesh to mesh, as in a series. */
  keepsClasses = false;
  /** A person stands by the labels as they are: no prediction replaces them. */
  kept = false;
  prediction: Prediction | null = null;
  /** Called when a prediction has come. */
  onPrediction: () => void = () => {};
  sources: FieldSource[] = [];
  private layer = "labels";
  active = 0;
  /** The names of a model whose numbers the classes have, whatever they were renamed to. */
  private named = "";
  private readonly answers = new Answers();
  private field: Field | null = null;
  private picked: Hit | null = null;
  private request = 0;

  constructor(box: HTMLElement) {
    this.stage = new Stage(box);
    this.pointer = new Pointer(box, this.stage, this.painting);
    this.stage.controls.addEventListener("change", () => showTip(null)); // the pointer is on another face now
    this.painting.take("look");
  }

  /** A new mesh; labels that it has already are taken over. */
  show(scene: MeshInfo, surface: Surface, labels: Int32Array | null): void {
    this.scene = scene;
    this.surface = surface;
    this.labels = labels ? Labels.from(labels) : new Labels(surface.nFaces);
    this.prediction = null;
    this.sources = [];
    this.picked = null;
    this.kept = scene.corrected;
    if (!this.keepsClasses || !this.classes.length) this.resetClasses();
    this.layer = "labels";
    this.stage.show(surface);
    showTip(null);
    this.painting.begin(this.keepsClasses);
    if (labels) this.nameClasses(labels);
    this.refresh();
  }

  private resetClasses(): void {
    this.classes = [];
    for (let i = 0; i < 2; i++) this.classes.push(this.freshClass());
    this.named = "";
    this.active = 0;
  }

  /** The same mesh with another side up. */
  turn(surface: Surface): void {
    this.surface = surface;
    this.picked = null;
    this.stage.show(surface);
    this.refresh();
  }

  takeLabels(labels: Int32Array): void {
    this.nameClasses(labels);
    this.labels.replace(labels);
    this.setLayer("labels");
  }

  /** A class for every label. */
  private nameClasses(labels: Int32Array): void {
    const most = labels.reduce((a, b) => Math.max(a, b), 0);
    while (this.classes.length <= most) this.addClass();
  }

  /** A prediction arrives; labels that a person painted are not thrown away. Returns whether it became the labels. */
  takePrediction(prediction: Prediction): boolean {
    this.prediction = prediction;
    this.onPrediction();
    if (prediction.rows === 1 || this.kept || this.labels.edited) {
      this.setLayer(this.kept ? this.layer : "prediction");
      return prediction.rows === 1 || !this.labels.edited;
    }
    this.usePrediction();
    return true;
  }

  usePrediction(): void {
    const { prediction } = this;
    if (!prediction) return;
    const names = prediction.classes.map(({ name }) => name);
    const fits = this.named === names.join("\n") || names.every((name, i) => name === this.classes[i]?.name);
    // Numbers of other classes mean something else, so there is no way back to them.
    if (!fits) this.classes = prediction.classes.map((entry) => ({ ...entry }));
    if (fits && this.labels.canUndo) this.labels.replace(prediction.labels);
    else this.labels = Labels.from(prediction.labels);
    this.named = names.join("\n");
    this.kept = false;
    this.labels.markSaved();
    this.setLayer("labels");
  }

  get items(): LayerItem[] {
    const items = [{ key: "labels", title: "Labels" }];
    if (this.prediction) items.push({ key: "prediction", title: "Prediction" });
    if (this.prediction && this.prediction.rows > 1) {
      items.push({ key: "confidence", title: "Confidence" }, { key: "probability", title: "Probability" });
    }
    return items.concat(this.sources.map(({ name, title }) => ({ key: `field:${name}`, title })));
  }

  setLayer(key: string): void {
    this.layer = key;
    this.refresh();
  }

  /** What is painted and saved. */
  showLabels(): void {
    if (this.layer !== "labels") this.setLayer("labels");
  }

  nextLayer(): void {
    const keys = this.items.map((item) => item.key);
    this.setLayer(keys[(keys.indexOf(this.layer) + 1) % keys.length]);
  }

  activate(label: number): void {
    if (label >= this.classes.length) return;
    this.active = label;
    this.drawLegend();
  }

  addClass(): void {
    this.active = this.classes.push(this.freshClass()) - 1;
    this.drawLegend();
  }

  /** One more class, with a name and a color that the others do not have. */
  private freshClass(): ClassEntry {
    const { classes, palette } = this;
    let number = classes.length + 1;
    while (classes.some((entry) => entry.name === `part ${number}`)) number++;
    return { name: `part ${number}`, color: [...palette[classes.length % palette.length]], hidden: false };
  }

  /** A clicked place, or none: what is known of it is told. */
  look(hit: Hit | null): void {
    this.picked = hit;
    this.inspect();
    if (hit && this.source?.picks) void this.loadField();
  }

  /** The class that the layer shows at a face, none where it shows numbers of another kind. */
  classAt(face: number): ClassEntry | null | undefined {
    return this.layer.startsWith("field:") ? null : this.shown.classes[this.shown.labels[face]];
  }

  /** Colors, legend, scale and inspector of the current layer. */
  refresh(): void {
    if (!this.surface) return;
    // A layer may have left with the model that it was of.
    if (!this.items.some(({ key }) => key === this.layer)) this.layer = "labels";
    this.active = Math.min(this.active, this.classes.length - 1);
    const { source, prediction, surface } = this;
    this.request++; // what is still on its way belongs to what was shown before
    this.uncertain.offer(this);
    drawLayers(this.items, this.layer, (key) => this.setLayer(key));
    this.field = null;
    let questions: Question[] = [];
    if (this.layer === "confidence") this.field = layers.confidence(prediction!);
    if (this.layer === "probability") {
      const options = prediction!.classes.map(({ name }, i): [string, string] => [String(i), name]);
      questions = this.answers.ask(this.layer, [{ key: "class", title: "Class", options }]);
      this.field = layers.classProbability(prediction!, Number(questions[0].value));
    }
    if (source) questions = this.answers.ask(this.layer, source.choices);
    const hint = source?.picks && !this.picked ? "Click a face to see what it reads." : "";
    drawQuestions(questions, hint, (key, value) => this.answer(key, value));
    drawScale(this.field);
    if (source) {
      layers.paintLabels(surface, new Int32Array(surface.nFaces).fill(UNLABELED), []);
      if (!source.picks || this.picked) void this.loadField();
    } else this.refreshColors();
    this.drawLegend();
    showHistory(this.labels);
    this.stage.invalidate();
  }

  get activeColor(): layers.ClassEntry["color"] {
    return this.classes[this.active]?.color ?? GRAY;
  }

  private get source(): FieldSource | undefined {
    return this.sources.find(({ name }) => this.layer === `field:${name}`);
  }

  /** The labels and classes that the current layer speaks of. */
  private get shown(): { labels: Int32Array; classes: ClassEntry[] } {
    if (this.layer === "labels" || !this.prediction) return { labels: this.labels.values, classes: this.classes };
    const { labels, classes, rows } = this.prediction;
    if (rows > 1) return { labels, classes };
    return { labels: new Int32Array(this.surface!.nFaces).fill(labels[0]), classes };
  }

  private answer(key: string, value: string): void {
    this.answers.set(this.layer, key, value);
    this.refresh();
  }

  private async loadField(): Promise<void> {
    const { source, scene, surface, picked } = this;
    if (!source || !scene || !surface) return;
    const chosen = Object.fromEntries(this.answers.ask(this.layer, source.choices).map(({ key, value }) => [key, value]));
    if (source.picks && picked) {
      chosen.face = String(picked.face);
      chosen.weights = surface.cornerWeights(picked.face, picked.point).join(",");
    }
    const ticket = ++this.request;
    try {
      const { about, arrays } = await server.field(scene.id, source.name, chosen);
      if (ticket !== this.request) return;
      const { element, signed, note } = about as Field;
      this.field = layers.withRange(arrays.values as Float32Array, { element, signed, note });
      this.refreshColors();
      drawScale(this.field);
      drawQuestions(this.answers.ask(this.layer, source.choices), "", (key, value) => this.answer(key, value));
    } catch (error) {
      if (ticket === this.request) complain(error);
    }
  }

  drawLegend(): void {
    if (!this.surface) return;
    const editable = this.layer === "labels";
    const { labels, classes } = this.shown;
    drawLegend(classes, sharesOf(labels, this.surface.areas, classes.length), editable ? this.active : -2, editable, {
      activate: (label) => this.activate(label),
      recolor: () => this.refreshColors(),
      rename: () => this.drawLegend(),
    });
    this.inspect();
  }

  private refreshColors(): void {
    const { surface, field } = this;
    const { labels, classes } = this.shown;
    if (field) layers.paintField(surface!, field, (face) => classes[labels[face]]?.hidden);
    else layers.paintLabels(surface!, labels, classes);
    this.inspect();
    this.stage.invalidate();
  }

  private inspect(): void {
    const { picked, prediction, field, surface, shown } = this;
    if (!picked || !surface) return inspect(null, prediction);
    const perFace = prediction && prediction.rows > 1 ? prediction : null;
    const at = field?.element === "vertex" ? surface.faces[picked.face * 3] : picked.face;
    inspect(
      {
        face: picked.face,
        label: shown.classes[shown.labels[picked.face]] ?? null,
        prediction: perFace,
        field: field && { field, value: field.values[at] },
      },
      prediction,
    );
  }
}
