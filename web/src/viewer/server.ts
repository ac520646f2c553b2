/** Every request that the page makes. A refusal of the server becomes an Error with the server's own words. */

import { decode, encode, type Message } from "./tensors";

export interface Session {
  version: string;
  models: { name: string; description: string }[];
  preferred: string | null;
  /** Colors of classes that nobody named yet, the first ones first. */
  palette: string[];
  suffixes: string[];
  max_bytes: number;
  out: string;
  opened: MeshInfo | null;
  series: Series | null;
  faces: string;
  up: string;
}

export type State = "untouched" | "predicted" | "corrected" | "reviewed";

/** A folder that is gone through; classes and colors are those of what was kept so far. */
export interface Series {
  name: string;
  meshes: { name: string; state: State; held_out: boolean }[];
  classes: string[];
  colors: string[];
}

export interface MeshInfo {
  id: string;
  name: string;
  n_vertices: number;
  n_faces: number;
  notes: string[];
  /** Whether its labels were kept. */
  corrected: boolean;
  predicted: { model: string; faces: string } | null;
}

export interface Progress {
  stage: string;
  fraction: number | null;
  error: string | null;
}

export interface LearningProgress extends Progress {
  model: string | null;
  told: string;
}

export interface FieldSource {
  name: string;
  title: string;
  picks: boolean;
  choices: { key: string; title: string; options: [string, string][] }[];
}

export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

async function send(path: string, init: RequestInit = {}): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(`api/${path}`, init);
  } catch {
    throw new Refused(0, "The server does not answer. Is `hodgeformer view` still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(response.status, said.error ?? `The server answered ${response.status}.`);
}

const json = async <T>(path: string, init?: RequestInit): Promise<T> => (await send(path, init)).json();
const arrays = async (path: string, init?: RequestInit): Promise<Message> =>
  decode(await (await send(path, init)).arrayBuffer());
const post = (body?: BodyInit): RequestInit => ({ method: "POST", body });
const query = (values: Record<string, string>): string => new URLSearchParams(values).toString();

export interface Annotation {
  labels: Int32Array;
  classes: string[];
  colors: string[];
}

export const server = {
  session: () => json<Session>("session"),
  open: (file: File) => json<MeshInfo>(`meshes?${query({ name: file.name })}`, post(file)),
  openSample: () => json<MeshInfo>("samples", post()),
  mesh: (id: string, up: string) => arrays(`meshes/${id}/geometry?${query({ up })}`),
  openMember: (number: number) => json<MeshInfo>(`series/${number}`, post()),
  learn: (model: string, minutes: string) => json<LearningProgress>(`learning?${query({ model, minutes })}`, post()),
  learning: () => json<LearningProgress>("learning"),
  stopLearning: () => json<LearningProgress>("learning", { method: "DELETE" }),
  predict: (id: string, model: string, faces: string) =>
    json<Progress>(`meshes/${id}/predict?${query({ model, faces })}`, post()),
  progress: (id: string) => json<Progress>(`meshes/${id}/progress`),
  prediction: (id: string) => arrays(`meshes/${id}/prediction`),
  fields: (id: string) => json<FieldSource[]>(`meshes/${id}/fields`),
  field: (id: string, source: string, chosen: Record<string, string>) =>
    arrays(`meshes/${id}/fields/${source}?${query(chosen)}`),
  readLabels: (id: string, file: File) => arrays(`meshes/${id}/labels?${query({ name: file.name })}`, post(file)),
  save: (id: string, { labels, ...meaning }: Annotation) =>
    json<{ folder: string; files: string[] }>(`meshes/${id}/save`, post(encode(meaning, labels))),
  saveDataSet: (id: string, { labels, ...meaning }: Annotation, name: string, reviewed = false) =>
    json<{ folder: string; meshes: number; command: string }>(
      `meshes/${id}/data-set`,
      post(encode({ ...meaning, data_set: name, reviewed }, labels)),
    ),
};
