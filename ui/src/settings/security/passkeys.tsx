import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { fieldError } from "@/api/problem";
import { keys } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";
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
import { confirm } from "@/state/confirm";
import { toast, toastError } from "@/state/toasts";
import { Part } from "./part";

export function Passkeys({ own, ways }: { own: OwnWays; ways: Ways }) {
  const client = useQueryClient();
  const add = useMutation({
    mutationFn: async () => {
      const credential = await makePasskey(await newPasskeyOptions());
      return addPasskey(deviceName(navigator.userAgent), credential);
    },
    onSuccess: (made) => {
      void client.invalidateQueries({ queryKey: keys.me });
      toast({ kind: "good", title: `Passkey ${made.name} added` });
    },
  });
  // Where the address is to blame the server says that there are none, too: the cure is told then.
  const why = passkeysHere();
  if (!ways.passkeys && !why && own.passkeys.length === 0) return null;
  return (
    <Part
      title="Passkeys"
      about="A fingerprint, face, device lock or security key. It signs you in by itself, and counts as both steps."
    >
      {own.passkeys.length > 0 && (
        <ul aria-label="Your passkeys" className="mb-3 divide-y divide-hairline border-y border-hairline">
          {own.passkeys.map((k) => (
            <Row key={k.id} passkey={k} />
          ))}
        </ul>
      )}
      {why ? (
        <p className="text-fg3">{noPasskeysWords(why)}</p>
      ) : !ways.passkeys ? (
        <p className="text-fg3">This server takes no passkeys at this address.</p>
      ) : (
        <Button busy={add.isPending && "Waiting for your device"} onClick={() => add.mutate()}>
          Add a passkey
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
  const remove = useMutation({
    mutationFn: () => removePasskey(k.id),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.me }),
    onError: (error) => toastError("The passkey was not removed", error),
  });
  const ask = async () => {
    const yes = await confirm({
      title: `Remove the passkey ${k.name}?`,
      body: "It signs you in no more. The device may go on offering it: delete it there, too.",
      action: "Remove",
      danger: true,
    });
    if (yes) remove.mutate();
  };
  if (naming)
    return (
      <li className="py-2">
        <Rename passkey={k} onClose={() => setNaming(false)} />
      </li>
    );
  return (
    <li className="flex flex-wrap items-center gap-x-3 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">{k.name}</p>
        <p className="text-meta text-fg3">
          <span title={exact(k.created_at)}>added {ago(k.created_at, now)}</span> ·{" "}
          {k.last_used_at ? <span title={exact(k.last_used_at)}>used {ago(k.last_used_at, now)}</span> : "never used"}
        </p>
      </div>
      <Button look="quiet" onClick={() => setNaming(true)} aria-label={`Rename the passkey ${k.name}`}>
        Rename
      </Button>
      <Button busy={remove.isPending} onClick={() => void ask()} aria-label={`Remove the passkey ${k.name}`}>
        Remove
      </Button>
    </li>
  );
}

function Rename({ passkey: k, onClose }: { passkey: Passkey; onClose: () => void }) {
  const client = useQueryClient();
  const [name, setName] = useState(k.name);
  const save = useMutation({
    mutationFn: () => renamePasskey(k.id, name.trim()),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: ownWaysKey });
      onClose();
    },
  });
  return (
    <form
      className="flex flex-wrap items-start gap-2"
      onSubmit={(e) => {
        e.preventDefault();
        save.mutate();
      }}
    >
      <TextField
        fieldClass="min-w-48 flex-1"
        label="Name of the passkey"
        required
        maxLength={100}
        autoFocus
        value={name}
        error={fieldError(save.error, "name") ?? save.error?.message}
        onChange={(e) => setName(e.target.value)}
      />
      <Button type="submit" className="mt-6" busy={save.isPending && "Saving"} disabled={!name.trim()}>
        Save
      </Button>
      <Button className="mt-6" onClick={onClose}>
        Cancel
      </Button>
    </form>
  );
}
