import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas, type Workspace } from "@/api/client";
import { keys } from "@/api/queries";
import { Button } from "@/kit/button";
import { Dialog } from "@/kit/dialog";
import { TextField } from "@/kit/field";
import { FormError } from "@/kit/states";

interface Props {
  workspace: Workspace;
  snapshot: Schemas["WorkspaceSnapshot"];
  onClose: () => void;
}

/** Gives a snapshot a name. */
export default function Rename({ workspace: w, snapshot: s, onClose }: Props) {
  const [title, setTitle] = useState(s.title);
  const client = useQueryClient();
  const save = useMutation({
    mutationFn: () => data(api.PATCH("/snapshots/{id}", { params: { path: { id: s.id } }, body: { title } })),
    onSuccess: () => {
      void client.invalidateQueries({ queryKey: keys.timeline(w.id) });
      onClose();
    },
  });
  return (
    <Dialog open onClose={onClose} title={t`Name the snapshot`}>
      <form
        className="flex flex-col gap-3 p-4 md:p-5"
        onSubmit={(e) => {
          e.preventDefault();
          save.mutate();
        }}
      >
        <TextField label={t`Name`} value={title} maxLength={200} onChange={(e) => setTitle(e.target.value)} />
        <FormError error={save.error} />
        <div className="flex justify-end">
          <Button type="submit" look="primary" busy={save.isPending && t`Saving`}>
            <Trans>Save</Trans>
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
