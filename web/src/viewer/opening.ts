/** Files from a person's disk, and predictions of the server. */

import { byId, el } from "../shared/dom";
import { parseHex, type RGB } from "../shared/colors";
import { complain, say, showBusy } from "./notices";
import { Refused, server, type MeshInfo, type Session } from "./server";
import { Surface } from "./surface";
import type { Workbench } from "./workbench";

const LABEL_SUFFIXES = [".txt", ".npy", ".seg", ".eseg", ".fseg", ".csv"];
const POLL = 200;

export class Opening {
  /** How a mesh is opened again that the server has given up. */
  private again: (() => Promise<MeshInfo>) | null = null;
  /** Of meshes, predictions and turns the last that was asked for; what answers an earlier question is left out. */
  private opened = 0;
  private predicting = 0;
  private turned = 0;
  private up: number[] = [];

  constructor(
    private readonly bench: Workbench,
    private readonly session: Session,
  ) {}

  /** Meshes are opened, label files and class lists go onto the open mesh. */
  async files(files: File[]): Promise<void> {
    const isMesh = (file: File) => this.session.suffixes.includes(suffix(file)) || !isCompanion(file);
    try {
      const mesh = files.find(isMesh);
      if (mesh) await this.openFile(mesh);
      for (const file of files.filter((other) => !isMesh(other))) await this.companion(file);
    } catch (error) {
      complain(error);
    }
  }

  async openFile(file: File): Promise<void> {
    if (file.size > this.session.max_bytes) {
      const most = Math.round(this.session.max_bytes / 2 ** 20);
      throw new Error(`${file.name} is larger than ${most} MB, the limit of this viewer; simplify the mesh first.`);
    }
    await this.open(`reading ${file.name}`, () => server.open(file));
  }

  async open(stage: string, ask: () => Promise<MeshInfo>): Promise<void> {
    const ticket = ++this.opened;
    this.predicting++;
    showBusy({ stage, fraction: null });
    try {
      const scene = await ask();
      const message = await server.mesh(scene.id, this.rememberedUp(scene));
      if (ticket !== this.opened) return;
      this.predicting++; // the mesh before may have been asked about in the meantime
      this.turned++;
      this.up = message.about.up as number[];
      this.bench.show(scene, new Surface(message), (message.arrays.labels as Int32Array) ?? null);
      this.again = ask;
      byId<HTMLSelectElement>("up").value = this.rememberedUp(scene);
      announce(scene);
      await this.loadSources();
    } finally {
      if (ticket === this.opened) showBusy(null);
    }
  }

  /** Asks a model at a resolution. What the same one has answered already is only fetched. */
  async predict(model: string, faces: string): Promise<void> {
    const { scene } = this.bench;
    if (!scene || !model) return;
    const run = ++this.predicting;
    const { predicted } = scene;
    showBusy({ stage: "waiting", fraction: null });
    try {
      if (predicted?.model !== model || predicted.faces !== faces) {
        scene.predicted = null; // what the server tells next is about this question, whatever becomes of it
        await this.withMesh((id) => server.predict(id, model, faces));
      }
      for (;;) {
        const progress = await server.progress(scene.id);
        if (run !== this.predicting) return;
        if (progress.stage === "failed") throw new Error(progress.error ?? "The prediction failed.");
        if (progress.stage === "done") break;
        showBusy(progress);
        await new Promise((wake) => setTimeout(wake, POLL));
      }
      scene.predicted = { model, faces };
      await this.takePrediction(scene, run);
    } catch (error) {
      if (run === this.predicting) complain(error);
    } finally {
      if (run === this.predicting) showBusy(null);
    }
  }

  /** An axis points up; a mesh keeps, by its name, what was chosen for it, and a folder for all of its meshes. */
  async setUp(up: string): Promise<void> {
    const { scene } = this.bench;
    if (!scene) return;
    localStorage.setItem(this.upKey(scene), up);
    await this.hold(up);
  }

  /** The same mesh, turned. */
  private async hold(up: string): Promise<void> {
    const ticket = ++this.turned;
    const message = await this.withMesh((id) => server.mesh(id, up));
    if (ticket !== this.turned) return;
    this.up = message.about.up as number[];
    this.bench.turn(new Surface(message));
  }

