/** Where a prediction is least certain, one connected region after another. */

import { byId } from "../shared/dom";
import { confidence, type Prediction } from "./layers";
import { say } from "./notices";
import { flood } from "./reach";
import type { Surface } from "./surface";
import type { Workbench } from "./workbench";

/** A face below this probability of its class is uncertain. */
const SURE = 0.8;
/** Regions that cover less of the surface are left out. */
const SPECK = 0.001;

/** Leads through the uncertain regions of a mesh. Those that were visited or painted on count as reviewed. */
export class Uncertain {
  private of: Prediction | null = null;
  private left: number[][] = [];

  /** Shows the button where a prediction has something to go to. */
  offer({ prediction, surface, labels }: Workbench): void {
    const button = byId("visit-uncertain");
    button.hidden = !prediction || prediction.rows === 1;
    if (button.hidden || !prediction || !surface) return;
    if (this.of !== prediction) this.left = uncertainRegions(surface, prediction);
    this.of = prediction;
    this.left = this.left.filter((faces) => !faces.some((face) => labels.painted[face]));
    button.textContent = `Least certain region (${this.left.length})`;
  }

  /** Goes to the least certain region that is left; after the last one, all are offered again. */
  visit(bench: Workbench): void {
    this.offer(bench);
    if (byId("visit-uncertain").hidden) return say("Predict the faces of the mesh first.");
    const faces = this.left.shift();
    if (!faces) {
      this.of = null;
      return say("No uncertain region is left.");
    }
    bench.look(bench.stage.approach(faces));
    bench.stage.mark(faces);
    this.offer(bench);
  }
}

/** Connected uncertain faces, those with the lowest mean probability first. */
function uncertainRegions(surface: Surface, prediction: Prediction): number[][] {
  const { areas, nFaces } = surface;
  const { values } = confidence(prediction);
  const least = SPECK * areas.reduce((sum, area) => sum + area, 0);
  const taken = new Uint8Array(nFaces);
  const regions: { faces: number[]; confidence: number }[] = [];
  for (let seed = 0; seed < nFaces; seed++) {
    if (taken[seed] || values[seed] >= SURE) continue;
    const faces = flood(surface, seed, (face) => values[face] < SURE);
    let area = 0, sure = 0;
    for (const face of faces) {
      taken[face] = 1;
      area += areas[face];
      sure += areas[face] * values[face];
    }
    if (area > least) regions.push({ faces, confidence: sure / area });
  }
  return regions.sort((a, b) => a.confidence - b.confidence).map(({ faces }) => faces);
}
