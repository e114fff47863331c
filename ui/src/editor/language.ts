import {
  ChangeSet,
  type EditorState,
  type Extension,
  type Range,
  StateEffect,
  StateField,
  type Text,
} from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, hoverTooltip, keymap } from "@codemirror/view";
import { api, data, type Schemas } from "@/api/client";

export type Diagnostic = Schemas["Diagnostic"];
export type Location = Schemas["CodeLocation"];

/** The text that is being edited became that of the file. */
export const savedNow = StateEffect.define<null>();
/** What the language server finds wrong in the saved file. */
export const found = StateEffect.define<readonly Diagnostic[]>();

/** The file as it is saved, which is what the language server knows, and what was typed since. */
interface Saved {
  doc: Text;
  since: ChangeSet;
}

const saved = StateField.define<Saved>({
  create: (s) => ({ doc: s.doc, since: ChangeSet.empty(s.doc.length) }),
  update(was, tr) {
    if (tr.effects.some((e) => e.is(savedNow))) return { doc: tr.newDoc, since: ChangeSet.empty(tr.newDoc.length) };
    return tr.docChanged ? { doc: was.doc, since: was.since.compose(tr.changes) } : was;
  },
});

/** Where a line and a character of a text are, both from 1; past an end it is that end. */
export function offsetIn(doc: Text, line: number, character: number): number {
  if (line > doc.lines) return doc.length;
  const at = doc.line(Math.max(1, line));
  return Math.min(at.from + Math.max(0, character - 1), at.to);
}

/** The position in the saved file that a position in the edited text was at. */
function positionIn(state: EditorState, pos: number) {
  const { doc, since } = state.field(saved);
  const at = since.invertedDesc.mapPos(pos);
  const line = doc.lineAt(Math.min(at, doc.length));
  return { line: line.number, character: at - line.from + 1 };
}

interface Problem {
  from: number;
  to: number;
  of: Diagnostic;
}

const problems = StateField.define<{ list: readonly Problem[]; marks: DecorationSet }>({
  create: () => ({ list: [], marks: Decoration.none }),
  update(was, tr) {
    for (const e of tr.effects) if (e.is(found)) return mark(tr.state, e.value);
    if (!tr.docChanged) return was;
    return {
      list: was.list.map((p) => ({ ...p, from: tr.changes.mapPos(p.from), to: tr.changes.mapPos(p.to) })),
      marks: was.marks.map(tr.changes),
    };
  },
  provide: (f) => EditorView.decorations.from(f, (v) => v.marks),
});

function mark(state: EditorState, items: readonly Diagnostic[]) {
  const { doc, since } = state.field(saved);
  const list: Problem[] = [];
  const marks: Range<Decoration>[] = [];
  for (const of of items) {
    const start = offsetIn(doc, of.line, of.character);
    // An empty range is shown as one character.
    const end = Math.max(offsetIn(doc, of.end_line, of.end_character), Math.min(start + 1, doc.length));
    const from = since.mapPos(start, 1);
    const to = since.mapPos(end, -1);
    if (to <= from) continue;
    list.push({ from, to, of });
    marks.push(Decoration.mark({ class: `cm-problem cm-problem-${of.severity}` }).range(from, to));
  }
  return { list, marks: Decoration.set(marks, true) };
}

const look = EditorView.theme({
  ".cm-problem": { textDecoration: "underline wavy 1px", textUnderlineOffset: "3px" },
  ".cm-problem-error": { textDecorationColor: "var(--failed)" },
  ".cm-problem-warning": { textDecorationColor: "var(--needs)" },
  ".cm-problem-information, .cm-problem-hint": { textDecorationColor: "var(--fg3)" },
  ".cm-tooltip": { backgroundColor: "var(--bg1)", color: "var(--fg)", border: "1px solid var(--hairline)" },
  ".cm-about": { maxWidth: "60ch", maxHeight: "40vh", overflow: "auto", padding: "4px 8px" },
  ".cm-about pre": { margin: "4px 0", whiteSpace: "pre-wrap", fontFamily: "var(--font-mono, monospace)" },
});

/** What a hover shows: plain text, so that what a server says cannot become markup. */
function about(lines: readonly string[]): HTMLElement {
  const dom = document.createElement("div");
  dom.className = "cm-about";
  for (const line of lines) {
    const pre = document.createElement("pre");
    pre.textContent = line;
    dom.append(pre);
  }
  return dom;
}

/** Underlines problems, shows on hovering what a symbol is, and goes to definitions (F12, or a click with Ctrl or Cmd). */
export function languageServer(workspace: string, path: string, onOpen: (to: Location) => void): Extension {
  const params = { path: { id: workspace } };
  const open = async (v: EditorView, pos: number) => {
    const at = positionIn(v.state, pos);
    const { selection } = v.state;
    // Without an answer the cursor stays where it is, and so it does if it moved or the file was closed meanwhile.
    const list = await data(api.POST("/workspaces/{id}/definition", { params, body: { path, ...at } })).catch(
      () => undefined,
    );
    const to = list?.items[0];
    if (!to || to.outside || !v.dom.isConnected || !v.state.selection.eq(selection)) return;
    if (to.path !== path) return onOpen(to);
    const { doc, since } = v.state.field(saved);
    goTo(v, since.mapPos(offsetIn(doc, to.line, to.character)));
  };
  return [
    saved,
    problems,
    look,
    hoverTooltip(
      async (v, pos) => {
        const here = v.state.field(problems).list.filter((p) => p.from <= pos && pos <= p.to);
        const word = v.state.wordAt(pos);
        const answer = word
          ? await data(
              api.POST("/workspaces/{id}/hover", { params, body: { path, ...positionIn(v.state, pos) } }),
            ).catch(() => undefined)
          : undefined;
        const lines = here.map((p) => `${p.of.severity}: ${p.of.message}`);
        const text = answer?.text.replace(/^```\w*$/gm, "").trim();
        if (text) lines.push(text);
        if (lines.length === 0) return null;
        return { pos: word?.from ?? pos, end: word?.to, above: true, create: () => ({ dom: about(lines) }) };
      },
      { hideOnChange: true },
    ),
    keymap.of([
      {
        key: "F12",
        run: (v) => {
          void open(v, v.state.selection.main.head);
          return true;
        },
      },
    ]),
    EditorView.domEventHandlers({
      click: (e, v) => {
        if (!(e.metaKey || e.ctrlKey)) return false;
        const pos = v.posAtCoords(e);
        if (pos === null) return false;
        void open(v, pos);
        return true;
      },
    }),
  ];
}

/** Moves the cursor and shows it. */
export function goTo(v: EditorView, pos: number): void {
  v.dispatch({ selection: { anchor: pos }, effects: EditorView.scrollIntoView(pos, { y: "center" }) });
  v.focus();
}
