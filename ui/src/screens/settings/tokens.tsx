import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { api, data, type Schemas } from "@/api/client";
import { fieldError } from "@/api/problem";
import { keys, tokensQuery } from "@/api/queries";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { Button } from "@/kit/button";
import { Field, inputClass, TextField } from "@/kit/field";
import { CopyLine, Failure, FormError, Skeleton } from "@/kit/states";
import { confirm } from "@/state/confirm";
import { toastError } from "@/state/toasts";

const DAY = 86_400_000;

/** Tokens for scripts: made here, shown once, ended here. */
export default function TokensSettings() {
  const client = useQueryClient();
  const list = useQuery(tokensQuery());
  const [name, setName] = useState("");
  const [days, setDays] = useState("90");
  const [made, setMade] = useState<Schemas["CreatedToken"] | undefined>();
  const create = useMutation({
    mutationFn: () =>
      data(
        api.POST("/me/tokens", {
          body: { name: name.trim(), expires_at: days === "0" ? null : Date.now() + Number(days) * DAY },
        }),
      ),
    onSuccess: (t) => {
      setMade(t);
      setName("");
      void client.invalidateQueries({ queryKey: keys.tokens });
    },
  });
  return (
    <div className="flex flex-col gap-5">
      <p className="text-fg2">
        A token lets a script act as you:{" "}
        <code className="rounded-sm bg-bg3 px-1">Authorization: Bearer pw_user_…</code>.{" "}
        <a href="/api/docs" target="_blank" rel="noreferrer" className="text-accent underline">
          API documentation
        </a>
      </p>
      {made && (
        <div role="status" className="rounded-md border border-merged p-3">
          <p className="mb-2 font-medium">{made.token.name}: copy it now, it is shown this once.</p>
          <CopyLine text={made.value} label="the token" />
          <Button className="mt-2" onClick={() => setMade(undefined)}>
            Done
          </Button>
        </div>
      )}
      <form
        className="flex flex-wrap items-start gap-3"
        onSubmit={(e) => {
          e.preventDefault();
          create.mutate();
        }}
      >
        <TextField
          fieldClass="min-w-48 flex-1"
          label="What it is for"
          required
          maxLength={100}
          placeholder="Nightly build"
          value={name}
          error={fieldError(create.error, "name")}
          onChange={(e) => setName(e.target.value)}
        />
        <Field label="Ends" className="w-36">
          {(ids) => (
            <select {...ids} value={days} onChange={(e) => setDays(e.target.value)} className={inputClass}>
              <option value="7">in 7 days</option>
              <option value="30">in 30 days</option>
              <option value="90">in 90 days</option>
              <option value="365">in a year</option>
              <option value="0">never</option>
            </select>
          )}
        </Field>
        <Button type="submit" look="primary" className="mt-6" busy={create.isPending && "Making"}>
          Make a token
        </Button>
        <div className="w-full empty:hidden">
          <FormError error={create.error && !fieldError(create.error, "name") ? create.error : null} />
        </div>
      </form>
      {list.isPending ? (
        <Skeleton rows={3} label="Loading your tokens" />
      ) : list.isError && !list.data ? (
        <Failure what="Your tokens could not be loaded." error={list.error} retry={() => void list.refetch()} />
      ) : list.data.length === 0 ? (
        <p className="text-fg3">No tokens yet.</p>
      ) : (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {list.data.map((t) => (
            <TokenRow key={t.id} token={t} />
          ))}
        </ul>
      )}
    </div>
  );
}

function TokenRow({ token: t }: { token: Schemas["Token"] }) {
  const client = useQueryClient();
  const now = useNow();
  const end = useMutation({
    mutationFn: () => api.DELETE("/me/tokens/{id}", { params: { path: { id: t.id } } }),
    onSuccess: () => client.invalidateQueries({ queryKey: keys.tokens }),
    onError: (error) => toastError("The token was not ended", error),
  });
  const ask = async () => {
    if (
      await confirm({
        title: `End the token ${t.name}?`,
        body: "What uses it stops working at once.",
        action: "End it",
        danger: true,
      })
    )
      end.mutate();
  };
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">{t.name}</p>
        <p className="text-meta text-fg3">
          <span title={exact(t.created_at)}>made {ago(t.created_at, now)}</span> ·{" "}
          {t.last_used_at ? <span title={exact(t.last_used_at)}>used {ago(t.last_used_at, now)}</span> : "never used"} ·{" "}
          {t.expires_at ? (
            t.expires_at < now ? (
              <span className="text-failed">ended</span>
            ) : (
              <span title={exact(t.expires_at)}>
                ends {new Intl.DateTimeFormat(undefined, { dateStyle: "medium" }).format(t.expires_at)}
              </span>
            )
          ) : (
            "never ends"
          )}
        </p>
      </div>
      <Button busy={end.isPending} onClick={() => void ask()} aria-label={`End the token ${t.name}`}>
        End
      </Button>
    </li>
  );
}
