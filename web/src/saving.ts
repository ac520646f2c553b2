/** The save dialog. */

import { byId } from "./dom";
import { toHex } from "./colormap";
import type { Opening } from "./opening";
import { server, type Annotation, type Session } from "./server";
import type { Workbench } from "./workbench";

export function prepareSaving(bench: Workbench, opening: Opening, session: Session): () => void {
  const dialog = byId<HTMLDialogElement>("save-dialog");
  const answer = byId("saved");
  byId("out-folder").textContent = session.out;

  async function run(save: () => Promise<string>): Promise<void> {
    const buttons = dialog.querySelectorAll<HTMLButtonElement>(".choice .button");
    buttons.forEach((button) => (button.disabled = true));
    answer.className = "saved";
    answer.textContent = "Saving…";
    try {
      answer.textContent = await save();
      bench.edited = false;
    } catch (error) {
      answer.classList.add("error");
      answer.textContent = (error as Error).message;
    } finally {
      buttons.forEach((button) => (button.disabled = false));
    }
  }

  const annotation = (): Annotation => ({
    labels: bench.labels.values,
    classes: bench.classes.map(({ name }) => name),
    colors: bench.classes.map(({ color }) => toHex(color)),
  });
  byId("save-files").onclick = () =>
    run(async () => {
      const { files } = await opening.withScene((id) => server.save(id, annotation()));
      return `Saved ${files.join(", ")}.`;
    });
  byId("save-data-set").onclick = () =>
    run(async () => {
      const name = byId<HTMLInputElement>("data-set-name").value;
      const { meshes, command } = await opening.withScene((id) => server.saveDataSet(id, annotation(), name));
      return `${meshes} mesh${meshes === 1 ? "" : "es"} in the data set now. Train with: ${command}`;
    });
  return () => {
    if (!bench.scene || dialog.open) return;
    answer.textContent = "";
    dialog.showModal();
  };
}
