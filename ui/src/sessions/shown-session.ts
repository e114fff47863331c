import { useSearch } from "@tanstack/react-router";
import type { Session } from "@/api/client";
import { isShell, preferred } from "./sessions";

/** The session in front: the one the address names, else the one that matters most in the open tab. */
export function useShownSession(sessions: readonly Session[]): Session | undefined {
  const { tab, session } = useSearch({ from: "/$team/w/$key" });
  const kind = sessions.filter((s) => isShell(s) === (tab === "shell"));
  return kind.find((s) => s.id === session) ?? preferred(kind);
}
