/** Only a page of this app: an address from outside could lead anywhere. */
export function safeNext(next: string | undefined): string {
  if (!next?.startsWith("/") || next.startsWith("//") || next.includes("\\")) return "/";
  // Browsers drop tabs and line breaks out of addresses before they read them.
  if (/[\x00-\x1f]/.test(next)) return "/";
  if (/^\/login(?![^?#])/.test(next)) return "/";
  return next;
}

/** Opens a page: the server's own by loading it, those of the app with `push`. */
export function leaveTo(page: string, push: (page: string) => void): void {
  if (page.startsWith("/oauth/")) location.assign(page);
  else push(page);
}
