const KEY = "parawork.reloaded";
const AGAIN_AFTER = 5 * 60_000;

/** After an upgrade of the server old parts of the page are gone: the page loads itself anew, at most once in five minutes. */
export function recoverFromOldChunks(): void {
  addEventListener("vite:preloadError", (e) => {
    let last = 0;
    try {
      last = Number(sessionStorage.getItem(KEY)) || 0;
      sessionStorage.setItem(KEY, String(Date.now()));
    } catch {
      return; // without storage a reload could go round in circles
    }
    if (Date.now() - last < AGAIN_AFTER) return;
    e.preventDefault();
    location.reload();
  });
}
