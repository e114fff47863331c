import { setupI18n } from "@lingui/core";

/** The words of the page. English stands in the source, so that nothing needs to be loaded for it. */
export const i18n = setupI18n({ locale: "en", messages: { en: {} } });

// The build has taken every message apart: there is nothing to parse.
i18n.setMessagesCompiler((message) => message as never);
