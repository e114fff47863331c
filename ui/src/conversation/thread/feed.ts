import { api, apiUrl, data, type Schemas } from "@/api/client";
import { ApiError } from "@/api/problem";
import { Backoff } from "@/net/backoff";
import { comeback } from "@/net/recovery";
import { onWake } from "@/net/wake";
import { Store } from "@/state/store";
import { NOTHING, viewed, type Writing, written } from "./writing";

export type Thread = Schemas["Thread"];
export type Message = Schemas["ThreadMessage"];
export type Part = Schemas["ThreadPart"];
export type Call = Schemas["ThreadCall"];
export type Turn = Schemas["ThreadTurn"];
export type View = Schemas["ThreadView"];

export interface Conversation {
  /** Undefined until it is loaded. */
  thread: Thread | undefined;
  /** The newest turn. */
  turn: Turn | undefined;
  /** Oldest first. */
  messages: readonly Message[];
  /** By the ID of their message, in order. */
  calls: ReadonlyMap<string, readonly Call[]>;
  /** There are older messages. */
  older: boolean;
  writing: Writing;
  /** missing: the session has no thread yet. */
  link: "loading" | "missing" | "live" | "reconnecting" | "denied";
}

export const EMPTY: Conversation = {
  thread: undefined,
  turn: undefined,
  messages: [],
  calls: new Map(),
  older: false,
  writing: NOTHING,
  link: "loading",
};

/** Messages of one page. */
const PAGE = 80;

/** A conversation with the rows of a view put in, each in place of the one with its ID. */
export function merged(now: Conversation, view: View): Conversation {
  let messages = now.messages;
  if (view.messages.length > 0) {
    const byId = new Map(messages.map((m) => [m.id, m]));
    for (const m of view.messages) if ((byId.get(m.id)?.version ?? -1) < m.version) byId.set(m.id, m);
    messages = [...byId.values()].sort((a, b) => a.seq - b.seq);
  }
  let calls = now.calls;
  if (view.calls.length > 0) {
    const next = new Map(calls);
    for (const c of view.calls) {
      const had = next.get(c.message_id) ?? [];
      const old = had.find((x) => x.id === c.id);
      if (old && old.version >= c.version) continue;
      next.set(
        c.message_id,
        [...had.filter((x) => x.id !== c.id), c].sort((a, b) => a.ordinal - b.ordinal),
      );
    }
    calls = next;
  }
  const newer = view.thread.version >= (now.thread?.version ?? 0);
  return {
    ...now,
    thread: newer ? view.thread : now.thread,
    turn: newer ? (view.turn ?? now.turn) : now.turn,
    messages,
    calls,
    writing: viewed(now.writing, view),
  };
}

/** Loads the conversation of a session of Parawork's own agent, and follows it until it is stopped. */
export class ThreadFeed {
  readonly shown = new Store<Conversation>(EMPTY);
  private now = EMPTY;
  private frame = 0;
  private source: EventSource | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private readonly backoff = new Backoff();
  private stopped = false;
  private unwait = (): void => {};
  private loading: Promise<void> | undefined;

  constructor(private readonly session: string) {}

  start(): () => void {
    this.stopped = false;
    void this.open();
    const sleep = onWake(this.retry);
    return () => {
      this.stopped = true;
      sleep();
      this.source?.close();
      this.forget();
      cancelAnimationFrame(this.frame);
      this.frame = 0;
    };
  }

  /** Loads one more page of older messages; several callers share one request. */
  loadOlder(): Promise<void> {
    this.loading ??= (async () => {
      const { thread, older, messages } = this.now;
      if (!thread || !older) return;
      const view = await read(thread.id, { before: messages[0]?.seq, limit: PAGE });
      this.set({ ...merged(this.now, view), older: view.more });
    })().finally(() => {
      this.loading = undefined;
    });
    return this.loading;
  }

  private async open(): Promise<void> {
    try {
      const known = this.now.thread;
      const id =
        known?.id ?? (await data(api.GET("/sessions/{id}/thread", { params: { path: { id: this.session } } }))).id;
      if (!known) await this.reload(id);
      if (!this.stopped) this.follow(id);
    } catch (error) {
      if (this.stopped) return;
      const status = error instanceof ApiError ? error.status : 0;
      // There is no thread before the session's terminal has connected.
      const link = status === 404 ? "missing" : status === 403 ? "denied" : "reconnecting";
      this.set({ ...this.now, link: this.now.thread ? "reconnecting" : link });
      this.again();
    }
  }

  private async reload(id: string): Promise<void> {
    const view = await read(id, { limit: PAGE });
    this.set({ ...merged({ ...EMPTY, writing: this.now.writing }, view), older: view.more, link: "live" });
  }

  private follow(id: string): void {
    const source = new EventSource(
      apiUrl(`/threads/${encodeURIComponent(id)}/events?since=${this.now.thread?.version ?? 0}`),
    );
    this.source = source;
    source.onopen = () => {
      this.backoff.reset();
      this.set({ ...this.now, link: "live" });
    };
    source.addEventListener("view", (m) => {
      const view = JSON.parse(m.data) as View;
      this.set(merged(this.now, view));
      if (view.more) void this.reload(id).catch(() => this.again()); // more has changed than one view holds
    });
    source.addEventListener("delta", (m) => {
      const writing = written(this.now.writing, JSON.parse(m.data));
      if (writing !== this.now.writing) this.set({ ...this.now, writing });
    });
    source.onerror = () => {
      if (this.now.link === "live") this.set({ ...this.now, link: "reconnecting" });
      this.again();
    };
  }

  private again(): void {
    this.source?.close();
    this.forget();
    if (this.stopped) return;
    this.timer = setTimeout(this.retry, this.backoff.next());
    this.unwait = comeback.wait(this.retry);
  }

  private readonly retry = (): void => {
    if (this.stopped || this.timer === undefined) return;
    this.forget();
    void this.open();
  };

  private forget(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.unwait();
  }

  /** However fast it comes, it is drawn once a frame. A page that is not seen has no frames: it is drawn when it is seen again. */
  private set(next: Conversation): void {
    this.now = next;
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      this.shown.set(this.now);
    });
  }
}

function read(id: string, query: { before?: number | undefined; limit: number }): Promise<View> {
  return data(api.GET("/threads/{id}", { params: { path: { id }, query } }));
}
