import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useState } from "react";
import { count } from "@/format/text";
import { segments } from "@/highlight/segments";
import { cx } from "@/kit/cx";
import { tokensOf } from "./diff/color";
import { findIn } from "./diff/find";
import { CUT, type FilePatch, KIND_ADD, KIND_DEL, lineText, NO_NEWLINE } from "./diff/lines";
import { NONE } from "./diff/rows";
import { changedWords } from "./diff/word-marks";

const BG = ["", "bg-add-bg", "bg-del-bg"];
const SIGN = ["", "+", "−"];
const SIGN_COLOR = ["", "text-add", "text-del"];
const WORD = ["", `${t`added`} `, `${t`removed`} `];
const NUMBER = "diff-number shrink-0 select-none pr-2 text-right text-fg3";

interface LineProps {
  patch: FilePatch;
  find: string;
  /** This row has the current search hit. */
  current: boolean;
  chosen: boolean;
  inHand: boolean;
  actions: ReactNode;
}

interface SingleProps extends LineProps {
  index: number;
  /** Shows one line number: the new side's, or the old side's for a removed line. */
  narrow: boolean;
}

/** A line in one column. */
export function LineRow({ patch, index: i, find, current, chosen, inHand, actions, narrow }: SingleProps) {
  const kind = patch.kind[i]! & 3;
  const gone = kind === KIND_DEL;
  return (
    <div className={cx("relative flex", BG[kind], chosen && "diff-chosen", inHand && HAND)}>
      {actions}
      {(!narrow || gone) && <LineNumber side="old" n={patch.old[i]!} />}
      {(!narrow || !gone) && <LineNumber side="new" n={patch.new[i]!} />}
      <Sign kind={kind} />
      <Text patch={patch} index={i} find={find} current={current} />
    </div>
  );
}

const HAND = "shadow-[inset_3px_0_0_var(--accent)]";

interface PairProps extends Omit<LineProps, "chosen"> {
  left: number;
  right: number;
  chosenLeft: boolean;
  chosenRight: boolean;
  actionsRight: boolean;
}

/** Two lines side by side. */
export function PairRow({ left, right, chosenLeft, chosenRight, actions, actionsRight, inHand, ...rest }: PairProps) {
  return (
    <div className={cx("grid grid-cols-2", inHand && HAND)}>
      <Half {...rest} index={left} side="old" chosen={chosenLeft} actions={actionsRight ? undefined : actions} />
      <div className="flex min-w-0 border-l border-hairline">
        <Half {...rest} index={right} side="new" chosen={chosenRight} actions={actionsRight ? actions : undefined} />
      </div>
    </div>
  );
}

interface HalfProps extends Omit<LineProps, "inHand"> {
  index: number;
  side: "old" | "new";
}

function Half({ patch, index: i, side, find, current, chosen, actions }: HalfProps) {
  if (i === NONE) return <div aria-hidden className="diff-nothing min-w-0 flex-1" />;
  const kind = patch.kind[i]! & 3;
  return (
    <div data-side={side} className={cx("relative flex min-w-0 flex-1", BG[kind], chosen && "diff-chosen")}>
      {actions}
      <LineNumber side={side} n={side === "old" ? patch.old[i]! : patch.new[i]!} />
      <Sign kind={kind} />
      {/* An unchanged line stands on both sides: it is read out once. */}
      <div aria-hidden={(side === "new" && kind === 0) || undefined} className="min-w-0 flex-1">
        <Text patch={patch} index={i} find={find} current={current} />
      </div>
    </div>
  );
}

function LineNumber({ side, n }: { side: "old" | "new"; n: number }) {
  return (
    <span className={NUMBER} data-number={n > 0 ? side : undefined}>
      {n > 0 ? n : ""}
    </span>
  );
}

function Sign({ kind }: { kind: number }) {
  return (
    <span className={cx("diff-sign shrink-0 select-none", SIGN_COLOR[kind])}>
      {kind !== 0 && (
        <>
          <span aria-hidden>{SIGN[kind]}</span>
          <span className="sr-only">{WORD[kind]}</span>
        </>
      )}
    </span>
  );
}

function Text({ patch, index: i, find, current }: { patch: FilePatch; index: number; find: string; current: boolean }) {
  const [whole, setWhole] = useState(false);
  const kind = patch.kind[i]! & 3;
  const line = lineText(patch, i);
  const long = line.length > CUT && !whole;
  const carriage = line.endsWith("\r");
  const body = carriage ? line.slice(0, -1) : line;
  const text = long ? body.slice(0, CUT) : body;
  const word = kind === KIND_ADD ? "word-add" : "word-del";
  const marks = kind === KIND_ADD || kind === KIND_DEL ? changedWords(patch, i) : [];
  const parts = segments(text, tokensOf(patch, i), marks, find ? findIn(text, find) : []);
  return (
    <span className="diff-line min-w-0 flex-1 pr-3">
      {parts.map((p, k) =>
        p.cls || p.marked || p.hit >= 0 ? (
          <span
            key={k}
            className={cx(p.hit >= 0 ? "find-hit" : p.cls, p.marked && p.hit < 0 && word)}
            data-current={p.hit >= 0 && current ? true : undefined}
          >
            {p.text}
          </span>
        ) : (
          p.text
        ),
      )}
      {carriage && kind !== 0 && (
        <Remark>
          <Trans>carriage return</Trans>
        </Remark>
      )}
      {(patch.kind[i]! & NO_NEWLINE) !== 0 && (
        <Remark>
          <Trans>no line break at the end of the file</Trans>
        </Remark>
      )}
      {long && (
        <button
          type="button"
          onClick={() => setWhole(true)}
          className="ml-2 rounded-sm bg-bg3 px-1.5 font-sans text-meta text-accent"
        >
          <Trans>Show {count(line.length - CUT)} more characters</Trans>
        </button>
      )}
    </span>
  );
}

/** Describes invisible parts of a line after its end. */
function Remark({ children }: { children: ReactNode }) {
  return <span className="ml-2 rounded-sm bg-bg3 px-1 font-sans text-micro text-fg2 select-none">{children}</span>;
}
