import { t } from "@lingui/core/macro";
/**
 * Opens a preview in a tab of its own. The tab is opened at once, while the browser still knows that somebody pressed a button, and
 * is led to the address when it is there; it never gets a hold on this page.
 */
export async function openPreview(address: () => Promise<{ url: string }>): Promise<void> {
  const tab = window.open("about:blank", "_blank");
  try {
    const { url } = await address();
    if (!isWeb(url)) throw new Error(t`The server gave no web address for this port. Try again.`);
    if (!tab) throw new Error(t`The browser did not open a tab. Allow pop-ups for this page and try again.`);
    tab.opener = null;
    tab.location.replace(url);
  } catch (error) {
    tab?.close();
    throw error;
  }
}

/** Whether an address is one of the web: nothing else is opened. */
export function isWeb(url: string): boolean {
  try {
    return /^https?:$/.test(new URL(url).protocol);
  } catch {
    return false;
  }
}

/**
 * What a page in the frame may do: as much as in a tab of its own, but not lead Parawork's own page elsewhere, to one that looks like
 * it. allow-same-origin gives it the origin of its port, which is never Parawork's.
 */
export const ALLOWED =
  "allow-scripts allow-same-origin allow-forms allow-modals allow-popups allow-popups-to-escape-sandbox allow-downloads allow-pointer-lock allow-presentation";
