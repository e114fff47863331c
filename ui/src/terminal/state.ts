import { parseGrace, type TerminalGrace } from "@/costs/grace";
import { type Keyboard, parseKeyboard } from "./keyboard";
import type { LinkState } from "./link";
import type { Progress } from "./progress";

/** Somebody at the terminal. */
export interface Seat {
  id: string;
  userId: string;
  name: string;
  writer: boolean;
}

export interface Exit {
  state: string;
  reason: string;
  exitCode: number | undefined;
  signal: string;
  endedAt: number;
}

/** What the page shows around a terminal. */
export interface TerminalView {
  link: LinkState;
  cols: number;
  rows: number;
  /** Who sizes the terminal; undefined: nobody yet. */
  owner: Seat | undefined;
  mine: boolean;
  viewers: Seat[];
  viewerCount: number;
  /** Who typed last, and when this page received it. */
  typist: Seat | undefined;
  typedAt: number;
  /** Who holds the keyboard; undefined: everybody who may type types. */
  keyboard: Keyboard | undefined;
  /** May take the keyboard from who holds it. */
  mayTake: boolean;
  /** Its workspace reached a limit; undefined: it did not. */
  grace: TerminalGrace | undefined;
  exit: Exit | undefined;
  error: string;
  title: string;
  progress: Progress;
  bell: boolean;
  /** Bytes at the beginning the server no longer keeps. */
  gap: number;
  renderer: "dom" | "webgl";
  scrolledUp: boolean;
  /** The screen as it was is not there yet: nothing can be typed. */
  replaying: boolean;
  /** Something stands on the screen. */
  drawn: boolean;
  latch: { ctrl: boolean; alt: boolean };
}

/** The state of a terminal before the first state frame. */
export const NEW_VIEW: TerminalView = {
  link: { phase: "connecting", retryAt: 0, downSince: 0 },
  cols: 0,
  rows: 0,
  owner: undefined,
  mine: false,
  viewers: [],
  viewerCount: 0,
  typist: undefined,
  typedAt: 0,
  keyboard: undefined,
  mayTake: false,
  grace: undefined,
  exit: undefined,
  error: "",
  title: "",
  progress: undefined,
  bell: false,
  gap: 0,
  renderer: "dom",
  scrolledUp: false,
  replaying: true,
  drawn: false,
  latch: { ctrl: false, alt: false },
};

interface State {
  you: string;
  viewers: Seat[];
  viewerCount: number;
  writer: Seat | undefined;
  writerAt: number;
  owner: Seat | undefined;
  keyboard: Keyboard | undefined;
  mayTake: boolean;
  grace: TerminalGrace | undefined;
}

/** Reads a state frame; what is missing is taken as absent. */
export function parseState(json: unknown): State {
  const o = object(json);
  const viewers = Array.isArray(o.viewers) ? o.viewers.map(seat).filter((s) => s !== undefined) : [];
  return {
    you: string(o.you),
    viewers,
    viewerCount: typeof o.viewer_count === "number" ? o.viewer_count : viewers.length,
    writer: seat(o.writer),
    writerAt: typeof o.writer_at === "number" ? o.writer_at : 0,
    owner: seat(o.size_owner),
    keyboard: parseKeyboard(o.keyboard),
    mayTake: o.may_take === true,
    grace: parseGrace(o.grace, Date.now()),
  };
}

export function parseExit(json: unknown): Exit {
  const o = object(json);
  return {
    state: string(o.state) || "exited",
    reason: string(o.reason),
    exitCode: typeof o.exit_code === "number" ? o.exit_code : undefined,
    signal: string(o.exit_signal),
    endedAt: typeof o.ended_at === "number" ? o.ended_at : 0,
  };
}

function seat(v: unknown): Seat | undefined {
  const o = object(v);
  if (typeof o.id !== "string") return undefined;
  return { id: o.id, userId: string(o.user_id), name: string(o.name), writer: o.role === "writer" };
}

const object = (v: unknown): Record<string, unknown> =>
  typeof v === "object" && v !== null ? (v as Record<string, unknown>) : {};
const string = (v: unknown): string => (typeof v === "string" ? v : "");
