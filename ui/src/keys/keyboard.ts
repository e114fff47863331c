import { useEffect, useRef } from "react";
import { look } from "@/state/look";
import { Store } from "@/state/store";
import { chordOf, normal } from "./chord";
import { type Action, type ActionId, actions, type Scope } from "./registry";

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

const isBare = (keys: string) => !keys.includes("+");

/** Scopes whose component is on its way, and the keys pressed meanwhile. */
const awaited = new Map<Scope, { id: string; key: string }[]>();

/** While the component is mounted the keys of a scope wait for what will handle them. */
export function useAwaitedKeys(scope: Scope): void {
  useEffect(() => {
    const keys: { id: string; key: string }[] = [];
    awaited.set(scope, keys);
    return () => {
      awaited.delete(scope);
      // What takes the place of this component has its handlers once all effects have run.
      setTimeout(() => {
        for (const k of keys) perform(k.id, k.key);
      }, 0);
    };
  }, [scope]);
}

let bare = false;

/** Whether what is going on was begun by a bare key: then nothing takes the focus in which further keys would be typed. */
export const byBareKey = (): boolean => bare;

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

/** Where the focus is, by the data-keys of what surrounds it, innermost first. */
type Zones = readonly string[];

function zonesOf(target: EventTarget | null): Zones {
  const zones: string[] = [];
  for (let el = target instanceof Element ? target.closest<HTMLElement>("[data-keys]") : null; el; ) {
    zones.push(el.dataset.keys ?? "");
    el = el.parentElement?.closest<HTMLElement>("[data-keys]") ?? null;
  }
  return zones;
}

/** The scopes of panes: a key belongs to the one in use, and to the other if that has no use for it. */
const PANES: readonly string[] = ["changes", "conversation"];

/** Resolves a key press after the keys already pressed: an action, the start of a sequence, or nothing. */
export function match(
  chord: string,
  before: string,
  place: Place,
  singleKeys: boolean,
  zones: Zones = [],
): Action | "more" | undefined {
  const pane = zones.find((z) => PANES.includes(z));
  // What answers an agent does so only on the card that has the focus.
  const reach = (a: Action) => a.scope !== "question" || zones.includes("question") || a.inTerminal === true;
  const near = (a: Action) => reach(a) && !(pane && PANES.includes(a.scope) && a.scope !== pane);
  return search(chord, before, place, singleKeys, near) ?? search(chord, before, place, singleKeys, reach);
}

function search(
  chord: string,
  before: string,
  place: Place,
  singleKeys: boolean,
  wanted: (a: Action) => boolean,
): Action | "more" | undefined {
  const pressed = before ? `${before} ${chord}` : chord;
  let more = false;
  let wide: Action | undefined; // what it means where nothing narrower has the key
  for (const a of actions) {
    if (!wanted(a) || !(handlers.get(a.id)?.length || awaited.has(a.scope)) || !allowed(a, place)) continue;
    for (const keys of a.keys) {
      if (isBare(keys) && (!singleKeys || place !== "page")) continue;
      const whole = normal(keys);
      if (whole === pressed && !a.yields) return a;
      if (whole === pressed) wide = a;
      if (whole.startsWith(`${pressed} `)) more = true;
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
    if (!chord) return;
    if (chord === "enter" && presses(e.target)) {
      bare = false; // it is meant
      return;
    }
    const dialog = document.querySelector("[role=dialog][data-state=open],[role=alertdialog][data-state=open]");
    const place = placeOf(e.target);
    const before = pending.get();
    const zones = zonesOf(e.target);
    const found = match(chord, before, place, look.get().singleKeys && !dialog, zones.length > 0 ? zones : used);
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
    bare = !chord.includes("+") && !before.includes("+");
    if (!perform(found.id, chord)) awaited.get(found.scope)?.push({ id: found.id, key: chord });
  };
  // Without focus the keys belong to the pane that was used last.
  let used: Zones = [];
  const onUse = (e: Event) => {
    if (e.type === "pointerdown") bare = false;
    const zones = zonesOf(e.target).filter((z) => PANES.includes(z));
    if (zones.length > 0) used = zones;
  };
  document.addEventListener("keydown", onKey);
  document.addEventListener("pointerdown", onUse, true);
  document.addEventListener("focusin", onUse);
  return () => {
    document.removeEventListener("keydown", onKey);
    document.removeEventListener("pointerdown", onUse, true);
    document.removeEventListener("focusin", onUse);
  };
}
