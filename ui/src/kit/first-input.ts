import { useEffect, useState } from "react";

const SIGNS = ["pointermove", "pointerdown", "keydown", "wheel", "touchstart"] as const;

let used = false;
const waiting = new Set<() => void>();

function note(): void {
  used = true;
  for (const sign of SIGNS) removeEventListener(sign, note, true);
  for (const act of waiting) act();
  waiting.clear();
}

if (typeof window !== "undefined")
  for (const sign of SIGNS) addEventListener(sign, note, { capture: true, passive: true });

/**
 * Calls back once somebody uses the page, at once if they have. What nobody sees before it loads then instead of competing with the first
 * paint; a hand on its way to a key or a button gives it the time. The returned function takes it back.
 */
export function onFirstInput(act: () => void): () => void {
  if (used) {
    act();
    return () => {};
  }
  waiting.add(act);
  return () => waiting.delete(act);
}

/** Whether somebody has used the page. */
export function useFirstInput(): boolean {
  const [is, set] = useState(used);
  useEffect(() => onFirstInput(() => set(true)), []);
  return is;
}
