/** Everything a terminal prints is untrusted: these are the rules for what of it may reach the page or the clipboard. */

const OSC52_MAX = 75 * 1024;

/** A title as plain text: no control or direction-changing characters, at most 200. */
export function cleanTitle(title: string): string {
  return title
    .replace(/[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .trim()
    .slice(0, 200);
}

export type ClipboardWish = { kind: "write"; text: string } | { kind: "read" } | { kind: "refused"; why: string };

/** Reads the payload of OSC 52. Reading the clipboard is never allowed; writing up to 75 KiB. */
export function readOsc52(payload: string): ClipboardWish {
  const semicolon = payload.indexOf(";");
  if (semicolon < 0) return { kind: "refused", why: "malformed" };
  const value = payload.slice(semicolon + 1);
  if (value === "?") return { kind: "read" };
  if (value.length > (OSC52_MAX * 4) / 3 + 4) return { kind: "refused", why: "too large" };
  try {
    const bytes = Uint8Array.from(atob(value), (c) => c.charCodeAt(0));
    if (bytes.length > OSC52_MAX) return { kind: "refused", why: "too large" };
    return { kind: "write", text: new TextDecoder("utf-8", { fatal: true }).decode(bytes) };
  } catch {
    return { kind: "refused", why: "malformed" };
  }
}

export type LinkVerdict =
  | { open: "no" }
  | { open: "yes"; url: string }
  | { open: "ask"; url: string; why: "different" | "local" };

/**
 * Says whether a link may be opened. Only web and mail addresses; a link whose text names another host than its target, and
 * one to the machine itself, is asked about first.
 */
export function judgeLink(target: string, shown: string): LinkVerdict {
  let url: URL;
  try {
    url = new URL(target);
  } catch {
    return { open: "no" };
  }
  if (!["http:", "https:", "mailto:"].includes(url.protocol)) return { open: "no" };
  if (url.username || url.password) return { open: "ask", url: url.href, why: "different" };
  if (url.protocol !== "mailto:" && isLocal(url.hostname)) return { open: "ask", url: url.href, why: "local" };
  if (!names(shown, url)) return { open: "ask", url: url.href, why: "different" };
  return { open: "yes", url: url.href };
}

function isLocal(host: string): boolean {
  return (
    host === "localhost" || host.endsWith(".localhost") || /^127\./.test(host) || host === "0.0.0.0" || host === "[::1]"
  );
}

/** Whether the shown text names the host the link goes to (or the mail address), and no other. */
function names(shown: string, url: URL): boolean {
  const text = shown.trim();
  if (url.protocol === "mailto:") return text.toLowerCase().includes(decodeURIComponent(url.pathname).toLowerCase());
  try {
    return new URL(text.includes("://") ? text : `https://${text}`).host === url.host;
  } catch {
    return false;
  }
}

/** Whether input contains only mouse or focus reports: looking is not typing. */
export const isGesture = (text: string): boolean => /^\x1b\[(?:[IO]$|<|M)/.test(text);
