import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/kit/button";
import { PlainPage } from "@/kit/pages";
import { useTitle } from "@/state/use-title";
import { leaveTo, safeNext } from "./next";
import ProveDialog from "./prove-dialog";

const route = getRouteApi("/confirm");

/** Asks who it is before a page of the server that needs to know, and goes on to it. */
export function ConfirmScreen() {
  useTitle(t`Confirm your identity`);
  const { next, second } = route.useSearch();
  const router = useRouter();
  const [open, setOpen] = useState(true);
  const page = safeNext(next);
  return (
    <PlainPage title={t`Confirm your identity`}>
      <p className="mb-4 text-fg2">
        <Trans>An application asks for access to your account. Confirm first that it is you.</Trans>
      </p>
      <Button look="primary" className="self-start" onClick={() => setOpen(true)}>
        <Trans>Confirm</Trans>
      </Button>
      {open && (
        <ProveDialog
          second={second === "1"}
          next={page}
          onDone={(proven) => {
            setOpen(false);
            if (proven) leaveTo(page, (p) => router.history.push(p));
          }}
        />
      )}
    </PlainPage>
  );
}
