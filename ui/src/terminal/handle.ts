import { t } from "@lingui/core/macro";
import { UnicodeGraphemesAddon } from "@xterm/addon-unicode-graphemes";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { type IBufferRange, Terminal } from "@xterm/xterm";
import { api, socketUrl } from "@/api/client";
import { chordOf, isMac } from "@/keys/chord";
import { oursInTerminal } from "@/keys/keyboard";
import { onFirstInput } from "@/kit/first-input";
import { part } from "@/kit/part";
import { noteBack } from "@/state/connection";
import { isCoarse, isTerminalDark, look, onThemeChange } from "@/state/look";
import { Store } from "@/state/store";
import { swallowQuestions } from "./answers";
import { copyFromProgram, pasteInto } from "./clipboard";
import { binaryInput, colors, keyboardWish } from "./codec";
import type { Finder } from "./finder";
import type { KeyboardWish } from "./keyboard";
import { TerminalLink } from "./link";
import { openLink } from "./open-link";
import { readProgress } from "./progress";
import { ScreenFit } from "./screen-fit";
import { NEW_VIEW, parseExit, parseState, type TerminalView } from "./state";
import { DARK, LIGHT } from "./theme";
import { cleanTitle, isGesture, readOsc52 } from "./untrusted";
import { withWebgl } from "./webgl";

const FONT = '"JetBrains Mono Variable", "DejaVu Sans Mono", ui-monospace, monospace';

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
  private finder: Promise<Finder> | undefined;
  private readonly fit: ScreenFit;
  private readonly link: TerminalLink;
  private readonly stops: (() => void)[] = [];
  private host: HTMLElement | undefined;
  private opened = false;
  private disposed = false;
  private asleep: (() => void) | undefined; // the typing handler while the sandbox is paused
  private writerAt = -1; // the server's clock: only changes matter; -1 = unknown
  private restored = false; // the screen as it was is there: what comes now is new
  private dropWebgl: (() => void) | undefined;
  private noHurry: (() => void) | undefined;
  private latch = NEW_VIEW.latch;

  /** How far the output has come. */
  get offset(): number | undefined {
    return this.link.offset;
  }

  constructor(readonly config: HandleConfig) {
    const l = look.get();
    this.view = new Store<TerminalView>(NEW_VIEW);
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
        activate: (_e, uri, range) => openLink(uri, textIn(this.term, range), config.workspaceId),
        allowNonHttpProtocols: false,
      },
      macOptionIsMeta: true,
      minimumContrastRatio: 4.5,
      rightClickSelectsWord: false,
      screenReaderMode: l.screenReader,
      scrollback: 10_000,
      theme: isTerminalDark() ? DARK : LIGHT,
    });
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
        output: (bytes, _end, done) =>
          this.term.write(bytes, () => {
            this.lookDrawn();
            done();
          }),
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
        // share link needs no login and gets the reason from the socket.
        trouble: () =>
          config.link ||
          void api
            .GET("/sessions/{id}", { params: { path: { id: config.sessionId } } })
            .then(({ response }) => response.status === 404 && this.link.gone())
            .catch(() => {}),
      },
    });
    this.fit = new ScreenFit({
      term: this.term,
      element: this.element,
      view: this.view,
      writer: config.writer,
      wish: (cols, rows) => this.link.wish(cols, rows),
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
      if (this.disposed) return;
    }
    if (!this.opened) {
      this.opened = true;
      this.term.open(this.element);
      this.term.textarea?.setAttribute("aria-label", "Terminal. Press Ctrl+Shift+E to leave it.");
      this.element.addEventListener("paste", this.onPaste, true);
      this.element.addEventListener("wheel", this.watchScroll, { passive: true });
    }
    if (this.host !== host) return;
    this.fit.enter(host);
    if (!isCoarse()) this.noHurry ??= onFirstInput(() => void this.drawByWebgl(host));
  }

  /** WebGL draws faster but takes time to begin: not before somebody uses the page. */
  private async drawByWebgl(host: HTMLElement): Promise<void> {
    if (this.host !== host) return;
    this.dropWebgl ??= await withWebgl(this.term, (renderer) => this.set({ renderer }));
    if (this.host !== host) this.releaseWebgl();
  }

  /** What finds text in it: loaded when it is used first. */
  find(): Promise<Finder> {
    this.finder ??= part(() => import("./finder")).then((m) => new m.Finder(this.term));
    return this.finder;
  }

  /** Takes the terminal out of the page; it goes on reading. */
  detach(host: HTMLElement): void {
    if (this.host !== host) return;
    this.host = undefined;
    this.noHurry?.();
    this.noHurry = undefined;
    this.fit.leave();
    this.releaseWebgl();
    this.element.remove();
  }

  get attached(): boolean {
    return this.host !== undefined;
  }

  dispose(): void {
    this.disposed = true;
    this.releaseWebgl();
    this.fit.dispose();
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
    this.fit.wishOwn();
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

  /** The empty height in sight below the last row with something on it, in px: what may be covered without hiding anything. */
  blankBelow(): number {
    return this.fit.blankBelow();
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
   * While the sandbox is paused, input is dropped: a suspended program would get it late, or never. Typing calls
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
        term.options.screenReaderMode = look.get().screenReader;
        this.fit.layout();
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
      this.lookDrawn();
    });
  }

  /** Notices the first letters on the screen: until then a terminal is only dark. */
  private lookDrawn(): void {
    if (this.view.get().drawn) return;
    const { active } = this.term.buffer;
    for (let y = 0; y < active.length; y++) {
      if (!active.getLine(y)?.translateToString(true)) continue;
      this.set({ drawn: true });
      return;
    }
  }

  /** Programs get the colours of the user who sizes the terminal. */
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
    this.fit.layout();
  }

  private onError(json: unknown): void {
    const e = (json ?? {}) as { code?: unknown; message?: unknown };
    this.set({ error: typeof e.message === "string" ? e.message : t`The terminal reported an error.` });
  }

  /** The size everybody shares, from the server. */
  private applySize(cols: number, rows: number): void {
    if (cols < 1 || rows < 1) return;
    this.fit.setShared(cols, rows);
    this.set({ cols, rows });
    this.fit.layout();
  }

  private readonly watchScroll = (): void => {
    const b = this.term.buffer.active;
    const scrolledUp = b.viewportY < b.baseY;
    if (scrolledUp !== this.view.get().scrolledUp) this.set({ scrolledUp });
  };

  private releaseWebgl(): void {
    this.dropWebgl?.();
    this.dropWebgl = undefined;
  }

  private set(change: Partial<TerminalView>): void {
    this.view.update((v) => ({ ...v, ...change }));
  }
}

/** What a terminal shows in a range, at most 21 lines of it. */
function textIn(term: Terminal, { start, end }: IBufferRange): string {
  const lines: string[] = [];
  for (let y = start.y; y <= Math.min(end.y, start.y + 20); y++) {
    const from = y === start.y ? start.x - 1 : 0;
    const to = y === end.y ? end.x : undefined;
    lines.push(term.buffer.active.getLine(y - 1)?.translateToString(true, from, to) ?? "");
  }
  return lines.join("");
}
