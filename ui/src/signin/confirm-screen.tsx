import { getRouteApi, useRouter } from "@tanstack/react-router";
import { useState } from "react";
import { Button } from "@/kit/button";
import { PlainPage } from "@/kit/pages";
import { useTitle } from "@/state/use-title";
import ProveDialog from "./prove-dialog";
import { leaveTo, safeNext } from "./words";

const route = getRouteApi("/confirm");

/** Asks who it is before a page of the server that needs to know, and goes on to it. */
export function ConfirmScreen() {
  useTitle("Confirm your identity");
  const { next, second } = route.useSearch();
  const router = useRouter();
  const [open, setOpen] = useState(true);
  const page = safeNext(next);
  return (
    <PlainPage title="Confirm your identity">
      <p className="mb-4 text-fg2">An application asks for access to your account. Confirm first that it is you.</p>
      <Button look="primary" className="self-start" onClick={() => setOpen(true)}>
        Confirm
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
