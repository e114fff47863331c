import { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
import { Terminal } from "@xterm/xterm";
import { api, data, raw } from "@/api/client";
import { isTerminalDark, look, onThemeChange } from "@/state/look";
import { Store } from "@/state/store";
import { swallowQuestions } from "@/terminal/answers";
import { fontFor } from "@/terminal/size";
import { DARK, LIGHT } from "@/terminal/theme";
import { nextAfter, offsetAt, readTiming, refine, sizeAfter, type Timeline, timeOf } from "./recording";

const FONT = '"JetBrains Mono Variable", "DejaVu Sans Mono", ui-monospace, monospace';

/** Output is read in pieces of this size. */
const PIECE = 512 << 10;
/** A forward seek shorter than this plays the bytes between; a longer one requests the screen. */
const NEAR = 256 << 10;
/** The maximum number of bytes waiting for the terminal to draw. */
const WAITING = 1 << 20;
/** A pause longer than this is skipped where silences are. */
const SILENCE = 1500;
/** Marks wanted of the server at once. */
const MARKS = 50_000;
/** The length of the interval to request in full when the loaded marks are sparse. */
const WINDOW = 10 * 60_000;
const FOLLOW_MS = 2000;

export const SPEEDS = [0.5, 1, 2, 4, 8, 16] as const;

export interface ReplayView {
  phase: "loading" | "ready" | "failed";
  error: unknown;
  timeline: Timeline | undefined;
  /** The first and the last moment, ms. */
  from: number;
  to: number;
  /** Where the replay is, ms. */
  at: number;
  offset: number;
  playing: boolean;
  seeking: boolean;
  speed: number;
  skip: boolean;
  cols: number;
  rows: number;
}

/**
 * Replays a session's output with its original timing and terminal sizes. It is passive:
 * it sends no input, answers no terminal queries, and ignores clipboard, title and bell sequences.
 */
export class Replay {
  readonly view: Store<ReplayView>;
  readonly element = document.createElement("div");
  private readonly term: Terminal;
  private readonly stops: (() => void)[] = [];
  private readonly abort = new AbortController();
  private host: HTMLElement | undefined;
  private observer: ResizeObserver | undefined;
  private frame = 0;
  private lastFrame = 0;
  private pos = 0; // offset of the next byte to write
  private waiting = 0; // bytes written and not drawn
  private pieces = new Map<number, Promise<Uint8Array>>();
  private seekNo = 0;
  private reading = false;
  private loading = false;
  private refined: [number, number][] = [];
  private follow: ReturnType<typeof setTimeout> | undefined;

  private running = false;

  constructor(readonly sessionId: string) {
    this.view = new Store<ReplayView>({
      phase: "loading",
      error: undefined,
      timeline: undefined,
      from: 0,
      to: 0,
      at: 0,
      offset: 0,
      playing: false,
      seeking: false,
      speed: 1,
      skip: true,
      cols: 80,
      rows: 24,
    });
    this.element.className = "term-host";
    this.term = new Terminal({
      allowProposedApi: true,
      cursorBlink: false,
      disableStdin: true,
      drawBoldTextInBrightColors: false,
      fontFamily: FONT,
      fontSize: look.get().terminalFont,
      lineHeight: 1.15,
      linkHandler: { activate: () => {} },
      minimumContrastRatio: 4.5,
      screenReaderMode: look.get().screenReader,
      scrollback: 5000,
      theme: isTerminalDark() ? DARK : LIGHT,
    });
    this.term.loadAddon(new UnicodeGraphemesAddon());
    this.term.unicode.activeVersion = "15-graphemes";
    swallowQuestions(this.term);
    this.stops.push(onThemeChange(() => (this.term.options.theme = isTerminalDark() ? DARK : LIGHT)));
  }

  /** Puts the picture into a place of the page. */
  async attach(host: HTMLElement): Promise<void> {
    if (this.host === host) return;
    this.host = host;
    host.append(this.element);
    await Promise.allSettled([document.fonts.load(`13px ${FONT}`), document.fonts.load(`bold 13px ${FONT}`)]);
    if (this.abort.signal.aborted) return;
    this.term.open(this.element);
    this.term.textarea?.setAttribute("aria-label", "The terminal as it was");
    this.term.textarea?.setAttribute("tabindex", "-1");
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(host);
    this.layout();
  }

  dispose(): void {
    this.abort.abort();
    cancelAnimationFrame(this.frame);
    clearTimeout(this.follow);
    this.observer?.disconnect();
    for (const stop of this.stops) stop();
    this.term.dispose();
    this.element.remove();
  }

  /** Reads when output came, then goes to an offset (without one: the beginning). */
  async load(offset?: number): Promise<void> {
    if (this.loading) return;
    this.loading = true;
    try {
      const t = await this.timing(0, 0);
      const { first, end } = t;
      if (t.at.length === 0) {
        // Printed before times were kept: everything came at once.
        t.at = [0];
        t.offset = [end];
      }
      this.set({ phase: "ready", timeline: t, from: t.at[0]!, to: t.at.at(-1)!, at: t.at[0]! });
      await this.seekOffset(offset === undefined ? first : Math.min(Math.max(offset, first), end));
      if (this.running) this.followLater();
    } catch (error) {
      if (!this.abort.signal.aborted) this.set({ phase: "failed", error });
    } finally {
      this.loading = false;
    }
  }

  play(): void {
    const v = this.view.get();
    if (v.phase !== "ready" || v.playing) return;
    if (v.at >= v.to && !this.running) void this.seek(v.from).then(() => this.start());
    else this.start();
  }

  pause(): void {
    this.set({ playing: false });
    cancelAnimationFrame(this.frame);
  }

  toggle(): void {
    if (this.view.get().playing) this.pause();
    else this.play();
  }

  setSpeed(speed: number): void {
    this.set({ speed });
  }

  setSkip(skip: boolean): void {
    this.set({ skip });
  }

  /** Goes to a moment. */
  async seek(at: number): Promise<void> {
    const { timeline: t, from, to } = this.view.get();
    if (!t) return;
    const moment = Math.min(Math.max(at, from), to);
    const no = ++this.seekNo;
    this.set({ at: moment, seeking: true });
    await this.fine(moment);
    if (no !== this.seekNo) return;
    await this.go(offsetAt(this.view.get().timeline!, moment), no);
  }

  /** Goes to where a byte had just been printed. */
  async seekOffset(offset: number): Promise<void> {
    const t = this.view.get().timeline;
    if (!t) return;
    const no = ++this.seekNo;
    this.set({ seeking: true });
    await this.fine(timeOf(t, offset));
    if (no !== this.seekNo) return;
    const at = timeOf(this.view.get().timeline!, offset);
    this.set({ at });
    await this.go(Math.max(offset, offsetAt(this.view.get().timeline!, at)), no);
  }

  private async go(target: number, no: number): Promise<void> {
    try {
      if (target < this.pos || target - this.pos > NEAR || this.pos === 0) {
        const answer = await raw(`/sessions/${encodeURIComponent(this.sessionId)}/moment?at=${target}`, {
          signal: this.abort.signal,
        });
        const bytes = new Uint8Array(await answer.arrayBuffer());
        if (no !== this.seekNo) return;
        const number = (name: string) => Number(answer.headers.get(name));
        this.term.reset();
        this.resize(number("X-Parawork-Cols") || 80, number("X-Parawork-Rows") || 24);
        await this.write(bytes);
        this.pos = number("X-Parawork-Offset");
      }
      while (this.pos < target && no === this.seekNo) {
        if (!(await this.step(target))) break;
      }
      if (no === this.seekNo) this.set({ seeking: false, offset: this.pos, error: undefined });
    } catch (error) {
      if (!this.abort.signal.aborted && no === this.seekNo) {
        this.pause();
        this.set({ seeking: false, error });
      }
    }
  }

  private start(): void {
    this.set({ playing: true });
    this.lastFrame = performance.now();
    const tick = (now: number) => {
      const v = this.view.get();
      if (!v.playing || this.abort.signal.aborted) return;
      this.frame = requestAnimationFrame(tick);
      // A frame's time may be before the click that started it; a background tab must not jump.
      const passed = Math.max(0, Math.min(now - this.lastFrame, 250));
      this.lastFrame = now;
      if (v.seeking || this.reading || this.waiting > WAITING || !v.timeline) return;
      let at = v.at + passed * v.speed;
      if (v.skip) {
        const next = nextAfter(v.timeline, v.at);
        if (next !== undefined && next - v.at > SILENCE * v.speed) at = Math.max(at, next - 300 * v.speed);
      }
      at = Math.min(at, v.to);
      this.set({ at });
      void this.advance(at);
      if (at >= v.to && !this.running) this.pause();
    };
    this.frame = requestAnimationFrame(tick);
  }

  /** Writes what came until a moment. */
  private async advance(at: number): Promise<void> {
    this.reading = true;
    const no = this.seekNo;
    try {
      await this.fine(at);
      const target = offsetAt(this.view.get().timeline!, at);
      while (this.pos < target && no === this.seekNo) {
        if (!(await this.step(target))) break;
      }
      if (no === this.seekNo) this.set({ offset: this.pos });
    } catch (error) {
      if (!this.abort.signal.aborted) {
        this.pause();
        this.set({ error });
      }
    } finally {
      this.reading = false;
    }
  }

  /** Writes the next bytes, up to a change of size at most. False: there are none. */
  private async step(target: number): Promise<boolean> {
    const t = this.view.get().timeline!;
    const here = t.sizes.findLast((s) => s.offset <= this.pos);
    if (here) this.resizeLater(here.cols, here.rows);
    const stop = Math.min(target, sizeAfter(t, this.pos)?.offset ?? target);
    const base = Math.floor(this.pos / PIECE) * PIECE;
    const piece = await this.piece(base);
    const part = piece.subarray(this.pos - base, Math.min(piece.length, stop - base));
    if (part.length === 0) {
      this.pieces.delete(base); // it was read before there was more
      return false;
    }
    if (stop - base > piece.length / 2) void this.piece(base + PIECE).catch(() => {});
    this.pos += part.length;
    await this.write(part);
    return true;
  }

  /** Loads a piece of the output. If the server has deleted its beginning, pads it so that offsets stay valid. */
  private piece(base: number): Promise<Uint8Array> {
    const known = this.pieces.get(base);
    if (known) return known;
    const { first, end } = this.view.get().timeline!;
    const reading = (async () => {
      if (base >= end) return new Uint8Array();
      const from = Math.max(base, first);
      const answer = await raw(
        `/sessions/${encodeURIComponent(this.sessionId)}/output?from=${from}&limit=${base + PIECE - from}`,
        { signal: this.abort.signal },
      );
      const got = new Uint8Array(await answer.arrayBuffer());
      const start = Number(answer.headers.get("X-Parawork-Offset") ?? from) - base;
      if (start === 0) return got;
      const out = new Uint8Array(start + got.length);
      out.set(got, start);
      return out;
    })();
    for (const old of this.pieces.keys()) {
      if (this.pieces.size < 8) break;
      this.pieces.delete(old);
    }
    this.pieces.set(base, reading);
    reading.then(
      (p) => p.length < PIECE && base + p.length >= end && this.pieces.delete(base), // more may come
      () => this.pieces.delete(base),
    );
    return reading;
  }

  private write(bytes: Uint8Array): Promise<void> {
    this.waiting += bytes.length;
    return new Promise((done) =>
      this.term.write(bytes, () => {
        this.waiting -= bytes.length;
        done();
      }),
    );
  }

  private resizeLater(cols: number, rows: number): void {
    if (cols !== this.term.cols || rows !== this.term.rows) this.resize(cols, rows);
  }

  private resize(cols: number, rows: number): void {
    this.term.resize(cols, rows);
    this.set({ cols, rows });
    this.layout();
  }

  /** Makes sure that the marks around a moment are all there. */
  private async fine(at: number): Promise<void> {
    const t = this.view.get().timeline!;
    if (t.exact || this.refined.some(([from, to]) => at >= from && at <= to)) return;
    const from = Math.floor(at / WINDOW) * WINDOW;
    const span: [number, number] = [from, from + WINDOW];
    this.refined.push(span);
    try {
      const part = await this.timing(span[0], span[1]);
      this.set({ timeline: refine(this.view.get().timeline!, part) });
    } catch (error) {
      this.refined = this.refined.filter((r) => r !== span);
      throw error;
    }
  }

  private async timing(from: number, to: number): Promise<Timeline> {
    const answer = await data(
      api.GET("/sessions/{id}/timing", {
        params: { path: { id: this.sessionId }, query: { from, to, limit: MARKS } },
        signal: this.abort.signal,
      }),
    );
    return readTiming(answer);
  }

  /** A session that runs prints more: the timeline grows at its end. */
  private followLater(): void {
    this.follow = setTimeout(async () => {
      try {
        const t = this.view.get().timeline!;
        const more = await this.timing((t.at.at(-1) ?? 0) + 1, 0);
        if (more.at.length > 0 || more.end !== t.end) {
          const at = [...t.at, ...more.at];
          this.set({
            timeline: { ...t, end: more.end, at, offset: [...t.offset, ...more.offset], sizes: more.sizes },
            to: at.at(-1)!,
          });
        }
      } catch {
        // asked again in a moment
      }
      if (!this.abort.signal.aborted && this.running) this.followLater();
    }, FOLLOW_MS);
  }

  /** Tells whether the session still runs. */
  setRunning(running: boolean): void {
    if (this.running === running) return;
    this.running = running;
    if (running && this.view.get().phase === "ready") this.followLater();
  }

  private layout(): void {
    const { host, term } = this;
    const screen = term.element?.querySelector<HTMLElement>(".xterm-screen");
    if (!host || !screen || host.clientWidth === 0) return;
    const base = look.get().terminalFont;
    const font = term.options.fontSize ?? base;
    const cell = {
      width: (screen.offsetWidth / term.cols / font) * base,
      height: (screen.offsetHeight / term.rows / font) * base,
    };
    if (!(cell.width > 0) || !(cell.height > 0)) return;
    const next = fontFor({ width: host.clientWidth, height: host.clientHeight }, term.cols, term.rows, cell, base);
    if (next !== font) term.options.fontSize = next;
    const width = term.cols * cell.width * (next / base) + 16;
    const height = term.rows * cell.height * (next / base);
    this.element.style.minWidth = width > host.clientWidth ? `${Math.ceil(width)}px` : "";
    this.element.style.minHeight = height > host.clientHeight ? `${Math.ceil(height)}px` : "";
  }

  private set(change: Partial<ReplayView>): void {
    this.view.set({ ...this.view.get(), ...change });
  }
}
