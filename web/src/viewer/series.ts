/** A folder of meshes: previous and next, how far each one is, and labels that are kept on the way. */

import { byId, el } from "../shared/dom";
import { parseHex } from "../shared/colors";
import { complain, complainWith, say } from "./notices";
import type { Opening } from "./opening";
import { annotationOf } from "./saving";
import { server, type Series, type State } from "./server";
import type { Workbench } from "./workbench";

const SIGNS: Record<State, string> = { untouched: "○", predicted: "◔", corrected: "◑", reviewed: "●" };

/** `shown` is called when a mesh was opened. */
export class SeriesBar {
  private at = -1;
  private going = false;

  constructor(
    private readonly bench: Workbench,
    private readonly opening: Opening,
    private readonly series: Series,
    private readonly shown: () => Promise<unknown>,
  ) {
    bench.keepsClasses = true;
    bench.classes = series.classes.map((name, i) => ({ name, color: parseHex(series.colors[i]), hidden: false }));
    const member = byId<HTMLSelectElement>("member");
    member.append(...series.meshes.map((_, i) => el("option", { value: String(i) })));
    member.onchange = () => void this.go(Number(member.value));
    byId("marks").append(...series.meshes.map((_, i) => el("i", { onclick: () => void this.go(i) })));
    byId("marks").style.width = `${Math.min(240, 15 * series.meshes.length)}px`;
    byId("previous").onclick = () => void this.go(this.at - 1);
    byId("next").onclick = () => void this.go(this.at + 1);
    byId("keep").onclick = () => void this.keep(true).catch(complain);
    bench.onPrediction = () => this.note("predicted");
    byId("series").hidden = false;
    this.draw();
  }

  /** The first mesh that nobody has corrected. */
  begin(): Promise<void> {
    const open = this.series.meshes.findIndex(({ state }) => !isDone(state));
    return this.go(Math.max(open, 0));
  }

  /** Opens a mesh; labels of the present one that were painted are kept first. */
  async go(number: number): Promise<void> {
    if (this.going || number < 0 || number >= this.series.meshes.length) return this.draw();
    this.going = true;
    try {
      if (this.bench.labels.edited) await this.keep(false);
      await this.open(number);
    } catch (error) {
      const leave = () => void this.open(number).catch(complain);
      complainWith(error, this.at === number ? undefined : { title: "Leave it unsaved", run: leave });
    } finally {
      this.going = false;
      this.draw();
    }
    if (this.bench.scene?.name === this.series.meshes[this.at]?.name) void this.shown();
  }

  /** Puts the labels into the data set, as they are; reviewed ones were confirmed by a person. */
  private async keep(reviewed: boolean): Promise<void> {
    const { bench, series } = this;
    if (!bench.scene) return;
    bench.showLabels();
    await this.opening.withMesh((id) => server.saveDataSet(id, annotationOf(bench), series.name, reviewed));
    bench.labels.markSaved();
    bench.kept = bench.scene.corrected = true;
    this.note(reviewed ? "reviewed" : "corrected");
    if (this.count(isDone) === series.meshes.length) say("All meshes of the folder are corrected.");
  }

  /** The state of the mesh that is shown: not of the one that is chosen, which may be one that cannot be read. */
  private note(state: State): void {
    const mesh = this.series.meshes.find(({ name }) => name === this.bench.scene?.name);
    if (mesh && !(state === "predicted" && isDone(mesh.state))) mesh.state = state;
    this.draw();
  }

  private count(counts: (state: State) => boolean): number {
    return this.series.meshes.filter(({ state }) => counts(state)).length;
  }

  private async open(number: number): Promise<void> {
    this.at = number;
    await this.opening.open(`reading ${this.series.meshes[number].name}`, () => server.openMember(number));
  }

  private draw(): void {
    const { meshes } = this.series;
    const member = byId<HTMLSelectElement>("member");
    meshes.forEach(({ name, state, held_out }, i) => {
      member.options[i].textContent = `${SIGNS[state]} ${name}${held_out ? " (test)" : ""} · ${state}`;
      const mark = byId("marks").children[i] as HTMLElement;
      mark.title = `${name}: ${state}`;
      mark.dataset.state = state;
      mark.classList.toggle("here", i === this.at);
    });
    member.value = String(this.at);
    byId<HTMLButtonElement>("previous").disabled = this.at <= 0;
    byId<HTMLButtonElement>("next").disabled = this.at >= meshes.length - 1;
    const reviewed = this.count((state) => state === "reviewed");
    byId("corrected").textContent = `${this.count(isDone)} of ${meshes.length} corrected, ${reviewed} reviewed`;
  }
}

/** Whether the labels are in the data set. */
const isDone = (state: State): boolean => state === "corrected" || state === "reviewed";
