import { t } from "@lingui/core/macro";
export const isMac = typeof navigator !== "undefined" && /Mac|iPhone|iPad/.test(navigator.platform);

interface Pressed {
  key: string;
  code?: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
}

/** The chord of a key press in the registry's words, or "" for a bare modifier. */
export function chordOf(e: Pressed, mac = isMac): string {
  const key = e.key.toLowerCase();
  if (["control", "shift", "alt", "meta", "altgraph", "dead", "process", "unidentified"].includes(key)) return "";
  const mods: string[] = [];
  const mod = mac ? e.metaKey : e.ctrlKey;
  if (mac && e.ctrlKey) mods.push("ctrl");
  if (!mac && e.metaKey) mods.push("meta");
  if (mod) mods.push("mod");
  if (e.altKey) mods.push("alt");
  // Shift is part of a character such as "?", and a modifier beside other modifiers and named keys.
  if (e.shiftKey && (mods.length > 0 || key.length > 1)) mods.push("shift");
  const name = key === " " ? "space" : letter(key, e.code, mods.length > 0);
  return [...mods, name].join("+");
}

/** With modifiers, the letter comes from the physical key if the layout has another script (Cyrillic, Greek). */
function letter(key: string, code: string | undefined, modified: boolean): string {
  if (modified && key.length === 1 && key.charCodeAt(0) > 127 && code?.startsWith("Key"))
    return code.slice(3).toLowerCase();
  return key;
}

/** A registry key in the form chordOf gives: "ctrl+shift+e" is "mod+shift+e" off the Mac, and Cmd on it. */
export function normal(keys: string): string {
  return keys.replace("ctrl+", "mod+");
}

/** How a key is written for people: "⌘ K", "Ctrl Shift E", "g p". */
export function pretty(keys: string, mac = isMac): string {
  return keys
    .split(" ")
    .map((chord) =>
      chord
        .split("+")
        .map((part) => {
          switch (part) {
            case "mod":
            case "ctrl":
              return mac ? "⌘" : "Ctrl";
            case "shift":
              return mac ? "⇧" : "Shift";
            case "alt":
              return mac ? "⌥" : "Alt";
            case "arrowup":
              return "↑";
            case "arrowdown":
              return "↓";
            case "enter":
              return t`Enter`;
            default:
              return part.length === 1 && chord.includes("+") ? part.toUpperCase() : part;
          }
        })
        .join(mac ? "" : " "),
    )
    .join(" ");
}
