import type { QueryClient } from "@tanstack/react-query";
import { Backoff } from "@/net/backoff";
import { comeback } from "@/net/recovery";
import { onWake } from "@/net/wake";
import { socketUrl } from "./client";
import { keys } from "./queries";

/** A message of the events socket: something changed, refetch it. */
export interface TeamEvent {
  type: string;
  id: string;
  workspace_id?: string;
  version: number;
  seq: number;
}

export type LinkPhase = "connecting" | "live" | "waiting" | "stopped";

export interface EventsState {
  phase: LinkPhase;
  /** ms UTC of the next try, while waiting. */
  retryAt: number;
  /** ms UTC since when there is no connection; 0 while there is one. */
  downSince: number;
}

interface Options {
  team: string;
  onEvent: (e: TeamEvent) => void;
  /** Events were lost: refetch everything. */
  onGap: () => void;
  onState: (s: EventsState) => void;
  /** Called after several failed attempts in a row, and when the server closed the connection: the login may have ended. */
  onTrouble: () => void;
}

/** Close code for a user who no longer has access. */
const NOT_ALLOWED = 4003;

/** Follows one team's events. Reconnects with backoff and resumes at the last sequence number. */
export class EventsLink {
  private socket: WebSocket | undefined;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private seq: number | undefined;
  private readonly backoff = new Backoff();
  private downSince = 0;
  private stopped = false;
  private unwait = (): void => {};
  private sleep = (): void => {};

  constructor(private readonly options: Options) {}

  start(): void {
    this.sleep = onWake(this.now);
    this.connect();
  }

  stop(): void {
    this.stopped = true;
    clearTimeout(this.timer);
    this.unwait();
    this.sleep();
    this.socket?.close();
  }

  /** Retries now instead of waiting for the timer. */
  readonly now = (): void => {
    if (this.stopped || this.timer === undefined) return;
    clearTimeout(this.timer);
    this.timer = undefined;
    this.connect();
  };

  private connect(): void {
    this.unwait();
    const { team, onEvent, onGap, onState, onTrouble } = this.options;
    const resume = this.seq === undefined ? "" : `?since=${this.seq}`;
    const socket = new WebSocket(socketUrl(`/teams/${encodeURIComponent(team)}/events${resume}`));
    this.socket = socket;
    onState({ phase: "connecting", retryAt: 0, downSince: this.downSince });
    socket.onopen = () => {
      const wasDown = this.downSince > 0;
      this.backoff.reset();
      this.downSince = 0;
      onState({ phase: "live", retryAt: 0, downSince: 0 });
      // Nothing before the first event of a connection has a sequence number to resume from.
      if (wasDown) onGap();
    };
    socket.onmessage = (m) => {
      if (typeof m.data !== "string") return;
      const event = parseEvent(m.data);
      if (!event) return;
      if (event.seq > 0) this.seq = event.seq;
      if (event.type === "missed") onGap();
      else onEvent(event);
    };
    socket.onclose = (e) => {
      if (this.stopped) {
        onState({ phase: "stopped", retryAt: 0, downSince: 0 });
        return;
      }
      this.downSince ||= Date.now();
      const wait = this.backoff.next();
      this.timer = setTimeout(() => {
        this.timer = undefined;
        this.connect();
      }, wait);
      this.unwait = comeback.wait(this.now);
      onState({ phase: "waiting", retryAt: Date.now() + wait, downSince: this.downSince });
      if (e.code === NOT_ALLOWED || this.backoff.tries % 3 === 0) onTrouble();
    };
  }
}

/** Reads one message; undefined when it is not one. */
export function parseEvent(text: string): TeamEvent | undefined {
  try {
    const v = JSON.parse(text) as Partial<TeamEvent>;
    if (typeof v?.type !== "string") return undefined;
    return {
      type: v.type,
      id: typeof v.id === "string" ? v.id : "",
      workspace_id: typeof v.workspace_id === "string" ? v.workspace_id : undefined,
      version: Number(v.version) || 0,
      seq: Number(v.seq) || 0,
    };
  } catch {
    return undefined;
  }
}

/** Subjects whose event id is a workspace id. */
const OF_WORKSPACES: ReadonlySet<string> = new Set(["workspace", "changes", "grace"]);

/** Subjects that also invalidate the workspace itself. */
const TELLS_OF_IT: ReadonlySet<string> = new Set(["workspace", "changes", "grace", "session", "usage", "tokens"]);

