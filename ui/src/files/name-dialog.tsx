import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { Button } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { TextField } from "@/kit/field";

export interface Naming {
  title: string;
  about?: string;
  action: string;
  start: string;
  onName: (path: string) => void;
}

/** Asks for a path in the workspace. */
export default function NameDialog({ naming, onClose }: { naming: Naming; onClose: () => void }) {
  const [path, setPath] = useState(naming.start);
  const clean = path.trim().replace(/^\/+|\/+$/g, "");
  const wrong = clean.split("/").some((p) => p === "." || p === "..")
    ? t`The path must stay in the workspace: no . or .. parts.`
    : /(^|\/)\.git(\/|$)/i.test(clean)
      ? t`Files of .git cannot be changed here.`
      : undefined;
  const ready = clean !== "" && clean !== naming.start && !wrong;
  return (
    <Dialog open onClose={onClose} title={naming.title} about={naming.about}>
      <form
        className="contents"
        onSubmit={(e) => {
          e.preventDefault();
          if (!ready) return;
          onClose();
          naming.onName(clean);
        }}
      >
        <DialogBody>
          <TextField
            label={t`Path in the workspace`}
            className="font-mono"
            spellCheck={false}
            autoComplete="off"
            value={path}
            error={wrong}
            onFocus={(e) => {
              const name = naming.start.lastIndexOf("/") + 1;
              const dot = naming.start.lastIndexOf(".");
              e.target.setSelectionRange(name, dot > name ? dot : naming.start.length);
            }}
            onChange={(e) => setPath(e.target.value)}
          />
        </DialogBody>
        <DialogFoot>
          <Button onClick={onClose}>
            <Trans>Cancel</Trans>
          </Button>
          <Button look="primary" type="submit" disabled={!ready}>
            {naming.action}
          </Button>
        </DialogFoot>
      </form>
    </Dialog>
  );
}
