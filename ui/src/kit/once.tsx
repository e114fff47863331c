import { Trans } from "@lingui/react/macro";
import { type ReactNode, useEffect, useRef } from "react";
import { Button } from "./button";
import { CopyLine } from "./states";

interface Props {
  title?: string;
  text: string;
  /** What it is: "the link". */
  label: string;
  children?: ReactNode;
  onDone: () => void;
}

/** A link, key or token that is shown once, with a copy button. It takes the focus, because its trigger is often gone. */
export function Once({ title, text, label, children, onDone }: Props) {
  const ref = useRef<HTMLDivElement>(null);
  useEffect(() => ref.current?.focus(), []);
  return (
    <div ref={ref} role="status" tabIndex={-1} className="rounded-md border border-merged p-3">
      {title && <p className="mb-1 font-medium break-words">{title}</p>}
      <div className="mb-2 text-fg2">
        <Trans>Copy {label} now. It is not shown again.</Trans> {children}
      </div>
      <CopyLine text={text} label={label} />
      <Button className="mt-2" onClick={onDone}>
        <Trans>Done</Trans>
      </Button>
    </div>
  );
}
