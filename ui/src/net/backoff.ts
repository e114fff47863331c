/** Retry delays from 0.5 s to 15 s, with jitter so that many pages do not reconnect at the same time. */
export class Backoff {
  tries = 0;

  constructor(
    private readonly first = 500,
    private readonly most = 15_000,
    private readonly random: () => number = Math.random,
  ) {}

  /** Milliseconds to wait before the next try. */
  next(): number {
    const base = Math.min(this.most, this.first * 2 ** this.tries);
    this.tries++;
    return Math.round(base * (0.75 + 0.5 * this.random()));
  }

  reset(): void {
    this.tries = 0;
  }
}
