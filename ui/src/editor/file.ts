import { t } from "@lingui/core/macro";
import { raw } from "@/api/client";
import { ApiError } from "@/api/problem";
import { forget, recall, remember } from "@/state/remember";

/** Where in a file somebody is led: lines, and a character of the first of them, all from 1. */
export interface PlaceIn {
  line: number;
  end_line: number;
  character: number;
}

/** Maximum size for editing in the browser. */
export const MOST_BYTES = 2_000_000;

/** A file as loaded; a missing file has no hash. */
export interface Loaded {
  text: string;
  hash: string;
}

export class NotText extends Error {}

/** Where a file's bytes are, below /api/v1. */
export const address = (workspace: string, path: string) =>
  `/workspaces/${workspace}/files?path=${encodeURIComponent(path)}`;

export async function load(workspace: string, path: string): Promise<Loaded> {
  let answer: Response;
  try {
    answer = await raw(address(workspace, path));
  } catch (error) {
    if (error instanceof ApiError && error.code === "file_not_found") return { text: "", hash: "" };
    throw error;
  }
  const hash = (answer.headers.get("ETag") ?? "").replaceAll('"', "");
  if (Number(answer.headers.get("Content-Length") ?? 0) > MOST_BYTES) {
    void answer.body?.cancel();
    throw new NotText(t`It is larger than 2 MB, too large to edit in the browser.`);
  }
  const bytes = await answer.arrayBuffer();
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    if (text.includes("\0")) throw new Error();
    return { text, hash };
  } catch {
    throw new NotText(t`It is binary, or not UTF-8 text.`);
  }
}

/** Saves the text if the file is unchanged; returns its new hash. */
export async function save(workspace: string, path: string, text: string, hash: string): Promise<string> {
  const answer = await raw(address(workspace, path), {
    method: "PUT",
    headers: {
      "Content-Type": "application/octet-stream",
      ...(hash ? { "If-Match": `"${hash}"` } : { "If-None-Match": "*" }),
    },
    body: new TextEncoder().encode(text),
  });
  return ((await answer.json()) as { hash: string }).hash;
}

export async function remove(workspace: string, path: string, hash: string): Promise<void> {
  await raw(address(workspace, path), { method: "DELETE", headers: hash ? { "If-Match": `"${hash}"` } : {} });
}

/** Text that was not saved, with the file it was made from. */
export interface Draft {
  base: string;
  hash: string;
  text: string;
}

const draftKey = (workspace: string, path: string) => `draft.${workspace}.${path}`;

const isDraft = (v: unknown): v is Draft =>
  typeof v === "object" &&
  v !== null &&
  ["base", "hash", "text"].every((k) => typeof (v as Record<string, unknown>)[k] === "string");

export const draftOf = (workspace: string, path: string) => recall(draftKey(workspace, path), isDraft);
export const keepDraft = (workspace: string, path: string, d: Draft) => remember(draftKey(workspace, path), d);
export const dropDraft = (workspace: string, path: string) => forget(draftKey(workspace, path));
