interface Options {
  /** Whether the server serves now. It may fail, which means no. */
  ask: () => Promise<boolean>;
  random?: () => number;
  hidden?: () => boolean;
}

const AFTER = 300; // ms from a cut to the first question
const SOON = 500; // ms between questions at first
const SOON_FOR = 60_000;
const LATER = 1_300; // with its jitter at most 2 s: somebody waits in front of the page
const HIDDEN = 10_000; // of a page that nobody looks at

/**
 * Notices that the server is back after a restart. While connections are lost, it sends one small probe after another for all of them; when
 * one succeeds after others failed, every connection retries immediately instead of waiting for its backoff. If no probe failed, the
 * server did not restart, and the backoff decides. Each delay has jitter to spread the load of many pages.
 */
export class Comeback {
  private readonly links = new Set<() => void>();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private round = 0; // counts the times somebody began to wait, so that a late answer counts for nothing
  private began = 0;
  private down = false; // a question was not answered since then

  constructor(private readonly options: Options) {}

  /**
   * Calls back once the server was unreachable and is back; with `down`, the caller has found it unreachable already. The returned function
   * unsubscribes.
   */
  wait(back: () => void, down = false): () => void {
    this.links.add(back);
    if (this.timer === undefined && this.links.size === 1) {
      this.round++;
      this.began = Date.now();
      this.down = false;
      this.plan(AFTER);
    }
    this.down ||= down;
    return () => {
      this.links.delete(back);
      if (this.links.size === 0) this.stop();
    };
  }

  private stop(): void {
    clearTimeout(this.timer);
    this.timer = undefined;
    this.round++;
  }

  private plan(pause: number): void {
    const { random = Math.random, hidden = () => document.hidden } = this.options;
    const wait = (hidden() ? Math.max(pause, HIDDEN) : pause) * (0.5 + random());
    const round = this.round;
    this.timer = setTimeout(() => void this.ask(round), wait);
  }

  private async ask(round: number): Promise<void> {
    const there = await this.options.ask().catch(() => false);
    if (round !== this.round) return;
    if (!there) {
      this.down = true;
      this.plan(Date.now() - this.began < SOON_FOR ? SOON : LATER);
      return;
    }
    const links = this.down ? [...this.links] : [];
    this.links.clear();
    this.stop();
    for (const back of links) back();
  }
}

/** Asks this page's server. */
export const comeback = new Comeback({
  ask: async () => (await fetch("/api/v1/health", { cache: "no-store", signal: AbortSignal.timeout(3000) })).ok,
});
