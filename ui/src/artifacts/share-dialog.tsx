import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { plural } from "@/format/text";
import { duration, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Dialog, DialogBody } from "@/kit/dialog";
import { Field, inputClass, TextField } from "@/kit/field";
import { Once } from "@/kit/once";
import { Failure, FormError, Skeleton } from "@/kit/states";
import { toastError } from "@/state/toasts";

/** Creates and revokes links with which somebody without a login downloads an artifact. */
export default function ShareDialog({ artifact: a, onClose }: { artifact: Schemas["Artifact"]; onClose: () => void }) {
  const client = useQueryClient();
  const now = useNow(10_000);
  const key = ["artifact", a.id, "links"];
  const list = useQuery({
    queryKey: key,
    queryFn: () => data(api.GET("/artifacts/{id}/links", { params: { path: { id: a.id } } })),
  });
  const [name, setName] = useState("");
  const [minutes, setMinutes] = useState("1440");
  const [made, setMade] = useState<string>();
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/artifacts/{id}/links", {
          params: { path: { id: a.id } },
          body: { name: name.trim(), minutes: Number(minutes) },
        }),
      ),
    onSuccess: (link) => {
      setMade(link.url);
      setName("");
      void client.invalidateQueries({ queryKey: key });
    },
  });
  const revoke = useMutation({
    mutationFn: (id: string) => api.DELETE("/artifact-links/{id}", { params: { path: { id } } }),
    onSuccess: () => client.invalidateQueries({ queryKey: key }),
    onError: (error) => toastError("The link was not revoked", error),
  });
  return (
    <Dialog
      open
      onClose={onClose}
      title="Share the artifact"
      about={`${a.name}, version ${a.version}. Anyone with the link can download it without signing in, and sees nothing else.`}
    >
      <DialogBody className="flex flex-col gap-4 pb-5">
        {made ? (
          <Once text={made} label="the link" onDone={() => setMade(undefined)} />
        ) : (
          <form
            className="flex flex-wrap items-start gap-3"
            onSubmit={(e) => {
              e.preventDefault();
              create.mutate();
            }}
          >
            <TextField
              fieldClass="min-w-40 flex-1"
              label="Name"
              maxLength={80}
              value={name}
              onChange={(e) => setName(e.target.value)}
            />
            <Field label="Expires" className="w-32">
              {(ids) => (
                <select {...ids} value={minutes} onChange={(e) => setMinutes(e.target.value)} className={inputClass}>
                  <option value="60">in an hour</option>
                  <option value="1440">in a day</option>
                  <option value="10080">in 7 days</option>
                  <option value="43200">in 30 days</option>
                </select>
              )}
            </Field>
            <Button type="submit" look="primary" className="mt-6" busy={create.isPending && "Creating"}>
              Create link
            </Button>
            <div className="w-full empty:hidden">
              <FormError error={create.error} />
            </div>
          </form>
        )}
        {list.isPending ? (
          <Skeleton rows={2} label="Loading the links" />
        ) : list.isError && !list.data ? (
          <Failure what="The links could not be loaded." error={list.error} retry={() => void list.refetch()} />
        ) : list.data.items.length === 0 ? (
          <p className="text-fg3">No links to this artifact.</p>
        ) : (
          <ul aria-label="Links to this artifact" className="divide-y divide-hairline border-y border-hairline">
            {list.data.items.map((l) => (
              <li key={l.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
                <div className="min-w-0 flex-1 basis-48">
                  <p className="font-medium break-words">{l.name || "Unnamed"}</p>
                  <p className="text-meta text-fg3">
                    by {l.created_by.name} ·{" "}
                    <span title={exact(l.expires_at)}>ends in {duration(Math.max(l.expires_at - now, 0))}</span> ·
                    opened {plural(l.uses, "time")}
                  </p>
                </div>
                <Button
                  busy={revoke.isPending && revoke.variables === l.id && "Revoking"}
                  onClick={() => revoke.mutate(l.id)}
                  aria-label={`Revoke the link: ${l.name || "Unnamed"}`}
                >
                  Revoke
                </Button>
              </li>
            ))}
          </ul>
        )}
      </DialogBody>
    </Dialog>
  );
}
