import type { Language } from "@/language/choice";
import { Store } from "./store";

export type Theme = "system" | "light" | "dark";
export type Density = "comfortable" | "compact";

/** How the page looks and behaves for this person in this browser. */
export interface Look {
  theme: Theme;
  density: Density;
  language: "system" | Language;
  terminalFont: number; // px
  /** The terminal's colours: as the page, or always the same, as some programs expect. */
  terminalTheme: "page" | "light" | "dark";
  screenReader: boolean;
  singleKeys: boolean;
  /** What a program in a terminal may do with the clipboard: write it, with a note, or nothing. */
  clipboard: "write" | "block";
}

const KEY = "parawork.look"; // public/theme.js reads it before the first paint
const DEFAULT: Look = {
  theme: "system",
  density: "comfortable",
  language: "system",
  terminalFont: 13,
  terminalTheme: "page",
  screenReader: false,
  singleKeys: true,
  clipboard: "write",
};

export const look = new Store<Look>(load());

function load(): Look {
  try {
    return { ...DEFAULT, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Look>) };
  } catch {
    return DEFAULT;
  }
}

/** Changes some of it, at once and for the next visit. */
export function setLook(change: Partial<Look>): void {
  const next = { ...look.get(), ...change };
  look.set(next);
  apply(next);
  try {
    localStorage.setItem(KEY, JSON.stringify(next));
  } catch {
    // no storage: it holds until the page is reloaded
  }
}

function apply({ theme, density, terminalTheme }: Look): void {
  const { dataset } = document.documentElement;
  if (theme === "system") delete dataset.theme;
  else dataset.theme = theme;
  if (density === "compact") dataset.density = density;
  else delete dataset.density;
  if (terminalTheme === "page") delete dataset.terminalTheme;
  else dataset.terminalTheme = terminalTheme;
}

const systemDark = () => matchMedia("(prefers-color-scheme: dark)");

/** Whether the page is dark now. */
export function isDark(): boolean {
  const { theme } = look.get();
  return theme === "system" ? systemDark().matches : theme === "dark";
}

/** Whether terminals are dark now. */
export function isTerminalDark(): boolean {
  const { terminalTheme } = look.get();
  return terminalTheme === "page" ? isDark() : terminalTheme === "dark";
}

/** Calls back when light turns to dark or the other way round. */
export function onThemeChange(changed: () => void): () => void {
  const system = systemDark();
  system.addEventListener("change", changed);
  const stop = look.subscribe(changed);
  return () => {
    system.removeEventListener("change", changed);
    stop();
  };
}

/** Whether the first pointing device is a finger. */
export const isCoarse = (): boolean => matchMedia("(pointer: coarse)").matches;
