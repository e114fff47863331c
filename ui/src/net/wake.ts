/**
 * Calls back when somebody returns to the page or the network does: the moments at which a lost connection is worth a try at once. The
 * returned function ends it.
 */
export function onWake(act: () => void): () => void {
  const visible = () => {
    if (document.visibilityState === "visible") act();
  };
  addEventListener("online", act);
  addEventListener("focus", act);
  addEventListener("pageshow", act); // back from the browser's cache of pages
  document.addEventListener("visibilitychange", visible);
  return () => {
    removeEventListener("online", act);
    removeEventListener("focus", act);
    removeEventListener("pageshow", act);
    document.removeEventListener("visibilitychange", visible);
  };
}
