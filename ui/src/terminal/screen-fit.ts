import { FitAddon } from "@xterm/addon-fit";
import type { Terminal } from "@xterm/xterm";
import { isCoarse, look } from "@/state/look";
import type { Store } from "@/state/store";
import { type Box, fontFor, MIN_COLS, MIN_ROWS } from "./size";
import type { TerminalView } from "./state";

const WISH_AFTER = 150; // ms

interface Config {
  term: Terminal;
  /** What the terminal draws itself into. */
  element: HTMLElement;
  view: Store<TerminalView>;
  /** May type, and so may size the terminal. */
  writer: boolean;
  /** Tells the server the columns and rows that this screen would like. */
  wish: (cols: number, rows: number) => void;
}

/**
 * Fits a terminal into its place of the page. The owner of the size asks the server for what fits; everybody else sees the owner's
 * columns and rows in smaller letters, and pans when those would be too small to read.
 */
export class ScreenFit {
  private readonly addon = new FitAddon();
  private host: HTMLElement | undefined; // the place of the page, once the terminal is open in it
  private observer: ResizeObserver | undefined;
  private wishTimer: ReturnType<typeof setTimeout> | undefined;
  private followed: number | undefined; // where the host was scrolled to by us
  private measuring = false; // the size of the letters is changing
  private shared: { cols: number; rows: number } | undefined; // the size everybody has, from the server
  private disposed = false;

  constructor(private readonly config: Config) {
    config.term.loadAddon(this.addon);
    config.term.onWriteParsed(this.followText);
  }

  /** Begins to fit the terminal, which is open, into a place. */
  enter(host: HTMLElement): void {
    this.host = host;
    this.observer?.disconnect();
    this.observer = new ResizeObserver(() => this.layout());
    this.observer.observe(host);
    this.layout();
  }

  leave(): void {
    this.host = undefined;
    this.observer?.disconnect();
    clearTimeout(this.wishTimer);
  }

  dispose(): void {
    this.disposed = true;
    this.leave();
  }

  /** Takes over the size that everybody shares. */
  setShared(cols: number, rows: number): void {
    const { term } = this.config;
    this.shared = { cols, rows };
    if (term.cols !== cols || term.rows !== rows) term.resize(cols, rows);
  }

  /** Shows the letters in the size one chose, and wishes for the columns and rows that fit then. */
  wishOwn(): void {
    this.setFont(look.get().terminalFont);
    this.pan("", "");
    const size = this.addon.proposeDimensions();
    if (size && size.cols >= MIN_COLS && size.rows >= MIN_ROWS) this.config.wish(size.cols, size.rows);
  }

  /** The empty height in sight below the last row with something on it, in px. */
  blankBelow(): number {
    return Math.max(0, this.belowText());
  }

  /** Fits the terminal again, after its place, its owner or its size changed. */
  layout(): void {
    const { host } = this;
    const { term, writer, view } = this.config;
    if (!host || this.measuring || host.clientWidth < 40 || host.clientHeight < 40) return;
    const base = look.get().terminalFont;
    const { mine, owner, exit } = view.get();
    const finger = isCoarse();
    const mayWish = writer && !exit && (mine || (owner === undefined && !finger));
    if (mayWish) {
      if (term.options.fontSize !== base) this.setFont(base);
      this.pan("", "");
      this.later(() => this.wish(finger));
      return;
    }
    // Not ours, but the server should know what we would like: it may ask us when the owner leaves.
    if (writer && !finger && !exit) this.later(() => this.wishAtBase(base));
    const cell = this.cell();
    if (!cell || !this.shared) return;
    const { cols, rows } = this.shared;
    const font = term.options.fontSize ?? base;
    const atBase = { width: (cell.width * base) / font, height: (cell.height * base) / font };
    const box = { width: host.clientWidth, height: host.clientHeight };
    const next = fontFor(box, cols, rows, atBase, base);
    if (next !== font) this.setFont(next);
    const scale = next / base;
    const width = cols * atBase.width * scale + 16;
    const height = rows * atBase.height * scale;
    this.pan(width > box.width ? `${Math.ceil(width)}px` : "", height > box.height + 4 ? `${Math.ceil(height)}px` : "");
  }

  /**
   * Changes the size of the letters. The terminal draws in the new size some frames later; until then what is measured belongs to
   * the old one. xterm also keeps a letter's old width, which would put all letters on top of each other: a change of weight that
   * changes nothing makes it measure anew.
   */
  private setFont(size: number): void {
    const { term } = this.config;
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
    const { style } = this.config.element;
    style.width = width;
    style.height = height;
    this.followText();
  }

  /** Keeps the last written row of a terminal that is higher than its place in sight, until somebody pans elsewhere. */
  private readonly followText = (): void => {
    const { host } = this;
    if (!host || !this.config.element.style.height) {
      this.followed = undefined;
      return;
    }
    if (this.followed !== undefined && Math.abs(host.scrollTop - this.followed) > 4) return;
    host.scrollTop -= this.belowText();
    this.followed = host.scrollTop;
  };

  /** From the last row with something on it down to the end of what is in sight, in px; less than 0 when that row is below. */
  private belowText(): number {
    const { term } = this.config;
    const cell = this.cell();
    const screen = this.screen();
    if (!cell || !screen || !this.host) return 0;
    const b = term.buffer.active;
    const cursor = b.baseY + b.cursorY - b.viewportY;
    let y = term.rows - 1;
    while (y > cursor && !b.getLine(b.viewportY + y)?.translateToString(true)) y--;
    return this.host.getBoundingClientRect().bottom - screen.getBoundingClientRect().top - (y + 1) * cell.height;
  }

  private later(wish: () => void): void {
    clearTimeout(this.wishTimer);
    this.wishTimer = setTimeout(wish, WISH_AFTER);
  }

  private wish(finger: boolean): void {
    const size = this.host && this.addon.proposeDimensions();
    if (!size || size.cols < MIN_COLS || size.rows < MIN_ROWS) return;
    const { cols, rows, mine } = this.config.view.get();
    if (size.cols === cols && size.rows === rows && mine) return;
    // On a phone the keyboard takes height away and gives it back: that is no change of size.
    if (finger && size.cols === cols && size.rows < rows) return;
    this.config.wish(size.cols, size.rows);
  }

  /** Wishes for what would fit in letters of the chosen size, while they are drawn in another. */
  private wishAtBase(base: number): void {
    const cell = this.cell();
    if (!cell || !this.host) return;
    const scale = base / (this.config.term.options.fontSize ?? base);
    const cols = Math.floor((this.host.clientWidth - 14) / (cell.width * scale));
    const rows = Math.floor(this.host.clientHeight / (cell.height * scale));
    if (cols >= MIN_COLS && rows >= MIN_ROWS) this.config.wish(cols, rows);
  }

  /** The size of one cell now, as drawn. */
  private cell(): Box | undefined {
    const { term } = this.config;
    const { width = 0, height = 0 } = this.screen()?.getBoundingClientRect() ?? {};
    return width > 0 ? { width: width / term.cols, height: height / term.rows } : undefined;
  }

  private screen(): Element | null {
    return this.config.element.querySelector(".xterm-screen");
  }
}
