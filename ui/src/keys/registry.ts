import { t } from "@lingui/core/macro";
/**
 * All keyboard shortcuts of the app. The palette, the help sheet, tooltips and the handlers read this list, and a test keeps it
 * free of duplicates.
 *
 * A key is one chord ("mod+k", "ctrl+shift+e", "?") or a sequence of single keys ("g p"). "mod" is Cmd on a Mac and Ctrl
 * elsewhere. Single keys and sequences work only outside fields and terminals and can be turned off. They show, find and open
 * things; what changes a workspace or acts on an agent needs a modifier ("mod+e s"), or the focus on the card it acts on.
 */
export type Scope = "global" | "workspace" | "terminal" | "changes" | "dialog" | "question" | "inbox" | "conversation";

export interface Action {
  id: string;
  label: string;
  keys: string[];
  /** The keys as the help sheet shows them, where a list of all would be long. */
  shown?: string;
  scope: Scope;
  group: "Go to" | "Questions" | "Workspace" | "Terminal" | "Review" | "General";
  /** Works while a terminal has the focus. */
  inTerminal?: boolean;
  /** Works while a field has the focus. */
  inFields?: boolean;
  /** Not offered in the palette: it makes sense as a key only. */
  keyOnly?: boolean;
  /** Where an action of a narrower scope has the same key, that one is meant. */
  yields?: boolean;
}

/** The groups as people read them. */
export const GROUP_NAMES: Record<Action["group"], string> = {
  "Go to": t`Go to`,
  Questions: t`Questions`,
  Workspace: t`Workspace`,
  Terminal: t`Terminal`,
  Review: t`Review`,
  General: t`General`,
};

