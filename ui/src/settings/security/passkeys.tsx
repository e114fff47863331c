import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { SettingsForm } from "@/kit/settings/form";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import {
  addPasskey,
  newPasskeyOptions,
  type OwnWays,
  type Passkey,
  removePasskey,
  renamePasskey,
  type Ways,
} from "@/signin/calls";
import { makePasskey, noPasskeysWords, passkeysHere } from "@/signin/passkey";
import { ownWaysKey } from "@/signin/queries";
import { deviceName } from "@/signin/words";
import { toast } from "@/state/toasts";
import { Part } from "./part";

export function Passkeys({ own, ways }: { own: OwnWays; ways: Ways }) {
  const add = useAction({
    act: async () => {
      const credential = await makePasskey(await newPasskeyOptions());
      return addPasskey(deviceName(navigator.userAgent), credential);
    },
    refresh: [keys.me],
    done: (made) => void toast({ kind: "good", title: t`Passkey ${made.name} added` }),
  });
  // Where the address is to blame the server says that there are none, too: that explains what to do.
  const why = passkeysHere();
  if (!ways.passkeys && !why && own.passkeys.length === 0) return null;
  return (
    <Part
      title={t`Passkeys`}
      about={t`A fingerprint, face, device lock or security key. It signs you in without a password and counts as both factors.`}
    >
      {own.passkeys.length > 0 && (
        <ul aria-label={t`Your passkeys`} className="mb-3 divide-y divide-hairline border-y border-hairline">
          {own.passkeys.map((k) => (
            <Row key={k.id} passkey={k} />
          ))}
        </ul>
      )}
      {why ? (
        <p className="text-fg3">{noPasskeysWords(why)}</p>
      ) : !ways.passkeys ? (
        <p className="text-fg3">
          <Trans>This server does not accept passkeys at this address.</Trans>
        </p>
      ) : (
        <Button busy={add.busy && t`Waiting for your device`} onClick={() => void add.run()}>
          <Trans>Add a passkey</Trans>
        </Button>
      )}
      <div className="mt-2 empty:hidden">
        <FormError error={add.error} />
      </div>
    </Part>
  );
}

function Row({ passkey: k }: { passkey: Passkey }) {
  const client = useQueryClient();
  const now = useNow();
  const [naming, setNaming] = useState(false);
  const remove = useAction({
    act: () => removePasskey(k.id),
    confirm: {
      title: t`Remove the passkey ${k.name}?`,
      body: t`You can no longer sign in with it. Your device may still offer it: delete it there as well.`,
      action: t`Remove`,
      danger: true,
    },
    refresh: [keys.me],
    failed: t`The passkey was not removed`,
  });
  if (naming)
    return (
      <li className="py-2">
        <SettingsForm
          inline
          create
          look="plain"
          loaded={{ name: k.name }}
          fields={[
            {
              name: "name",
              label: t`Passkey name`,
              type: "text",
              className: "min-w-48 flex-1",
              input: { required: true, maxLength: 100, autoFocus: true },
            },
          ]}
          save={(_, { name }) => renamePasskey(k.id, name)}
          onSaved={async () => {
            await client.invalidateQueries({ queryKey: ownWaysKey });
            setNaming(false);
          }}
          button={t`Save`}
          cancel={() => setNaming(false)}
        />
      </li>
    );
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">{k.name}</p>
        <p className="text-meta text-fg3">
          <span title={exact(k.created_at)}>
            <Trans>added {ago(k.created_at, now)}</Trans>
          </span>{" "}
          ·{" "}
          {k.last_used_at ? (
            <span title={exact(k.last_used_at)}>
              <Trans>used {ago(k.last_used_at, now)}</Trans>
            </span>
          ) : (
            t`never used`
          )}
        </p>
      </div>
      <Button look="quiet" onClick={() => setNaming(true)} aria-label={t`Rename the passkey ${k.name}`}>
        <Trans>Rename</Trans>
      </Button>
      <Button busy={remove.busy} onClick={() => void remove.run()} aria-label={t`Remove the passkey ${k.name}`}>
        <Trans>Remove</Trans>
      </Button>
    </li>
  );
}
