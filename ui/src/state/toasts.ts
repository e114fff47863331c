import { t } from "@lingui/core/macro";
import { tell } from "@/api/problem";
import { Store } from "./store";

export interface Toast {
  id: number;
  kind: "note" | "good" | "bad";
  title: string;
  text?: string;
  /** Output of another program, shown collapsed. */
  output?: string;
  requestId?: string;
  actions?: { label: string; run: () => void }[];
  open: boolean;
  /** ms until it goes away by itself; 0 stays. */
  lasts: number;
}

export const toasts = new Store<Toast[]>([]);
let last = 0;

type New = Omit<Toast, "id" | "open" | "lasts" | "kind"> & { kind?: Toast["kind"]; lasts?: number };

/** Shows a toast. One with buttons stays until it is dismissed, others 6 s. */
export function toast(t: New): number {
  const id = ++last;
  const lasts = t.lasts ?? (t.actions?.length || t.output ? 0 : 6000);
  toasts.update((all) => [...all.slice(-3), { kind: "note", ...t, id, lasts, open: true }]);
  return id;
}

/** Shows an error as a toast: what failed, why, and a button to try again where that can help. */
export function toastError(title: string, error: unknown, retry?: () => void): void {
  const told = tell(error);
  toast({
    kind: "bad",
    title,
    text: told.message,
    output: told.output || undefined,
    requestId: told.requestId || undefined,
    actions: retry && told.retry ? [{ label: t`Try again`, run: retry }] : undefined,
  });
}

export function dismiss(id: number): void {
  toasts.update((all) => all.map((t) => (t.id === id ? { ...t, open: false } : t)));
  // Leaves after the closing animation.
  setTimeout(() => toasts.update((all) => all.filter((t) => t.id !== id)), 200);
}
