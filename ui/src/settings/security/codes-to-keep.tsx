import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useEffect, useRef, useState } from "react";
import { createPortal } from "react-dom";
import { exact } from "@/format/time";
import { Button } from "@/kit/button";
import { copyText } from "@/kit/states";
import { codesFile } from "@/signin/words";

/** Recovery codes, shown this once: to copy, download or print. */
export function CodesToKeep({ codes, email, onDone }: { codes: string[]; email: string; onDone: () => void }) {
  const [printing, setPrinting] = useState(false);
  const head = useRef<HTMLHeadingElement>(null);
  const text = codesFile(codes, email, location.host, exact(Date.now()));

  useEffect(() => head.current?.focus(), []);
  useEffect(() => {
    if (!printing) return;
    const end = () => setPrinting(false);
    addEventListener("afterprint", end);
    print();
    return () => removeEventListener("afterprint", end);
  }, [printing]);

  const download = () => {
    const url = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
    const a = document.createElement("a");
    a.href = url;
    a.download = "parawork-recovery-codes.txt";
    a.click();
    URL.revokeObjectURL(url);
  };

  return (
    <div className="rounded-md border border-merged bg-bg1 p-4">
      <h3 ref={head} tabIndex={-1} className="font-medium outline-none">
        <Trans>Save these recovery codes</Trans>
      </h3>
      <p className="mt-0.5 text-fg2">
        <Trans>
          Use them if you lose your phone or passkey. Each works once, after your password. They are not shown again:
          store them with your passwords.
        </Trans>
      </p>
      <ul aria-label={t`Recovery codes`} className="my-3 grid max-w-md grid-cols-2 gap-x-6 gap-y-1 font-mono text-body">
        {codes.map((c) => (
          <li key={c} className="select-all">
            {c}
          </li>
        ))}
      </ul>
      <div className="flex flex-wrap gap-2">
        <Button onClick={() => void copyText(codes.join("\n"), t`the recovery codes`)}>
          <Trans>Copy</Trans>
        </Button>
        <Button onClick={download}>
          <Trans>Download</Trans>
        </Button>
        <Button onClick={() => setPrinting(true)}>
          <Trans>Print</Trans>
        </Button>
        <Button look="primary" className="sm:ml-auto" onClick={onDone}>
          <Trans>I have saved them</Trans>
        </Button>
      </div>
      {printing && createPortal(<pre className="print-only">{text}</pre>, document.body)}
    </div>
  );
}