export const ACTIONS = [
  {
    id: "palette",
    label: t`Command palette`,
    keys: ["mod+k"],
    scope: "global",
    group: "General",
    inFields: true,
    keyOnly: true,
  },
  {
    id: "palette.terminal",
    label: t`Command palette, from a terminal`,
    keys: ["ctrl+shift+k"],
    scope: "global",
    group: "General",
    inTerminal: true,
    keyOnly: true,
  },
  { id: "help", label: t`Keyboard shortcuts`, keys: ["?"], scope: "global", group: "General" },
  { id: "sidebar", label: t`Show or hide the sidebar`, keys: ["["], scope: "global", group: "General" },
  {
    id: "sidebar.filter",
    label: t`Filter the workspaces in the sidebar`,
    keys: ["/"],
    scope: "global",
    group: "General",
    yields: true,
  },
  { id: "workspace.new", label: t`New workspace`, keys: ["c", "o w"], scope: "global", group: "General", yields: true },
  { id: "project.new", label: t`Add a project`, keys: ["o p"], scope: "global", group: "General" },
  { id: "machine.connect", label: t`Connect a machine`, keys: ["o m"], scope: "global", group: "General" },
  { id: "theme", label: t`Switch between light and dark`, keys: ["g d"], scope: "global", group: "General" },

  { id: "go.inbox", label: t`Inbox`, keys: ["g i"], scope: "global", group: "Go to" },
  { id: "go.workspaces", label: t`Workspaces`, keys: ["g w"], scope: "global", group: "Go to" },
  { id: "go.projects", label: t`Projects`, keys: ["g p"], scope: "global", group: "Go to" },
  { id: "go.machines", label: t`Machines`, keys: ["g m"], scope: "global", group: "Go to" },
  { id: "go.sandboxes", label: t`Sandboxes`, keys: ["g z"], scope: "global", group: "Go to" },
  { id: "go.automations", label: t`Automations`, keys: [], scope: "global", group: "Go to" },
  { id: "go.jobs", label: t`Jobs`, keys: ["g q"], scope: "global", group: "Go to" },
  { id: "go.skills", label: t`Skills`, keys: ["g g"], scope: "global", group: "Go to" },
  { id: "go.usage", label: t`Usage`, keys: ["g u"], scope: "global", group: "Go to" },
  { id: "go.tasks", label: t`Tasks`, keys: ["g k"], scope: "global", group: "Go to" },
  { id: "go.runs", label: t`Comparisons`, keys: ["g r"], scope: "global", group: "Go to" },
  { id: "go.settings", label: t`Settings`, keys: ["g s"], scope: "global", group: "Go to" },
  {
    id: "go.next",
    label: t`Next workspace`,
    keys: ["ctrl+shift+arrowdown"],
    scope: "global",
    group: "Go to",
    inTerminal: true,
  },
  {
    id: "go.previous",
    label: t`Previous workspace`,
    keys: ["ctrl+shift+arrowup"],
    scope: "global",
    group: "Go to",
    inTerminal: true,
  },
  { id: "go.needs", label: t`The next workspace that needs you`, keys: ["g n"], scope: "global", group: "Go to" },

  { id: "answer.allow", label: t`Allow`, keys: ["a"], scope: "question", group: "Questions" },
  { id: "answer.deny", label: t`Deny`, keys: ["d"], scope: "question", group: "Questions" },
  {
    id: "answer.option",
    label: t`Select an answer by number`,
    keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"],
    shown: "1 … 9",
    scope: "question",
    group: "Questions",
    keyOnly: true,
  },
  {
    id: "answer.focus",
    label: t`Go to the question, from a terminal`,
    keys: ["ctrl+shift+a"],
    scope: "question",
    group: "Questions",
    inTerminal: true,
  },
  { id: "inbox.next", label: t`Next in the inbox`, keys: ["j"], scope: "inbox", group: "Questions", keyOnly: true },
  {
    id: "inbox.previous",
    label: t`Previous in the inbox`,
    keys: ["k"],
    scope: "inbox",
    group: "Questions",
    keyOnly: true,
  },
  { id: "inbox.open", label: t`Open`, keys: ["enter"], scope: "inbox", group: "Questions", keyOnly: true },
  { id: "inbox.snooze", label: t`Snooze for an hour`, keys: ["s"], scope: "inbox", group: "Questions" },
  { id: "inbox.tomorrow", label: t`Snooze until tomorrow`, keys: ["t"], scope: "inbox", group: "Questions" },
  { id: "inbox.done", label: t`Done: remove from the inbox`, keys: ["x"], scope: "inbox", group: "Questions" },

  { id: "tab.terminal", label: t`Terminal`, keys: ["g t"], scope: "workspace", group: "Workspace" },
  { id: "tab.conversation", label: t`Conversation`, keys: ["g o"], scope: "workspace", group: "Workspace" },
  { id: "tab.changes", label: t`Changes`, keys: ["g c"], scope: "workspace", group: "Workspace" },
  { id: "tab.merge", label: t`Checks & merge`, keys: ["g b"], scope: "workspace", group: "Workspace" },
  { id: "tab.shell", label: t`Shell`, keys: ["g h"], scope: "workspace", group: "Workspace" },
  { id: "tab.history", label: t`History`, keys: ["g y"], scope: "workspace", group: "Workspace" },
  { id: "tab.timeline", label: t`Timeline`, keys: ["g a"], scope: "workspace", group: "Workspace" },
  { id: "tab.code", label: t`Code`, keys: ["g x"], scope: "workspace", group: "Workspace" },
  { id: "tab.preview", label: t`Preview`, keys: ["g e"], scope: "workspace", group: "Workspace" },
  { id: "tab.browser", label: t`Browser`, keys: ["g v"], scope: "workspace", group: "Workspace" },
  { id: "tab.desktop", label: t`Desktop`, keys: ["g j"], scope: "workspace", group: "Workspace" },
  { id: "tab.artifacts", label: t`Artifacts`, keys: ["g l"], scope: "workspace", group: "Workspace" },
  { id: "files.open", label: t`Files`, keys: ["g f"], scope: "workspace", group: "Workspace" },
  {
    id: "files.quick",
    label: t`Open a file by name`,
    keys: ["mod+p"],
    scope: "global",
    group: "Workspace",
    inFields: true,
  },
  {
    id: "files.find",
    label: t`Search in files`,
    keys: ["ctrl+shift+f"],
    scope: "global",
    group: "Workspace",
    inFields: true,
    inTerminal: true,
  },
  { id: "session.new", label: t`Start a session`, keys: ["o s"], scope: "workspace", group: "Workspace" },
  { id: "session.stop", label: t`Stop the session`, keys: ["mod+e s"], scope: "workspace", group: "Workspace" },
  { id: "session.interrupt", label: t`Interrupt the agent`, keys: ["mod+e i"], scope: "workspace", group: "Workspace" },
  { id: "prompt.write", label: t`Send the agent a message`, keys: ["m"], scope: "workspace", group: "Workspace" },
  {
    id: "prompt.writeFromTerminal",
    label: t`Send the agent a message, from its terminal`,
    keys: ["ctrl+shift+enter"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
    keyOnly: true,
    yields: true,
  },
  { id: "workspace.commit", label: t`Commit`, keys: ["mod+e c"], scope: "workspace", group: "Workspace" },
  {
    id: "workspace.merge",
    label: t`Update, merge, push`,
    keys: ["mod+e m"],
    scope: "workspace",
    group: "Workspace",
  },
  {
    id: "workspace.place",
    label: t`Place, limits, network`,
    keys: ["mod+e p"],
    scope: "workspace",
    group: "Workspace",
  },
  { id: "workspace.move", label: t`Move to another place`, keys: ["mod+e v"], scope: "workspace", group: "Workspace" },
  { id: "workspace.rename", label: t`Rename`, keys: ["f2", "mod+e r"], scope: "workspace", group: "Workspace" },
  { id: "workspace.archive", label: t`Archive`, keys: ["mod+e a"], scope: "workspace", group: "Workspace" },
  { id: "workspace.delete", label: t`Delete`, keys: ["mod+e d"], scope: "workspace", group: "Workspace" },
  { id: "copy.link", label: t`Copy the link to this page`, keys: ["y l"], scope: "workspace", group: "Workspace" },
  { id: "copy.branch", label: t`Copy the branch name`, keys: ["y b"], scope: "workspace", group: "Workspace" },

  {
    id: "terminal.leave",
    label: t`Leave the terminal, or type in it`,
    keys: ["ctrl+shift+e"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
    keyOnly: true,
  },
  {
    id: "terminal.fit",
    label: t`Fit the terminal to my screen`,
    keys: ["ctrl+shift+s"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
  },
  {
    id: "terminal.find",
    label: t`Find in the terminal`,
    keys: ["mod+f"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
  },
  { id: "terminal.focus", label: t`Type in the terminal`, keys: [], scope: "terminal", group: "Terminal" },
  {
    id: "terminal.copy",
    label: t`Copy`,
    keys: ["ctrl+shift+c"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
    keyOnly: true,
  },
  {
    id: "terminal.paste",
    label: t`Paste`,
    keys: ["ctrl+shift+v"],
    scope: "terminal",
    group: "Terminal",
    inTerminal: true,
    keyOnly: true,
  },

  {
    id: "conversation.next",
    label: t`Next in the conversation`,
    keys: ["j"],
    scope: "conversation",
    group: "Review",
    keyOnly: true,
  },
  {
    id: "conversation.previous",
    label: t`Previous in the conversation`,
    keys: ["k"],
    scope: "conversation",
    group: "Review",
    keyOnly: true,
  },
  {
    id: "conversation.fold",
    label: t`Expand or collapse the step`,
    keys: ["x"],
    scope: "conversation",
    group: "Review",
    keyOnly: true,
  },
  { id: "conversation.find", label: t`Search the conversation`, keys: ["/"], scope: "conversation", group: "Review" },
  {
    id: "conversation.end",
    label: t`Jump to the end of the conversation`,
    keys: ["."],
    scope: "conversation",
    group: "Review",
  },
  {
    id: "conversation.compact",
    label: t`Compact the conversation`,
    keys: ["mod+e k"],
    scope: "conversation",
    group: "Workspace",
  },
  {
    id: "conversation.clear",
    label: t`Clear the conversation for the model`,
    keys: ["mod+e l"],
    scope: "conversation",
    group: "Workspace",
  },
  {
    id: "conversation.split",
    label: t`Terminal beside the conversation`,
    keys: ["s"],
    scope: "conversation",
    group: "Review",
  },

  { id: "diff.nextHunk", label: t`Next change`, keys: ["j"], scope: "changes", group: "Review", keyOnly: true },
  { id: "diff.previousHunk", label: t`Previous change`, keys: ["k"], scope: "changes", group: "Review", keyOnly: true },
  { id: "diff.nextFile", label: t`Next file`, keys: ["n"], scope: "changes", group: "Review", keyOnly: true },
  { id: "diff.previousFile", label: t`Previous file`, keys: ["p"], scope: "changes", group: "Review", keyOnly: true },
  {
    id: "diff.fold",
    label: t`Expand or collapse the file`,
    keys: ["x"],
    scope: "changes",
    group: "Review",
    keyOnly: true,
  },
  {
    id: "diff.viewed",
    label: t`Mark the file as viewed`,
    keys: ["v"],
    scope: "changes",
    group: "Review",
    keyOnly: true,
  },
  { id: "diff.comment", label: t`Comment on the line`, keys: ["c"], scope: "changes", group: "Review", keyOnly: true },
  { id: "review.comments", label: t`All comments`, keys: ["l"], scope: "changes", group: "Review" },
  {
    id: "comment.add",
    label: t`Add the comment to the review`,
    keys: ["mod+enter"],
    scope: "changes",
    group: "Review",
    inFields: true,
    keyOnly: true,
  },
  {
    id: "review.send",
    label: t`Send the review`,
    keys: ["mod+shift+enter"],
    scope: "changes",
    group: "Review",
    inFields: true,
  },
  { id: "diff.split", label: t`Side by side or unified`, keys: ["s"], scope: "changes", group: "Review" },
  { id: "diff.whitespace", label: t`Hide whitespace`, keys: ["w"], scope: "changes", group: "Review" },
  { id: "diff.find", label: t`Find in the changes`, keys: ["/"], scope: "changes", group: "Review" },
  {
    id: "editor.save",
    label: t`Save the file`,
    keys: ["mod+s"],
    scope: "changes",
    group: "Review",
    inFields: true,
    keyOnly: true,
  },
  { id: "diff.compare", label: t`Choose what to compare`, keys: ["d"], scope: "changes", group: "Review" },
  { id: "diff.refresh", label: t`Load newer changes`, keys: ["r"], scope: "changes", group: "Review" },
] as const satisfies readonly Action[];

export type ActionId = (typeof ACTIONS)[number]["id"];

export const actions: readonly Action[] = ACTIONS;

const byId = new Map(actions.map((a) => [a.id, a]));

export function action(id: ActionId): Action {
  return byId.get(id)!;
}

/** Scopes that can be active at the same time as a scope: their keys must not collide. */
export const TOGETHER: Record<Scope, readonly Scope[]> = {
  global: ["workspace", "terminal", "changes", "dialog", "question", "inbox", "conversation"],
  workspace: ["global", "terminal", "changes", "question", "conversation"],
  terminal: ["global", "workspace", "question", "conversation"],
  changes: ["global", "workspace"],
  conversation: ["global", "workspace", "terminal", "question"],
  question: ["global", "workspace", "terminal", "inbox", "conversation"],
  inbox: ["global", "question"],
  dialog: ["global"],
};

/** Whether two keys collide: they are equal, or one is a prefix of the other's sequence. */
export function collide(a: string, b: string): boolean {
  return a === b || a.startsWith(`${b} `) || b.startsWith(`${a} `);
}

/** Pairs of actions that collide within scopes that are active together. */
export function collisions(list: readonly Action[]): string[] {
  const found: string[] = [];
  list.forEach((a, i) => {
    for (const b of list.slice(i + 1)) {
      if (a.scope !== b.scope && (a.yields || !TOGETHER[a.scope].includes(b.scope))) continue;
      // Not for translation: a fault of this list, for its test.
      for (const x of a.keys) for (const y of b.keys) if (collide(x, y)) found.push(`${a.id} and ${b.id}: ${x} / ${y}`);
    }
  });
  return found;
}
