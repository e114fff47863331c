import { createContext, useContext } from "react";
import type { Session } from "@/api/client";
import { isShell, preferred } from "./sessions";

/** What the agent's pane shows. */
export interface AgentPane {
  view: "terminal" | "conversation" | "shell";
  /** The session that was chosen; without it the one that matters most. */
  session?: string;
  /** The pane is on the screen. */
  front: boolean;
}

export const InAgentPane = createContext<AgentPane>({ view: "terminal", front: true });

export const useAgentPane = (): AgentPane => useContext(InAgentPane);

/** The session in front: the one that was chosen, else the one that matters most among agents or shells. */
export function inFront(sessions: readonly Session[], pane: AgentPane): Session | undefined {
  const kind = sessions.filter((s) => isShell(s) === (pane.view === "shell"));
  return kind.find((s) => s.id === pane.session) ?? preferred(kind);
}

export function useShownSession(sessions: readonly Session[]): Session | undefined {
  return inFront(sessions, useAgentPane());
}
