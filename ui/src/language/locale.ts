import { i18n } from "./i18n";

/** The language of the page as Intl wants it: with the person's region where the browser names one. */
export function locale(): string {
  const wanted = globalThis.navigator?.languages ?? [];
  return wanted.find((l) => l.split("-")[0]!.toLowerCase() === i18n.locale) ?? i18n.locale;
}
