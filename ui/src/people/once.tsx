import type { ReactNode } from "react";
import { Button } from "@/kit/button";
import { CopyLine } from "@/kit/states";

/** A link that is shown once, with a button to copy it. */
export function Once({
  title,
  url,
  label,
  children,
  onDone,
}: {
  title: string;
  url: string;
  label: string;
  children?: ReactNode;
  onDone: () => void;
}) {
  return (
    <div role="status" className="rounded-md border border-merged p-3">
      <p className="mb-1 font-medium break-words">{title}</p>
      <div className="mb-2 text-fg2">Copy the link now: it is shown this once. {children}</div>
      <CopyLine text={url} label={label} />
      <Button className="mt-2" onClick={onDone}>
        Done
      </Button>
    </div>
  );
}
