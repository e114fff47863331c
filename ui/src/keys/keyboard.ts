import { useEffect, useRef } from "react";
import { look } from "@/state/look";
import { Store } from "@/state/store";
import { chordOf, normal } from "./chord";
import { type Action, type ActionId, actions } from "./registry";

/** How long a sequence such as "g p" waits for its next key. */
const SEQUENCE_MS = 1500;

type Handler = (key: string) => void;

const handlers = new Map<string, Handler[]>();

/** Actions with a handler: those in the command palette. */
export const available = new Store<readonly Action[]>([]);

/** The keys of a sequence pressed so far, shown on screen. */
export const pending = new Store("");

let timer: ReturnType<typeof setTimeout> | undefined;

/** Handles an action while the component is mounted; the innermost component wins. The handler gets the key, or "" if there was none. */
export function useAction(id: ActionId, run: Handler, enabled = true): void {
  const latest = useRef(run);
  useEffect(() => {
    latest.current = run;
  });
  useEffect(() => {
    if (!enabled) return;
    const handler: Handler = (key) => latest.current(key);
    handlers.set(id, [...(handlers.get(id) ?? []), handler]);
    publish();
    return () => {
      handlers.set(
        id,
        (handlers.get(id) ?? []).filter((h) => h !== handler),
      );
      publish();
    };
  }, [id, enabled]);
}

function publish(): void {
  available.set(actions.filter((a) => handlers.get(a.id)?.length));
}

/** Runs an action as its key would. */
export function perform(id: string, key = ""): boolean {
  const handler = handlers.get(id)?.at(-1);
  handler?.(key);
  return handler !== undefined;
}

type Place = "page" | "field" | "terminal";

function placeOf(target: EventTarget | null): Place {
  if (!(target instanceof HTMLElement)) return "page";
  if (target.closest(".xterm")) return "terminal";
  if (target.closest("input:not([type=checkbox]):not([type=radio]),textarea,select,[contenteditable=true]"))
    return "field";
  return "page";
}

/** Whether Enter activates the focused element: then it is not a shortcut. */
function presses(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("a,button,summary,[role=button]") !== null;
}

function allowed(a: Action, place: Place): boolean {
  if (place === "terminal") return a.inTerminal === true;
  if (place === "field") return a.inFields === true || (a.inTerminal === true && a.keys.some((k) => k.includes("+")));
  return true;
}

/** Resolves a key press after the keys already pressed: an action, the start of a sequence, or nothing. */
export function match(chord: string, before: string, place: Place, singleKeys: boolean): Action | "more" | undefined {
  const pressed = before ? `${before} ${chord}` : chord;
  let more = false;
  let wide: Action | undefined; // what it means where nothing narrower has the key
  for (const a of actions) {
    if (!handlers.get(a.id)?.length || !allowed(a, place)) continue;
    for (const keys of a.keys) {
      const single = !keys.includes("+");
      if (single && (!singleKeys || place !== "page")) continue;
      const wanted = normal(keys);
      if (wanted === pressed && !a.yields) return a;
      if (wanted === pressed) wide = a;
      if (wanted.startsWith(`${pressed} `)) more = true;
    }
  }
  return more ? "more" : wide;
}

/** Whether a key press in a terminal is ours: the terminal then leaves it alone. */
export function oursInTerminal(e: KeyboardEvent): boolean {
  const found = match(chordOf(e), "", "terminal", false);
  return found !== undefined && found !== "more";
}

/** Listens for the whole page. Returns what stops it. */
export function listen(): () => void {
  const onKey = (e: KeyboardEvent) => {
    if (e.defaultPrevented || e.isComposing) return;
    const chord = chordOf(e);
    if (!chord || (chord === "enter" && presses(e.target))) return;
    const dialog = document.querySelector("[role=dialog][data-state=open],[role=alertdialog][data-state=open]");
    const place = placeOf(e.target);
    const before = pending.get();
    const found = match(chord, before, place, look.get().singleKeys && !dialog);
    clearTimeout(timer);
    if (found === "more") {
      e.preventDefault();
      pending.set(before ? `${before} ${chord}` : chord);
      timer = setTimeout(() => pending.set(""), SEQUENCE_MS);
      return;
    }
    pending.set("");
    if (!found) return;
    if (dialog && !found.inFields) return; // a dialog keeps the page below it still
    e.preventDefault();
    perform(found.id, chord);
  };
  document.addEventListener("keydown", onKey);
  return () => document.removeEventListener("keydown", onKey);
}
