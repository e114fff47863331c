import { Store } from "./store";

const needs = new Store(0);
const page = new Store("");

/** Shows how many workspaces need a person: in the title, the icon and the app's badge. */
export function showAttention(n: number): void {
  needs.set(n);
  write();
  const link = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (link) link.href = n > 0 ? ICON_WITH_DOT : "/icon.svg";
  const badge = navigator as Navigator & {
    setAppBadge?: (n: number) => Promise<void>;
    clearAppBadge?: () => Promise<void>;
  };
  void (n > 0 ? badge.setAppBadge?.(n) : badge.clearAppBadge?.())?.catch(() => {});
}

/** The name of what is open, before the product's. */
export function setPageTitle(title: string): void {
  page.set(title);
  write();
}

function write(): void {
  const n = needs.get();
  document.title = `${n > 0 ? `(${n}) ` : ""}${page.get() ? `${page.get()} · ` : ""}Parawork`;
}

const ICON_WITH_DOT = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="7" fill="#1d4ed8"/><path d="M9 8v16M16 8v9M23 8v13" stroke="#fff" stroke-width="3.4" stroke-linecap="round"/><circle cx="25" cy="7" r="7" fill="#f5b73d"/></svg>',
)}`;