  /** Runs a request; a mesh that the server has given up is sent once more. */
  async withMesh<T>(ask: (id: string) => Promise<T>): Promise<T> {
    const { scene } = this.bench;
    if (!scene) throw new Error("Open a mesh first.");
    try {
      return await ask(scene.id);
    } catch (error) {
      if (!(error instanceof Refused && error.status === 410 && this.again)) throw error;
      scene.id = (await this.again()).id;
      return ask(scene.id);
    }
  }

  private async takePrediction(scene: MeshInfo, run: number): Promise<void> {
    const { bench } = this;
    const { about, arrays, shapes } = await server.prediction(scene.id);
    if (run !== this.predicting) return;
    const names = about.classes as string[];
    const colors = about.colors as RGB[];
    // Where the parts lie tells more about what is up than the shape alone.
    const found = String(about.up) !== String(this.up);
    if (found && this.rememberedUp(scene) === "auto") await this.hold("auto");
    // First which layers this model has: the one that is shown may be of blocks that it lacks.
    const sources = await server.fields(scene.id);
    if (run !== this.predicting) return;
    bench.sources = sources;
    const used = bench.takePrediction({
      model: about.model,
      task: about.task,
      classes: names.map((name, i) => ({ name, color: colors[i], hidden: false })),
      labels: arrays.labels as Int32Array,
      probabilities: arrays.probabilities as Float32Array,
      rows: shapes.probabilities[0],
    });
    for (const warning of about.warnings as string[]) say(warning);
    if (!used) {
      say("Your own labels were kept.", { title: "Use the prediction", run: () => bench.usePrediction() });
    }
  }

  private async loadSources(): Promise<void> {
    const { scene, prediction } = this.bench;
    const sources = await server.fields(scene!.id);
    if (scene !== this.bench.scene || prediction !== this.bench.prediction) return;
    this.bench.sources = sources;
    this.bench.refresh();
  }

  private upKey = ({ name }: MeshInfo): string => `up ${this.session.series?.name ?? name}`;
  private rememberedUp = (scene: MeshInfo): string => localStorage.getItem(this.upKey(scene)) ?? this.session.up;

  private async companion(file: File): Promise<void> {
    const { bench } = this;
    if (!bench.scene) throw new Error(`${file.name} contains labels; open its mesh first.`);
    if (suffix(file) === ".json") return this.takeClasses(file);
    const { arrays } = await this.withMesh((id) => server.readLabels(id, file));
    bench.takeLabels(arrays.labels as Int32Array);
    say(`Labels of ${file.name} loaded.`);
  }

  private async takeClasses(file: File): Promise<void> {
    const { classes, colors } = JSON.parse(await file.text());
    const fits = Array.isArray(classes) && Array.isArray(colors) && colors.every((c) => /^#[0-9a-f]{6}$/i.test(c));
    if (!fits) throw new Error(`${file.name} has no list of classes and colors.`);
    this.bench.classes = classes.map((name, i) => ({ name: String(name), color: parseHex(colors[i]), hidden: false }));
    this.bench.setLayer("labels");
  }
}

function announce(scene: MeshInfo): void {
  const { name, n_faces, notes } = scene;
  const box = byId("file-name");
  box.replaceChildren(el("b", {}, name), el("span", {}, `${n_faces.toLocaleString("en")} faces`));
  box.title = [`${scene.n_vertices.toLocaleString("en")} vertices`, ...notes].join("\n");
  box.hidden = false;
  document.title = `${name} · hodgeformer`;
  for (const id of ["tools", "panel"]) byId(id).hidden = false;
  byId("drop").hidden = true;
  byId<HTMLButtonElement>("save").disabled = false;
  const model = byId<HTMLSelectElement>("model");
  byId<HTMLButtonElement>("predict").disabled = !model.value;
  for (const note of notes) say(`${name}: ${note}`);
}

const suffix = (file: File): string => /\.[^.]*$/.exec(file.name.toLowerCase())?.[0] ?? "";
const isCompanion = (file: File): boolean => [...LABEL_SUFFIXES, ".json"].includes(suffix(file));
