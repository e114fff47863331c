import { t } from "@lingui/core/macro";
import { listed } from "@/format/text";

/** How who it is was proven, in words. */
export function factorWords(factors: readonly string[], provider: (id: string) => string, via: string): string {
  const words = factors.map((f) => {
    switch (f) {
      case "password":
        return t`password`;
      case "totp":
        return t`authenticator app`;
      case "recovery_code":
        return t`recovery code`;
      case "passkey":
        return t`passkey`;
      case "sso":
        return via ? provider(via) : t`single sign-on`;
      case "sso_mfa":
        return via ? t`${provider(via)} with its second step` : t`single sign-on with a second step`;
      case "link":
        return t`link`;
      default:
        return f;
    }
  });
  // A provider that vouched for both steps is named once.
  return listed(factors.includes("sso_mfa") ? words.filter((_, i) => factors[i] !== "sso") : words);
}

/** A name for a passkey made in this browser, such as "Chrome on macOS". */
export function deviceName(userAgent: string): string {
  const browser = /Edg\//.test(userAgent)
    ? "Edge"
    : /Firefox\//.test(userAgent)
      ? "Firefox"
      : /Chrome\/|CriOS\//.test(userAgent)
        ? "Chrome"
        : /Safari\//.test(userAgent)
          ? "Safari"
          : t`Browser`;
  const system = /iPhone/.test(userAgent)
    ? "iPhone"
    : /iPad/.test(userAgent)
      ? "iPad"
      : /Android/.test(userAgent)
        ? "Android"
        : /Mac OS X|Macintosh/.test(userAgent)
          ? "macOS"
          : /Windows/.test(userAgent)
            ? "Windows"
            : /CrOS/.test(userAgent)
              ? "ChromeOS"
              : /Linux/.test(userAgent)
                ? "Linux"
                : "";
  return system ? t`${browser} on ${system}` : browser;
}

/** A secret in groups of four, to be typed by hand. */
export const inFours = (secret: string): string => secret.match(/.{1,4}/g)?.join(" ") ?? secret;

/** Digits alone: people type and paste codes with spaces. */
export const digits = (code: string): string => code.replace(/\D/g, "").slice(0, 6);

/** The recovery codes as a file to keep. */
export function codesFile(codes: readonly string[], email: string, host: string, when: string): string {
  return [
    t`Parawork recovery codes of ${email}`,
    t`For ${host}, created ${when}. Each code works once in place of your second factor, after your password.`,
    "",
    ...codes,
    "",
  ].join("\n");
}

/** The token of a link, behind the # of its address: browsers send that part to nobody. */
export function tokenOf(hash: string): string {
  const text = hash.replace(/^#/, "");
  return /^[\w.~-]{10,512}$/.test(text) ? text : "";
}
