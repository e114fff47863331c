import { text, whole } from "@/state/address";

/** Views of the agent's pane, on the left. */
const AGENT = ["terminal", "conversation", "shell"] as const;
export type AgentView = (typeof AGENT)[number];

/** Views of the pane on the right: those always offered, and those that are opened when needed. */
export const MAIN = ["changes", "files", "merge", "timeline"] as const;
export const EXTRA = ["artifacts", "code", "preview", "browser", "desktop"] as const;
const SIDE = [...MAIN, "history", ...EXTRA] as const;
export type Side = (typeof SIDE)[number];
export type Extra = (typeof EXTRA)[number];

export type Tab = AgentView | Side;

export const asSide = (tab: unknown): Side | undefined => SIDE.find((t) => t === tab);
export const asExtra = (tab: unknown): Extra | undefined => EXTRA.find((t) => t === tab);
export const asAgentView = (tab: unknown): AgentView | undefined => AGENT.find((t) => t === tab);

const DIALOGS = ["archive", "delete", "place", "move"] as const;
export type WorkspaceDialog = (typeof DIALOGS)[number];

export interface WorkspaceSearch {
  /**
   * The view that was opened last, in its pane; the other pane keeps what it shows. Without it, the view of the session in front:
   * the terminal, or the conversation of Parawork's own agent.
   */
  tab?: Tab;
  session?: string;
  file?: string;
  /** In the files: a place in the open one ("12:3", or lines "12-20"), the search in them, and a new one that is being named. */
  goto?: string;
  find?: true;
  naming?: true;
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
  /** What a link leads to: the id of a run, in Code, of an artifact, or of an entry of the timeline. */
  item?: string;
  /** In the history: what is searched, and the time (ms) of the output that is shown. */
  q?: string;
  when?: number;
}

const tabOf = (tab: unknown): Tab | undefined => asAgentView(tab) ?? asSide(tab);

/** The views of a workspace's page and what is open in them, as its address says. */
export const workspaceSearch = (s: Record<string, unknown>): WorkspaceSearch => ({
  tab: s.dialog === "merge" ? "merge" : tabOf(s.tab === "activity" ? "timeline" : (asSide(s.beside) ?? s.tab)),
  session: text(s.session),
  file: text(s.file),
  line: text(s.line),
  goto: text(s.goto),
  find: s.find === true || undefined,
  naming: s.naming === true || undefined,
  from: text(s.from),
  to: text(s.to),
  place: Number.isSafeInteger(Number(s.place)) && Number(s.place) > 0 ? Number(s.place) : undefined,
  item: /^(code|art|snp|act)_[0-9a-z]{1,40}$/.exec(text(s.item) ?? "")?.[0],
  dialog: DIALOGS.find((d) => d === s.dialog),
  live: s.live === true || s.live === "1" || s.live === 1 ? true : undefined,
  q: s.q === undefined ? undefined : String(s.q).slice(0, 1000) || undefined,
  at: whole(s.at),
  when: whole(s.when),
});

/** What the table of workspaces can be sorted by. */
export const COLUMNS = [
  "state",
  "name",
  "project",
  "agent",
  "where",
  "branch",
  "changes",
  "cost",
  "checks",
  "owner",
  "activity",
] as const;
export type Column = (typeof COLUMNS)[number];

/** What workspaces can be filtered by, besides a text. */
export const FILTERS = ["state", "project", "agent", "where", "owner"] as const;
export type Filter = (typeof FILTERS)[number];

/** The address of the workspaces page. A filter is a list of values with commas between. */
export interface OverviewSearch extends Partial<Record<Filter, string>> {
  show?: "archived" | "trash";
  as?: "table" | "board";
  q?: string;
  /** A column, with "-" in front from the highest down. */
  sort?: string;
}

export function overviewSearch(s: Record<string, unknown>): OverviewSearch {
  const out: OverviewSearch = {
    show: s.show === "archived" || s.show === "trash" ? s.show : undefined,
    as: s.as === "table" || s.as === "board" ? s.as : undefined,
    // A text of digits arrives as a number.
    q: text(typeof s.q === "number" ? String(s.q) : s.q)?.slice(0, 200),
    sort: sortOf(text(s.sort)) ? text(s.sort) : undefined,
  };
  for (const f of FILTERS) out[f] = text(s[f])?.slice(0, 2000);
  return out;
}

export function sortOf(sort: string | undefined): { by: Column; down: boolean } | undefined {
  const down = sort?.startsWith("-") ?? false;
  const by = COLUMNS.find((c) => c === (down ? sort?.slice(1) : sort));
  return by && { by, down };
}
