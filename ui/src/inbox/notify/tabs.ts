/**
 * Tabs of one browser coordinate through the browser's locks: one of them notifies for all, and all know which workspaces the user
 * looks at. A lock ends with its tab, however that ends. Without locks (plain HTTP from another machine) the tab in front notifies.
 */
const SPEAKER = "parawork.notifier";
const LOOKING = "parawork.looking.";

const locks = (): LockManager | undefined => (typeof navigator === "undefined" ? undefined : navigator.locks);

/** Holds a lock until the returned function is called. */
function hold(name: string, mode: LockMode, got?: () => void): () => void {
  const stop = new AbortController();
  let release: () => void = () => {};
  const until = new Promise<void>((done) => {
    release = done;
  });
  void locks()
    ?.request(name, { mode, signal: stop.signal }, () => {
      got?.();
      return until;
    })
    .catch(() => {}); // given up before it was ours
  return () => {
    stop.abort();
    release();
  };
}

/** Waits to become the notifying tab for a user of this browser. Returns a function that stops it. */
export function speak(user: string, change: (speaks: boolean) => void): () => void {
  if (!locks()) {
    const judge = () => change(document.visibilityState === "visible");
    judge();
    document.addEventListener("visibilitychange", judge);
    return () => document.removeEventListener("visibilitychange", judge);
  }
  change(false);
  const stop = hold(`${SPEAKER}.${user}`, "exclusive", () => change(true));
  return () => {
    change(false);
    stop();
  };
}

/** Announces that the user looks at a workspace while this tab is in front and focused. Returns a function that stops it. */
export function lookAt(workspace: string): () => void {
  let stop: (() => void) | undefined;
  const judge = () => {
    const looks = document.visibilityState === "visible" && document.hasFocus();
    if (looks && !stop) stop = hold(LOOKING + workspace, "shared");
    if (!looks && stop) {
      stop();
      stop = undefined;
    }
  };
  judge();
  addEventListener("focus", judge);
  addEventListener("blur", judge);
  document.addEventListener("visibilitychange", judge);
  return () => {
    removeEventListener("focus", judge);
    removeEventListener("blur", judge);
    document.removeEventListener("visibilitychange", judge);
    stop?.();
  };
}

/** The workspaces somebody looks at now, in any tab of this browser. */
export async function lookedAt(): Promise<Set<string>> {
  const state = await locks()?.query();
  return new Set(
    (state?.held ?? []).flatMap((l) => (l.name?.startsWith(LOOKING) ? [l.name.slice(LOOKING.length)] : [])),
  );
}
