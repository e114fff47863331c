import { OWN } from "@/agents/own";
import type { Session } from "@/api/client";
import { recall, remember } from "@/state/remember";

type View = "terminal" | "conversation";
const isView = (v: unknown): v is View => v === "terminal" || v === "conversation";

/** Whether a session is one of Parawork's own agent. */
export const isOwn = (s: Session | undefined): s is Session => s?.agent === OWN;

/** The view that a session opens with. The conversation is that of Parawork's own agent, unless the terminal was chosen last. */
export const firstView = (s: Session | undefined): View =>
  isOwn(s) ? (recall(`view.${s.id}`, isView) ?? "conversation") : "terminal";

/** Remembers the view that was chosen for a session. */
export function rememberView(s: Session, view: View): void {
  if (isOwn(s)) remember(`view.${s.id}`, view);
}

/** How an address names a session's terminal. */
export const terminalTab = (s: Session | undefined): "terminal" | undefined => (isOwn(s) ? "terminal" : undefined);
