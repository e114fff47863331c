/** The languages that the page speaks, each with its own name. */
export const LANGUAGES = [
  ["en", "English"],
  ["de", "Deutsch"],
] as const;

export type Language = (typeof LANGUAGES)[number][0];

const isLanguage = (s: unknown): s is Language => LANGUAGES.some(([code]) => code === s);

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
