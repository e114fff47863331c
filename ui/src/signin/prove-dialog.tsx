import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { ApiError } from "@/api/problem";
import { Button, buttonClass } from "@/kit/button";
import { Dialog, DialogBody, DialogFoot } from "@/kit/dialog";
import { Segmented, TextField } from "@/kit/field";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { confirmBy, confirmByPasskey, confirmOptions, type OwnWays, type Provider } from "./calls";
import { getPasskey, passkeysHere } from "./passkey";
import { ownWaysQuery, waysQuery } from "./queries";

type By = "password" | "code";

interface ProveProps {
  second: boolean;
  onDone: (proven: boolean) => void;
  /** Where a provider leads back to; by default here. */
  next?: string;
}

/** The dialog "Confirm your identity", before a sensitive change. */
export default function ProveDialog({ second, onDone, next }: ProveProps) {
  const own = useQuery(ownWaysQuery());
  const ways = useQuery(waysQuery());
  return (
    <Dialog
      open
      onClose={() => onDone(false)}
      title={t`Confirm your identity`}
      about={
        second
          ? t`This changes your second factor, so you must use it to confirm. You are not asked again for 15 minutes.`
          : t`This is a sensitive change. You are not asked again for 15 minutes.`
      }
    >
      {own.data && ways.data ? (
        <Ask own={own.data} providers={ways.data.providers} second={second} onDone={onDone} next={next} />
      ) : (
        <DialogBody>
          {own.isError || ways.isError ? (
            <Failure
              what={t`The ways to confirm could not be loaded.`}
              error={own.error ?? ways.error}
              retry={() => {
                void own.refetch();
                void ways.refetch();
              }}
            />
          ) : (
            <Skeleton rows={2} />
          )}
        </DialogBody>
      )}
    </Dialog>
  );
}

interface AskProps extends ProveProps {
  own: OwnWays;
  providers: Provider[];
}

function Ask({ own, providers, second, onDone, next }: AskProps) {
  const passkey = own.passkeys.length > 0 && passkeysHere() === "";
  const typed: By[] = [
    ...(own.has_password && !second ? (["password"] as const) : []),
    ...(own.totp.enabled ? (["code"] as const) : []),
  ];
  const [by, setBy] = useState<By | undefined>(typed[0]);
  const [text, setText] = useState("");
  const field = useRef<HTMLInputElement>(null);
  const send = useMutation({
    mutationFn: () => confirmBy(by === "code" ? { code: text.replace(/\s/g, "") } : { password: text }),
    onSuccess: () => onDone(true),
    onError: () => {
      setText("");
      field.current?.focus();
    },
  });
  const press = useMutation({
    mutationFn: async () => confirmByPasskey(await getPasskey(await confirmOptions())),
    onSuccess: () => onDone(true),
  });
  // The login itself ended meanwhile: the page goes to the sign-in.
  const gone = send.error instanceof ApiError && send.error.code === "signed_out";
  const linked = second ? [] : providers.filter((p) => own.identities.some((i) => i.provider === p.id));
  const here = next ?? location.pathname + location.search;

  return (
    <form
      className="contents"
      onSubmit={(e) => {
        e.preventDefault();
        e.stopPropagation(); // it may stand inside another form's tree
        if (by) send.mutate();
      }}
    >
      <DialogBody className="flex flex-col gap-3.5">
        {typed.length > 1 && (
          <div>
            <Segmented
              label={t`Confirm with`}
              value={by!}
              onChange={(v) => {
                setBy(v);
                setText("");
                send.reset();
              }}
              options={[
                ["password", t`Password`],
                ["code", t`Code`],
              ]}
            />
          </div>
        )}
        {by && (
          <TextField
            ref={field}
            key={by}
            label={by === "password" ? t`Password` : t`Code from your authenticator app, or a recovery code`}
            type={by === "password" ? "password" : "text"}
            autoComplete={by === "password" ? "current-password" : "one-time-code"}
            required
            autoFocus
            data-first
            value={text}
            onChange={(e) => setText(e.target.value)}
          />
        )}
        {!gone && <FormError error={send.error ?? press.error} />}
        {passkey && (
          <Button
            className="self-start"
            data-first={by ? undefined : true}
            busy={press.isPending && t`Waiting for your passkey`}
            onClick={() => press.mutate()}
          >
            <Trans>Use a passkey</Trans>
          </Button>
        )}
        {linked.length > 0 && (
          <div className="flex flex-col items-start gap-2">
            <p className="text-fg2">{by || passkey ? t`Or sign in again:` : t`Sign in again to confirm:`}</p>
            {linked.map((p) => (
              <a
                key={p.id}
                href={`/api/v1/login/providers/${encodeURIComponent(p.id)}?${new URLSearchParams({ next: here })}`}
                className={buttonClass("plain")}
              >
                <Trans>Continue with {p.name}</Trans>
              </a>
            ))}
          </div>
        )}
        {!by && !passkey && linked.length === 0 && (
          <p className="text-fg2">
            <Trans>
              You cannot confirm in this browser. Sign out and sign in again. For 15 minutes after that you can make the
              change.
            </Trans>
          </p>
        )}
      </DialogBody>
      <DialogFoot>
        <Button onClick={() => onDone(false)}>
          <Trans>Cancel</Trans>
        </Button>
        {by && (
          <Button type="submit" look="primary" busy={send.isPending && t`Checking`}>
            <Trans>Confirm</Trans>
          </Button>
        )}
      </DialogFoot>
    </form>
  );
}
