import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { type ReactNode, useEffect, useRef, useState } from "react";
import { useAction } from "@/keys/keyboard";
import { Button } from "@/kit/button";
import { FormError } from "@/kit/states";

interface Props {
  label: string;
  text: string;
  onText: (text: string) => void;
  action: string;
  busy: boolean;
  error: unknown;
  onDone: () => void;
  onCancel: () => void;
  children?: ReactNode;
  autoFocus?: boolean;
}

/** Where a comment is written: the key of comment.add adds it, Escape leaves it. */
export function Box({ label, text, onText, action, busy, error, onDone, onCancel, children, autoFocus }: Props) {
  const field = useRef<HTMLTextAreaElement>(null);
  const [first] = useState(autoFocus);
  useEffect(() => {
    if (first) field.current?.focus({ preventScroll: true });
  }, [first]);
  const [writing, setWriting] = useState(false);
  const go = () => {
    if (text.trim() && !busy) onDone();
  };
  useAction("comment.add", go, writing);
  return (
    <form
      className="flex flex-col gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        go();
      }}
      onFocus={() => setWriting(true)}
      onBlur={() => setWriting(false)}
    >
      {children}
      <textarea
        ref={field}
        aria-label={label}
        placeholder={t`What should change, and why?`}
        value={text}
        rows={2}
        maxLength={16_000}
        onChange={(e) => onText(e.target.value)}
        onKeyDown={(e) => {
          if (!e.ctrlKey && !e.metaKey) e.stopPropagation(); // the diff's own keys
          if (e.key === "Escape" && !e.nativeEvent.isComposing) {
            e.preventDefault();
            onCancel();
          }
        }}
        className="field-sizing-content max-h-[40vh] min-h-14 w-full resize-none rounded-md border border-control bg-bg1 px-2.5 py-1.5 font-sans text-body leading-5 pointer-coarse:text-touch"
      />
      {error ? <FormError error={error} /> : null}
      <div className="flex flex-wrap justify-end gap-2">
        <Button look="quiet" onClick={onCancel}>
          <Trans>Cancel</Trans>
        </Button>
        <Button type="submit" look="primary" disabled={!text.trim()} busy={busy && t`Saving`} title="Ctrl+Enter">
          {action}
        </Button>
      </div>
    </form>
  );
}
