import { plural, t } from "@lingui/core/macro";
import { bytes, count } from "@/format/text";
import { confirm } from "@/state/confirm";
import { look, setLook } from "@/state/look";
import { toast } from "@/state/toasts";
import { input } from "./codec";
import type { TerminalLink } from "./link";
import { PASTE_MAX, pieces, planPaste } from "./paste";

/** Pieces wait while this much is still on its way. */
const BUFFERED = 256 * 1024;

/** Pastes text into a session, after asking where that is needed. Calls done when the terminal should have the focus again. */
export async function pasteInto(link: TerminalLink, text: string, bracketed: boolean, done: () => void): Promise<void> {
  const plan = planPaste(text, bracketed);
  if (plan.tooLarge) {
    toast({
      kind: "bad",
      title: t`Too much to paste`,
      text: t`${bytes(plan.bytes.length)}. The limit for a paste is ${bytes(PASTE_MAX)}. Put the text in a file in the workspace instead.`,
    });
    return;
  }
  if (plan.ask) {
    const yes = await confirm({
      title:
        plan.ask === "lines"
          ? t`Paste ${plural(plan.lines, { one: "# line", other: "# lines" })}?`
          : t`Paste control characters?`,
      body:
        plan.ask === "lines"
          ? t`The program treats each line as if you pressed Enter after it.`
          : "The text contains characters that act like keys, such as Ctrl+C.",
      action: t`Paste`,
    });
    done();
    if (!yes) return;
  }
  for (const piece of pieces(plan.bytes)) {
    while (link.buffered > BUFFERED) await new Promise((r) => setTimeout(r, 20));
    if (!link.send(input(piece))) {
      toast({ kind: "bad", title: t`The paste was cut off`, text: t`The connection was lost during the paste.` });
      return;
    }
  }
}

/** A program asked to put text on the clipboard. Only the terminal the user is typing in may do so, and the user is always notified. */
export function copyFromProgram(text: string, focused: boolean): void {
  if (look.get().clipboard === "block" || !focused || document.visibilityState !== "visible") return;
  navigator.clipboard
    ?.writeText(text)
    .then(() =>
      toast({
        title: t`The program copied ${count(text.length)} characters`,
        lasts: 6000,
        actions: [{ label: t`Never allow this`, run: () => setLook({ clipboard: "block" }) }],
      }),
    )
    .catch(() => {});
}
