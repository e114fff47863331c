import { t } from "@lingui/core/macro";
/** The languages that the page speaks, each by its own name. */
export const LANGUAGES = { en: t`English`, de: t`Deutsch` } as const;
export type Language = keyof typeof LANGUAGES;

const isLanguage = (s: unknown): s is Language => typeof s === "string" && s in LANGUAGES;

/** The language a person has chosen in the settings, or the first of the browser's that the page speaks. */
export function chosenLanguage(): Language {
  try {
    const { language } = JSON.parse(localStorage.getItem("parawork.look") ?? "{}") as { language?: unknown };
    if (isLanguage(language)) return language;
  } catch {
    // no storage: as the browser has it
  }
  return navigator.languages.map((l) => l.split("-")[0]!.toLowerCase()).find(isLanguage) ?? "en";
}
