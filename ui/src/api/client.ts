import createClient from "openapi-fetch";
import { answered, BASE } from "./bare";
import { fetchTogether } from "./batch";
import { ApiError } from "./problem";
import type { components, paths } from "./schema";

/** The types of the API by their names in openapi.yaml. */
export type Schemas = components["schemas"];
export type Workspace = Schemas["Workspace"];
export type Session = Schemas["Session"];
export type Project = Schemas["Project"];
export type Change = Schemas["Change"];
export type ChangeSet = Schemas["ChangeSet"];
export type Agent = Schemas["Agent"];
export type Team = Schemas["Team"];
export type Me = Schemas["Me"];
export type Step = Schemas["Step"];

export { BASE };

export const api = createClient<paths>({ baseUrl: BASE, fetch: (request) => guardedFetch(request, joined) });

type Fetch = (request: Request) => Promise<Response>;

const joined: Fetch = (request) => (request.method === "GET" ? fetchTogether(request, BASE) : fetch(request));

let onSignedOut: () => void = () => {};

/** Sets the handler for a lost login (401). The last caller wins. */
export function whenSignedOut(act: () => void): void {
  onSignedOut = act;
}

let proveFirst: (second: boolean) => Promise<boolean> = async () => false;

/**
 * Sets how users are asked to confirm their identity for calls the server otherwise refuses; `second` asks for a
 * second factor. The last caller wins.
 */
export function whenProofNeeded(ask: (second: boolean) => Promise<boolean>): void {
  proveFirst = ask;
}

let onTeamClosed: () => void = () => {};

/** Sets the handler for a team that is suspended or requires a second factor. The last caller wins. */
export function whenTeamClosed(act: () => void): void {
  onTeamClosed = act;
}

/** Wraps fetch and turns every failure into an ApiError, so callers handle only one error type. */
async function guardedFetch(request: Request, by: Fetch = fetch): Promise<Response> {
  // A body can be read only once. File uploads are not copied for a retry: none of them needs confirmation.
  const type = request.headers.get("Content-Type");
  const again = type === null || type.startsWith("application/json") ? request.clone() : undefined;
  try {
    return await send(request, by);
  } catch (error) {
    if (!(error instanceof ApiError) || error.code !== "confirm_needed" || !again) throw error;
    if (!(await proveFirst(error.details.second_factor === true))) throw error;
  }
  return send(again, by);
}

async function send(request: Request, by: Fetch): Promise<Response> {
  try {
    return await answered(request, by);
  } catch (error) {
    if (error instanceof ApiError) {
      // Other 401 responses are about user input: a password or a code.
      if (error.code === "signed_out" || error.code === "suspended") onSignedOut();
      if (error.code === "second_factor_required" || error.code === "team_suspended") onTeamClosed();
    }
    throw error;
  }
}

/** Returns the data of a response. There is never an error value, because guardedFetch throws. */
export async function data<T>(call: Promise<{ data?: T }>): Promise<T> {
  return (await call).data as T;
}

/** A request outside the generated client, for bytes and plain text. The path is below /api/v1. */
export function raw(path: string, init?: RequestInit): Promise<Response> {
  return guardedFetch(new Request(new URL(BASE + path, location.origin), init));
}

/** The address of a stream of events. The path is below /api/v1. */
export const apiUrl = (path: string): string => new URL(BASE + path, location.origin).href;

/** The address of a WebSocket of this server. */
export function socketUrl(path: string): string {
  const url = new URL(BASE + path, location.origin);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}

/** All pages of a list, up to `most` items. */
export async function allPages<T>(
  page: (cursor: string | undefined) => Promise<{ items: T[]; next_cursor: string | null }>,
  most = 2000,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | undefined;
  do {
    const answer = await page(cursor);
    items.push(...answer.items);
    cursor = answer.next_cursor ?? undefined;
  } while (cursor && items.length < most);
  return items;
}
