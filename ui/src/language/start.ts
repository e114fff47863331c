import { chosenLanguage } from "./choice";
import { i18n } from "./i18n";

type Catalogue = () => Promise<typeof import("./de.po")>;

/**
 * Gets the words of the person's language, before any other module of the app: those may speak as soon as they are
 * loaded. Without the catalogue the page is English.
 */
export async function startLanguage(de: Catalogue): Promise<void> {
  const language = chosenLanguage();
  if (language === "en") return;
  try {
    i18n.loadAndActivate({ locale: language, messages: (await { de }[language]()).default });
    document.documentElement.lang = language;
  } catch {
    // not reachable now: the page itself says so
  }
}
