import { text, whole } from "@/state/address";

export type Tab =
  | "terminal"
  | "conversation"
  | "changes"
  | "merge"
  | "shell"
  | "history"
  | "timeline"
  | "artifacts"
  | "code"
  | "preview"
  | "browser"
  | "desktop";

const TABS = [
  "terminal",
  "conversation",
  "changes",
  "merge",
  "shell",
  "history",
  "timeline",
  "artifacts",
  "code",
  "preview",
  "browser",
  "desktop",
] as const;

/** Views that can stand beside a terminal. */
const BESIDE = ["preview", "browser"] as const;
export type Beside = (typeof BESIDE)[number];
export const asBeside = (tab: unknown): Beside | undefined => BESIDE.find((b) => b === tab);

const DIALOGS = ["archive", "delete", "place", "move"] as const;
export type WorkspaceDialog = (typeof DIALOGS)[number];

export interface WorkspaceSearch {
  /** Without it, the view of the session in front: the terminal, or the conversation of Parawork's own agent. */
  tab?: Tab;
  /** What stands beside the terminal, where the screen is wide. */
  beside?: Beside;
  session?: string;
  file?: string;
  /** Lines of the file: "new12", "old3-7". */
  line?: string;
  /** In the changes: the states that are compared, as the API names them; without them the base and now. */
  from?: string;
  to?: string;
  dialog?: WorkspaceDialog;
  /** A place in the conversation. */
  place?: number;
  /** In the history: an offset of the output. */
  at?: number;
  /** On a phone: the terminal itself instead of what it says. */
  live?: true;
  /** What a card of the conversation leads to: the id of a run, in Code, or of an artifact. */
  item?: string;
  /** In the history: what is searched, and the time (ms) of the output that is shown. */
  q?: string;
  when?: number;
}

/** The views of a workspace's page and what is open in them, as its address says. */
export const workspaceSearch = (s: Record<string, unknown>): WorkspaceSearch => ({
  tab: s.dialog === "merge" ? "merge" : TABS.find((t) => t === (s.tab === "activity" ? "timeline" : s.tab)),
  beside: asBeside(s.beside),
  session: text(s.session),
  file: text(s.file),
  line: text(s.line),
  from: text(s.from),
  to: text(s.to),
  place: Number.isSafeInteger(Number(s.place)) && Number(s.place) > 0 ? Number(s.place) : undefined,
  item: /^(code|art)_[0-9a-z]{1,40}$/.exec(text(s.item) ?? "")?.[0],
  dialog: DIALOGS.find((d) => d === s.dialog),
  live: s.live === true || s.live === "1" || s.live === 1 ? true : undefined,
  q: s.q === undefined ? undefined : String(s.q).slice(0, 1000) || undefined,
  at: whole(s.at),
  when: whole(s.when),
});