/** The query keys an event makes stale. */
export function staleAfter(team: string, e: TeamEvent): (readonly unknown[])[] {
  const subject = e.type.split(".")[0];
  const workspace = e.workspace_id || (OF_WORKSPACES.has(subject ?? "") ? e.id : "");
  const lists = [["team", team, "workspaces"]] as const;
  if (e.type === "session.conversation") return [keys.conversation(e.id), keys.conversations(workspace)];
  switch (subject) {
    case "project":
      // Its branches may have moved, so workspaces compare differently with their bases.
      return [keys.projects(team), keys.project(e.id)];
    case "git":
      return [["project", e.id, "git-work"]];
    case "workspace":
      // A path's diff has its own stamp; everything else in the workspace may have changed.
      return [
        ...lists,
        keys.inbox(team),
        ["workspace", workspace, "sessions"],
        keys.activity(workspace),
        keys.commits(workspace),
        keys.sandbox(workspace),
        keys.projects(team),
      ];
    case "session":
      return [...lists, keys.inbox(team), keys.sessions(workspace), keys.activity(workspace), keys.sandbox(workspace)];
    case "run":
      return [
        ["run", e.id],
        ["team", team, "runs"],
        ["team", team, "workspaces"],
      ];
    case "task":
      return [
        ["team", team, "tasks"],
        ["team", team, "task"],
      ];
    case "skills":
      return [keys.skills()];
    case "permission_rules":
      return [["permission-rules"]];
    case "memory":
      return [keys.memory(e.id)];
    case "automation":
      return [["team", team, "automations"]];
    case "job":
      return [["team", team, "jobs"]];
    case "subagent":
      // It is in the trees of all sessions above it, which may be in other workspaces.
      return [["team", team, "subagents"]];
    case "prompt":
      return [keys.prompts(workspace, e.id), keys.activity(workspace)];
    case "inbox":
      return [keys.inbox(team)];
    case "notices":
      return [["notices"]];
    case "changes":
      return [
        ...lists,
        keys.changes(workspace),
        keys.commits(workspace),
        keys.compared(workspace),
        keys.diagnostics(workspace),
      ];
    case "languages":
      return [keys.diagnostics(workspace)];
    case "checks":
      return [["workspace", workspace, "checks"], ["workspace", workspace, "queued"], ["project"], ...lists];
    case "queue":
      return [["workspace", workspace, "queued"], ["project", e.id], keys.workspace(workspace), ...lists];
    case "overlaps":
      return [["project"], keys.workspace(workspace), ...lists];
    case "pull_request":
      return [["workspace", workspace, "pull-request"], keys.activity(workspace), ...lists];
    case "tending":
      return [["workspace", workspace, "tending"], keys.inbox(team), ...lists];
    case "reviews":
      return [keys.reviews(workspace), keys.inbox(team), ...lists];
    case "snapshots":
      // The newest one is what is compared, reviewed and merged.
      return [["workspace", workspace]];
    case "artifact":
      return [["workspace", workspace, "artifacts"]];
    case "code":
      return [keys.code(workspace)];
    case "tools":
      return [keys.toolCalls(workspace)];
    case "checkpoints":
      return [keys.checkpoints(workspace)];
    case "edits":
      return [keys.edits(workspace)];
    case "activity":
      return [keys.activity(workspace)];
    case "sandbox":
      // Metrics alone do not change the lists.
      return e.type === "sandbox.usage" ? [keys.sandbox(workspace)] : [...lists, keys.sandbox(workspace)];
    case "sync":
      return [["workspace", workspace, "sync"], keys.sandbox(workspace)];
    case "runner":
      // A machine is also a choice in the list of places.
      return [["team", team, "runners"], ["runner", e.id], ["team", team, "runner-tokens"], keys.executors(team)];
    case "network":
      return [["workspace", workspace, "network"]];
    case "image_build":
      return [["project"]];
    case "team":
    case "member":
      return [keys.members(team), keys.me];
    case "disk":
      return [
        ["team", team, "disk"],
        ["team", team, "workspaces", "trash-of-all"],
      ];
    case "usage":
    case "tokens":
      // Frequent while agents work: refetch monthly totals, but not the lists.
      return [["costs", team], ...(workspace ? [keys.costs(workspace), keys.sessions(workspace)] : [])];
    case "quota":
    case "budget":
    case "billing":
      return [["costs", team], keys.myQuotas, keys.executors(team)];
    case "grace":
      return [...lists, keys.inbox(team), keys.costs(workspace), keys.sandbox(workspace), keys.sessions(workspace)];
    case "agent":
      return [keys.agents(team), keys.accounts, keys.teamAccounts(team)];
    default:
      return workspace ? [["workspace", workspace]] : [["team", team]];
  }
}

const isSandbox = (key: readonly unknown[]): boolean => key[0] === "workspace" && key[2] === "sandbox";

/**
 * Applies events to the cache. Events of one kind apply at most once per `every` ms, so a busy team does not cause a storm of
 * requests. The first event of a burst applies immediately.
 */
export class EventPump {
  private readonly pending = new Map<string, readonly unknown[]>();
  /** A machine connected or disconnected: refetch the sandboxes on it. */
  private sandboxes = false;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private last = 0;

  constructor(
    private readonly client: QueryClient,
    private readonly team: string,
    private readonly every = 250,
  ) {}

  push(e: TeamEvent): void {
    for (const key of staleAfter(this.team, e)) this.pending.set(JSON.stringify(key), key);
    const subject = e.type.split(".")[0];
    if (subject === "runner") this.sandboxes = true;
    const workspace = e.workspace_id || e.id;
    const grew = e.type === "session.conversation"; // each second while an agent works
    if (TELLS_OF_IT.has(subject ?? "") && !grew && (e.workspace_id || OF_WORKSPACES.has(subject ?? ""))) {
      this.pending.set(`exact:${workspace}`, keys.workspace(workspace));
    }
    if (this.timer !== undefined) return;
    const wait = Math.max(0, this.last + this.every - Date.now());
    this.timer = setTimeout(this.flush, wait);
  }

  stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.pending.clear();
  }

  private readonly flush = (): void => {
    this.timer = undefined;
    this.last = Date.now();
    const stale = [...this.pending];
    this.pending.clear();
    if (this.sandboxes) void this.client.invalidateQueries({ predicate: (q) => isSandbox(q.queryKey) });
    this.sandboxes = false;
    for (const [name, queryKey] of stale) {
      void this.client.invalidateQueries({ queryKey, exact: name.startsWith("exact:") });
    }
  };
}
