import { FitAddon } from "@xterm/addon-fit";
import { SearchAddon } from "@xterm/addon-search";
import { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { api, socketUrl } from "@/api/client";
import { chordOf, isMac } from "@/keys/chord";
import { oursInTerminal } from "@/keys/keyboard";
import { noteBack } from "@/state/connection";
import { isCoarse, isTerminalDark, look, onThemeChange } from "@/state/look";
import { Store } from "@/state/store";
import { swallowQuestions } from "./answers";
import { copyFromProgram, pasteInto } from "./clipboard";
import { binaryInput, colors, keyboardWish } from "./codec";
import type { KeyboardWish } from "./keyboard";
import { TerminalLink } from "./link";
import { openLink } from "./open-link";
import { readProgress } from "./progress";
import { fontFor, MIN_COLS, MIN_ROWS } from "./size";
import { parseExit, parseState, type TerminalView } from "./state";
import { DARK, LIGHT } from "./theme";
import { cleanTitle, isGesture, readOsc52 } from "./untrusted";
import { withWebgl } from "./webgl";

const FONT = '"JetBrains Mono Variable", "DejaVu Sans Mono", ui-monospace, monospace';
const WISH_AFTER = 150;

export interface HandleConfig {
  sessionId: string;
  /** May type; else watches only. */
  writer: boolean;
  /** Whose ports links to the machine itself mean. */
  workspaceId: string;
  /** A shell, where Shift+Enter is Enter. Agents take it as a new line. */
  shell: boolean;
  /** The id of the link it is watched by, where nobody is signed in. */
  link?: string;
}

/**
 * One session's terminal. It lives outside React: while another page or tab is shown it keeps its connection, goes on reading
 * and is put back as it is.
 */
export class TerminalHandle {
  readonly view: Store<TerminalView>;
  readonly element = document.createElement("div");
  private readonly term: Terminal;
  private readonly fit = new FitAddon();
  private readonly search = new SearchAddon({ highlightLimit: 2000 });
  private readonly link: TerminalLink;
  private readonly stops: (() => void)[] = [];
  private host: HTMLElement | undefined;
  private observer: ResizeObserver | undefined;
  private wishTimer: ReturnType<typeof setTimeout> | undefined;
  private opened = false;
  private followed: number | undefined; // where the place was scrolled to by us
  private measuring = false; // the size of the letters is changing
  private disposed = false;
  private asleep: (() => void) | undefined; // what typing does while the place stands still
  private writerAt = -1; // the server's clock: only whether it moved counts; -1 = not told yet
  private restored = false; // the screen as it was is there: what comes now is new
  private sized: { cols: number; rows: number } | undefined;
  private dropWebgl: (() => void) | undefined;
  private latch: { ctrl: boolean; alt: boolean } = { ctrl: false, alt: false };

  constructor(readonly config: HandleConfig) {
    const l = look.get();
    this.view = new Store<TerminalView>({
      link: { phase: "connecting", retryAt: 0, downSince: 0 },
      cols: 0,
      rows: 0,
      owner: undefined,
      mine: false,
      viewers: [],
      viewerCount: 0,
      typist: undefined,
      typedAt: 0,
      keyboard: undefined,
      mayTake: false,
      grace: undefined,
      exit: undefined,
      error: "",
      title: "",
      progress: undefined,
      bell: false,
      gap: 0,
      renderer: "dom",
      scrolledUp: false,
      replaying: true,
      latch: this.latch,
    });
    this.element.className = "term-host";
    this.term = new Terminal({
      allowProposedApi: true,
      cursorBlink: !matchMedia("(prefers-reduced-motion: reduce)").matches,
      disableStdin: !config.writer,
      drawBoldTextInBrightColors: false,
      fontFamily: FONT,
      fontSize: l.terminalFont,
      lineHeight: 1.15,
      linkHandler: {
        activate: (_e, uri, range) => openLink(uri, this.textAt(range), config.workspaceId),
        allowNonHttpProtocols: false,
      },
      macOptionIsMeta: true,
      minimumContrastRatio: 4.5,
      rightClickSelectsWord: false,
      screenReaderMode: l.screenReader,
      scrollback: 10_000,
      theme: isTerminalDark() ? DARK : LIGHT,
    });
    this.term.loadAddon(this.fit);
    this.term.loadAddon(this.search);
    this.term.loadAddon(new UnicodeGraphemesAddon());
    this.term.loadAddon(new WebLinksAddon((_e, uri) => openLink(uri, uri, config.workspaceId)));
    this.link = new TerminalLink({
      url: (from) => {
        if (config.link) {
          const q = new URLSearchParams({ link: config.link });
          if (from !== undefined) q.set("from", String(from));
          return socketUrl(`/watch/terminal?${q}`);
        }
        const q = new URLSearchParams({ role: config.writer ? "writer" : "viewer" });
        if (from !== undefined) q.set("from", String(from));
        return socketUrl(`/sessions/${encodeURIComponent(config.sessionId)}/terminal?${q}`);
      },
      events: {
        output: (bytes, _end, done) => this.term.write(bytes, done),
        snapshot: (bytes) => this.restore(bytes),
        gap: (bytes) => this.set({ gap: this.view.get().gap + bytes }),
        size: (cols, rows) => this.afterWrites(() => this.applySize(cols, rows)),
        state: (json) => this.onState(json),
        exit: (json) => {
          const exit = parseExit(json);
          this.afterWrites(() => this.set({ exit, progress: undefined, replaying: false }));
        },
        error: (json) => this.onError(json),
        reset: () => {
          this.restored = false;
          this.set({ gap: 0, replaying: true });
        },
        link: (link) => {
          this.set({ link });
          if (link.phase === "live") this.tellColors();
        },
        back: noteBack,
        // A page is not shown why a handshake was refused: ask for the session itself. A 401 leads to the login page. Who watches by a
        // link needs none, and is told by the socket.
        trouble: () =>
          config.link ||
          void api
            .GET("/sessions/{id}", { params: { path: { id: config.sessionId } } })
            .then(({ response }) => response.status === 404 && this.link.gone())
            .catch(() => {}),
      },
    });
    this.wire();
    this.link.start();
  }

  /** Puts the terminal into a place of the page. */
  async attach(host: HTMLElement): Promise<void> {
    this.host = host;
    host.append(this.element);
    if (!this.opened) {
      // Letters are measured once, when the terminal opens: the font must be there by then.
      await Promise.allSettled([document.fonts.load(`13px ${FONT}`), document.fonts.load(`bold 13px ${FONT}`)]);
      if (this.disposed || this.opened) return;
      this.opened = true;
      this.term.open(this.element);
      this.term.textarea?.setAttribute("aria-label", "Terminal. Ctrl+Shift+E leaves it.");
      this.element.addEventListener("paste", this.onPaste, true);
      this.element.addEventListener("wheel", this.watchScroll, { passive: true });
    }
    if (this.host !== host) return;
    this.observer?.disconnect();
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(host);
    this.layout();
    if (!isCoarse()) {
      this.dropWebgl ??= await withWebgl(this.term, (renderer) => this.set({ renderer }));
      if (this.host !== host) this.releaseWebgl();
    }
  }

  /** Takes the terminal out of the page; it goes on reading. */
  detach(host: HTMLElement): void {
    if (this.host !== host) return;
    this.host = undefined;
    this.observer?.disconnect();
    clearTimeout(this.wishTimer);
    this.releaseWebgl();
    this.element.remove();
  }

  get attached(): boolean {
    return this.host !== undefined;
  }

  dispose(): void {
    this.disposed = true;
    this.releaseWebgl();
    this.observer?.disconnect();
    for (const stop of this.stops) stop();
    this.link.close();
    this.term.dispose();
    this.element.remove();
  }

  focus(): void {
    this.term.focus();
    this.set({ bell: false });
  }

  blur(): void {
    this.term.blur();
  }

  get focused(): boolean {
    return this.element.contains(document.activeElement);
  }

  /** Types text as it is: no paste rules. */
  type(text: string): boolean {
    this.asleep?.();
    return this.mayType && this.link.type(this.latched(text));
  }

  /** Pastes by the rules: bracketed where the program asks for it, with a question for long or strange text elsewhere. */
  paste(text: string): void {
    this.asleep?.();
    if (this.mayType) void pasteInto(this.link, text, this.term.modes.bracketedPasteMode, () => this.term.focus());
  }

  /** Makes this screen's size the terminal's. */
  takeSize(): void {
    if (!this.config.writer) return;
    this.setFont(look.get().terminalFont);
    this.pan("", "");
    const size = this.fit.proposeDimensions();
    if (size && size.cols >= MIN_COLS && size.rows >= MIN_ROWS) this.link.wish(size.cols, size.rows);
    this.link.takeSize();
    this.term.focus();
  }

  /** Takes, asks for or hands over the keyboard. */
  wishKeyboard(wish: KeyboardWish): void {
    this.set({ error: "" });
    this.link.send(keyboardWish(wish));
  }

  retryNow(): void {
    this.link.now();
  }

  find(
    text: string,
    options: { regex: boolean; caseSensitive: boolean; back?: boolean; incremental?: boolean },
  ): boolean {
    if (!text) {
      this.search.clearDecorations();
      return false;
    }
    const o = {
      regex: options.regex,
      caseSensitive: options.caseSensitive,
      incremental: options.incremental,
      decorations: {
        matchBackground: "#8a5a00",
        matchOverviewRuler: "#f5b73d",
        activeMatchBackground: "#1d4ed8",
        activeMatchColorOverviewRuler: "#6ea8fe",
      },
    };
    try {
      return options.back ? this.search.findPrevious(text, o) : this.search.findNext(text, o);
    } catch {
      return false; // an unfinished regular expression
    }
  }

  onFound(tell: (index: number, count: number) => void): () => void {
    const d = this.search.onDidChangeResults((r) => tell(r.resultIndex, r.resultCount));
    return () => d.dispose();
  }

  endFind(): void {
    this.search.clearDecorations();
    this.term.clearSelection();
    this.term.focus();
  }

  /** The empty height in sight below the last row with something on it, in px: what may be covered without hiding anything. */
  blankBelow(): number {
    return Math.max(0, this.belowText());
  }

  scrollToEnd(): void {
    this.term.scrollToBottom();
    this.watchScroll();
  }

  /** Holds Ctrl or Alt for the next key of the phone's key bar. */
  setLatch(key: "ctrl" | "alt"): void {
    this.latch = { ...this.latch, [key]: !this.latch[key] };
    this.set({ latch: this.latch });
  }

  copySelection(): boolean {
    const text = this.term.getSelection();
    if (!text) return false;
    void navigator.clipboard?.writeText(text).catch(() => {});
    return true;
  }

  /**
   * While its place stands still nothing is typed: a program that does not run would get it late, or never. What is typed calls
   * onType instead. Returns how to end that.
   */
  whileAsleep(onType: () => void): () => void {
    this.asleep = onType;
    return () => {
      if (this.asleep === onType) this.asleep = undefined;
    };
  }

  private get mayType(): boolean {
    const { exit, replaying, keyboard } = this.view.get();
    return (
      !this.asleep &&
      this.config.writer &&
      this.link.live &&
      !exit &&
      !replaying &&
      (keyboard === undefined || keyboard.mine)
    );
  }

  private wire(): void {
    const { term } = this;
    swallowQuestions(term);
    term.onData((text) => {
      if (this.asleep) {
        if (!isGesture(text)) this.asleep();
      } else if (this.mayType) this.link.type(this.latched(text));
    });
    term.onBinary((text) => {
      if (this.mayType) this.link.send(binaryInput(text));
    });
    term.onTitleChange((title) => this.set({ title: cleanTitle(title) }));
    term.onBell(() => {
      if (!this.focused) this.set({ bell: true });
    });
    term.onScroll(this.watchScroll);
    term.onWriteParsed(this.watchScroll);
    term.onWriteParsed(this.followText);
    term.attachCustomKeyEventHandler((e) => this.onKey(e));
    term.parser.registerOscHandler(52, (payload) => {
      const wish = readOsc52(payload);
      // A guest's clipboard is not the program's to write.
      if (wish.kind === "write" && this.restored && !this.config.link) copyFromProgram(wish.text, this.focused);
      return true;
    });
    term.parser.registerOscHandler(9, (payload) => {
      const progress = readProgress(payload);
      if (progress !== null) this.set({ progress });
      return true;
    });
    this.stops.push(
      onThemeChange(() => {
        term.options.theme = isTerminalDark() ? DARK : LIGHT;
        this.tellColors();
      }),
      look.subscribe(() => {
        const l = look.get();
        term.options.screenReaderMode = l.screenReader;
        this.layout();
      }),
    );
  }

  /** Keys that are ours leave the terminal alone; false means that xterm does not handle the key. */
  private onKey(e: KeyboardEvent): boolean {
    if (e.type !== "keydown") return true;
    const chord = chordOf(e);
    if ((chord === "ctrl+c" || chord === "mod+c") && this.term.hasSelection()) {
      this.copySelection();
      this.term.clearSelection();
      e.preventDefault();
      return false;
    }
    if (chord === "mod+shift+c") {
      this.copySelection();
      e.preventDefault();
      return false;
    }
    if (chord === "mod+shift+v" || (isMac && chord === "mod+v")) return false; // the browser's paste event follows
    if (oursInTerminal(e)) return false; // goes on to the page's own keys
    if (chord === "shift+enter" && !this.config.shell && this.config.writer) {
      e.preventDefault();
      if (this.mayType) this.link.type("\x1b\r");
      return false;
    }
    return true;
  }

  private readonly onPaste = (e: ClipboardEvent): void => {
    e.preventDefault();
    e.stopPropagation();
    const text = e.clipboardData?.getData("text/plain") ?? "";
    if (text) this.paste(text);
  };

  private latched(text: string): string {
    const { ctrl, alt } = this.latch;
    if (!ctrl && !alt) return text;
    this.latch = { ctrl: false, alt: false };
    this.set({ latch: this.latch });
    let out = text;
    if (ctrl && /^[@-_a-z]$/.test(out)) out = String.fromCharCode(out.toUpperCase().charCodeAt(0) & 0x1f);
    return alt ? `\x1b${out}` : out;
  }

  /** Puts the screen in place as the server has it: nothing the terminal showed before is left. */
  private restore(bytes: Uint8Array): void {
    this.restored = false;
    this.term.reset();
    this.term.write(bytes, () => {
      this.restored = true;
      this.set({ replaying: false });
    });
  }

  /** Programs are told the colours of whoever sizes the terminal. */
  private tellColors(): void {
    if (!this.config.writer) return;
    const theme = isTerminalDark() ? DARK : LIGHT;
    this.link.send(colors(theme.foreground ?? "", theme.background ?? "", theme.cursor ?? ""));
  }

  private afterWrites(run: () => void): void {
    this.term.write("", () => {
      if (!this.disposed) run();
    });
  }

  private onState(json: unknown): void {
    const s = parseState(json);
    const { typist, typedAt } = this.view.get();
    const typing = this.writerAt >= 0 && s.writer && (s.writer.id !== typist?.id || s.writerAt !== this.writerAt);
    this.writerAt = s.writerAt;
    this.set({
      typedAt: typing ? Date.now() : typedAt,
      keyboard: s.keyboard,
      mayTake: s.mayTake,
      grace: s.grace,
      viewers: s.viewers,
      viewerCount: s.viewerCount,
      typist: s.writer,
      owner: s.owner,
      mine: s.owner !== undefined && s.owner.id === s.you,
    });
    this.layout();
  }

  private onError(json: unknown): void {
    const e = (json ?? {}) as { code?: unknown; message?: unknown };
    this.set({ error: typeof e.message === "string" ? e.message : "The terminal reported an error." });
  }

  /** The size everybody shares, from the server. */
  private applySize(cols: number, rows: number): void {
    if (cols < 1 || rows < 1) return;
    this.sized = { cols, rows };
    if (this.term.cols !== cols || this.term.rows !== rows) this.term.resize(cols, rows);
    this.set({ cols, rows });
    this.layout();
  }

  /**
   * Fits the view into its place. The owner of the size asks the server for what fits; everybody else sees the owner's columns
   * and rows in smaller letters, and pans when those would be too small to read.
   */
  private layout(): void {
    const { host, term } = this;
    if (!host || !this.opened || this.measuring || host.clientWidth < 40 || host.clientHeight < 40) return;
    const base = look.get().terminalFont;
    const { mine, owner } = this.view.get();
    const finger = isCoarse();
    const mayWish = this.config.writer && !this.view.get().exit && (mine || (owner === undefined && !finger));
    if (mayWish) {
      if (term.options.fontSize !== base) this.setFont(base);
      this.pan("", "");
      clearTimeout(this.wishTimer);
      this.wishTimer = setTimeout(() => this.wish(finger), WISH_AFTER);
      return;
    }
    // Not ours, but the server should know what we would like: it may ask us when the owner leaves.
    if (this.config.writer && !finger && !this.view.get().exit) {
      clearTimeout(this.wishTimer);
      this.wishTimer = setTimeout(() => this.tellSize(base), WISH_AFTER);
    }
    const cell = this.cell();
    if (!cell || !this.sized) return;
    const font = term.options.fontSize ?? base;
    const atBase = { width: (cell.width * base) / font, height: (cell.height * base) / font };
    const box = { width: host.clientWidth, height: host.clientHeight };
    const next = fontFor(box, this.sized.cols, this.sized.rows, atBase, base);
    if (next !== font) this.setFont(next);
    const scale = next / base;
    const width = this.sized.cols * atBase.width * scale + 16;
    const height = this.sized.rows * atBase.height * scale;
    this.pan(width > box.width ? `${Math.ceil(width)}px` : "", height > box.height + 4 ? `${Math.ceil(height)}px` : "");
  }

  /**
   * Changes the size of the letters. The terminal draws in the new size some frames later; until then what is measured belongs to
   * the old one. xterm also keeps a letter's old width, which would put all letters on top of each other: a change of weight that
   * changes nothing makes it measure anew.
   */
  private setFont(size: number): void {
    const { term } = this;
    term.options.fontSize = size;
    this.measuring = true;
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        this.measuring = false;
        if (this.disposed) return;
        term.options.fontWeight = term.options.fontWeight === "normal" ? 400 : "normal";
        this.layout();
      }),
    );
  }

  private pan(width: string, height: string): void {
    this.element.style.width = width;
    this.element.style.height = height;
    this.followText();
  }

  /** Keeps the last written row of a terminal that is higher than its place in sight, until somebody pans elsewhere. */
  private readonly followText = (): void => {
    const { host } = this;
    if (!host || !this.element.style.height) {
      this.followed = undefined;
      return;
    }
    if (this.followed !== undefined && Math.abs(host.scrollTop - this.followed) > 4) return;
    host.scrollTop -= this.belowText();
    this.followed = host.scrollTop;
  };

  /** From the last row with something on it down to the end of what is in sight, in px; less than 0 when that row is below. */
  private belowText(): number {
    const cell = this.cell();
    const screen = this.element.querySelector(".xterm-screen");
    if (!cell || !screen || !this.host) return 0;
    const b = this.term.buffer.active;
    const cursor = b.baseY + b.cursorY - b.viewportY;
    let y = this.term.rows - 1;
    while (y > cursor && !b.getLine(b.viewportY + y)?.translateToString(true)) y--;
    return this.host.getBoundingClientRect().bottom - screen.getBoundingClientRect().top - (y + 1) * cell.height;
  }

  private wish(finger: boolean): void {
    const size = this.host && this.fit.proposeDimensions();
    if (!size || size.cols < MIN_COLS || size.rows < MIN_ROWS) return;
    const { cols, rows } = this.view.get();
    if (size.cols === cols && size.rows === rows && this.view.get().mine) return;
    // On a phone the keyboard takes height away and gives it back: that is no change of size.
    if (finger && size.cols === cols && size.rows < rows) return;
    this.link.wish(size.cols, size.rows);
  }

  private tellSize(base: number): void {
    const cell = this.cell();
    if (!cell || !this.host) return;
    const scale = base / (this.term.options.fontSize ?? base);
    const cols = Math.floor((this.host.clientWidth - 14) / (cell.width * scale));
    const rows = Math.floor(this.host.clientHeight / (cell.height * scale));
    if (cols >= MIN_COLS && rows >= MIN_ROWS) this.link.wish(cols, rows);
  }

  /** The size of one cell now, as drawn. */
  private cell(): { width: number; height: number } | undefined {
    const screen = this.element.querySelector(".xterm-screen");
    if (!screen) return undefined;
    const { width, height } = screen.getBoundingClientRect();
    return width > 0 ? { width: width / this.term.cols, height: height / this.term.rows } : undefined;
  }

  private readonly watchScroll = (): void => {
    const b = this.term.buffer.active;
    const scrolledUp = b.viewportY < b.baseY;
    if (scrolledUp !== this.view.get().scrolledUp) this.set({ scrolledUp });
  };

  private textAt(range: { start: { x: number; y: number }; end: { x: number; y: number } }): string {
    const lines: string[] = [];
    for (let y = range.start.y; y <= Math.min(range.end.y, range.start.y + 20); y++) {
      const line = this.term.buffer.active.getLine(y - 1);
      if (!line) continue;
      const from = y === range.start.y ? range.start.x - 1 : 0;
      const to = y === range.end.y ? range.end.x : undefined;
      lines.push(line.translateToString(true, from, to));
    }
    return lines.join("");
  }

  private releaseWebgl(): void {
    this.dropWebgl?.();
    this.dropWebgl = undefined;
  }

  private set(change: Partial<TerminalView>): void {
    this.view.update((v) => ({ ...v, ...change }));
  }
}
