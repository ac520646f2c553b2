/** A model that learns from what was corrected: asked for, followed, and then used. */

import { byId, el } from "../shared/dom";
import { complain, say } from "./notices";
import { server, type LearningProgress, type Session } from "./server";

const POLL = 700;
const ENDS = ["idle", "done", "stopped", "failed"];

export function fillModels(select: HTMLSelectElement, { models, preferred }: Session): void {
  const options = models.map(({ name, description }) => el("option", { value: name, title: description }, name));
  select.replaceChildren(...(options.length ? options : [el("option", { value: "" }, "no models")]));
  select.disabled = !options.length;
  if (preferred) select.value = preferred;
}

/** Connects the dialog and the progress; a new model is chosen in the list, and `predict` asks it. */
export function followLearning(model: HTMLSelectElement, predict: () => Promise<void>): void {
  const dialog = byId<HTMLDialogElement>("learn-dialog");
  const answer = byId("learn-answer");
  byId("learn").onclick = () => {
    byId("learn-model").textContent = model.value;
    answer.textContent = "";
    dialog.showModal();
  };
  byId("start-learning").onclick = async () => {
    try {
      const progress = await server.learn(model.value, byId<HTMLInputElement>("minutes").value);
      dialog.close();
      await follow(progress);
    } catch (error) {
      answer.textContent = (error as Error).message;
    }
  };
  byId("stop-learning").onclick = () => void server.stopLearning().catch(complain);

  async function follow(progress: LearningProgress): Promise<void> {
    try {
      while (!ENDS.includes(progress.stage)) {
        show(progress);
        await new Promise((wake) => setTimeout(wake, POLL));
        progress = await server.learning();
      }
      show(null);
      await end(progress);
    } catch (error) {
      show(null);
      complain(error);
    }
  }

  async function end({ stage, error, model: made, told }: LearningProgress): Promise<void> {
    if (stage === "failed") throw new Error(error ?? "The training failed.");
    say(told);
    if (!made) return;
    fillModels(model, await server.session());
    model.value = made;
    await predict();
  }

  // One that was under way when the page was opened, or reloaded, is followed too.
  server.learning().then((progress) => {
    if (!ENDS.includes(progress.stage)) void follow(progress);
  }, complain);
}

function show(progress: LearningProgress | null): void {
  byId("learning").hidden = progress === null;
  byId("learn").hidden = progress !== null;
  if (!progress) return;
  const known = progress.fraction !== null;
  byId("learning").classList.toggle("unknown", !known);
  byId("learning-text").textContent = `${progress.stage}${known ? ` ${Math.round(100 * progress.fraction!)} %` : "…"}`;
  byId("learning-fill").style.width = known ? `${100 * progress.fraction!}%` : "";
}
