import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { useAction } from "@/keys/keyboard";
import { cx } from "@/kit/cx";
import { inputClass } from "@/kit/field";

interface Props {
  value: string;
  onChange: (words: string) => void;
  everywhere: boolean;
  /** Not given where there is one session only. */
  onEverywhere: ((on: boolean) => void) | undefined;
}

/** Search words, reported a moment after the last key. */
export function SearchField({ value, onChange, everywhere, onEverywhere }: Props) {
  const [text, setText] = useState(value);
  const field = useRef<HTMLInputElement>(null);
  useAction("conversation.find", () => {
    field.current?.focus();
    field.current?.select();
  });
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return;
    const t = setTimeout(() => onChange(text), 250);
    return () => clearTimeout(t);
  }, [text, value, onChange]);
  return (
    <search className="flex min-w-0 flex-1 items-center gap-2 max-md:order-last max-md:basis-full">
      <input
        ref={field}
        type="search"
        aria-label={t`Search the conversation`}
        placeholder={t`Search`}
        maxLength={200}
        value={text}
        onChange={(e) => setText(e.target.value)}
        onKeyDown={(e) => {
          if (e.key === "Enter") onChange(text);
          if (e.key !== "Escape") return;
          onChange("");
          setText("");
          field.current?.blur();
        }}
        className={cx(inputClass, "md:max-w-60")}
      />
      {onEverywhere && (
        <label className="flex min-h-6 items-center gap-1.5 text-meta whitespace-nowrap text-fg2 pointer-coarse:min-h-11">
          <input type="checkbox" checked={everywhere} onChange={(e) => onEverywhere(e.target.checked)} />
          <Trans>All sessions</Trans>
        </label>
      )}
    </search>
  );
}
