/** The save dialog. */

import { byId, el } from "../shared/dom";
import { toHex } from "../shared/colors";
import type { Opening } from "./opening";
import { server, type Annotation, type Session } from "./server";
import type { Workbench } from "./workbench";

export const annotationOf = ({ labels, classes }: Workbench): Annotation => ({
  labels: labels.values,
  classes: classes.map(({ name }) => name),
  colors: classes.map(({ color }) => toHex(color)),
});

export function prepareSaving(bench: Workbench, opening: Opening, session: Session): () => void {
  const dialog = byId<HTMLDialogElement>("save-dialog");
  const answer = byId("saved");
  byId("out-folder").textContent = session.out;
  byId("data-set-choice").hidden = session.series !== null;

  async function run(save: () => Promise<(Node | string)[]>): Promise<void> {
    const buttons = dialog.querySelectorAll<HTMLButtonElement>(".choice .button");
    buttons.forEach((button) => (button.disabled = true));
    answer.className = "saved";
    answer.textContent = "Saving…";
    try {
      answer.replaceChildren(...(await save()));
      bench.labels.markSaved();
    } catch (error) {
      answer.classList.add("error");
      answer.textContent = (error as Error).message;
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  }

  byId("save-files").onclick = () =>
    run(async () => {
      const { files } = await opening.withMesh((id) => server.save(id, annotationOf(bench)));
      return ["Saved ", ...files.flatMap((file, i) => [i ? ", " : "", el("code", {}, file)]), "."];
    });
  byId("save-data-set").onclick = () =>
    run(async () => {
      const name = byId<HTMLInputElement>("data-set-name").value;
      const { meshes, command } = await opening.withMesh((id) => server.saveDataSet(id, annotationOf(bench), name));
      const count = `${meshes} mesh${meshes === 1 ? "" : "es"}`;
      return [`The data set has ${count} now. Train with `, el("code", {}, command)];
    });
  return () => {
    if (!bench.scene || dialog.open) return;
    answer.textContent = "";
    bench.showLabels(); // behind the dialog is what will be saved
    dialog.showModal();
  };
}
