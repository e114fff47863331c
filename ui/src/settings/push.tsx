import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { useNow } from "@/format/now";
import { ago, exact } from "@/format/time";
import { canPush, keptId, subscribe, unsubscribe } from "@/inbox/notify/push";
import { Button } from "@/kit/button";
import { Segmented } from "@/kit/field";
import { Failure, Skeleton } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { toast, toastError } from "@/state/toasts";

type Settings = Schemas["NotificationSettings"];
type Kind = Schemas["NotifyKind"];
type Scope = Schemas["NotifyScope"];

const KEY = ["me", "notifications"] as const;

const KINDS: [Kind, string][] = [
  ["question", t`An agent needs me`],
  ["failed", t`An agent failed`],
  ["stuck", t`An agent is stuck`],
  ["budget", t`Time or money runs out`],
  ["review", t`An agent has worked on my review`],
  ["finished", t`An agent has finished`],
];

/** Notifications that your browsers get through their push services, also while Parawork is closed. */
export function Push() {
  const client = useQueryClient();
  const settings = useQuery({ queryKey: KEY, queryFn: () => data(api.GET("/me/notifications")) });
  const change = useMutation({
    mutationFn: (rules: Schemas["NotificationRules"]) => data(api.PUT("/me/notifications", { body: rules })),
    onMutate: (rules) => {
      const old = client.getQueryData<Settings>(KEY);
      if (old) client.setQueryData(KEY, { ...old, rules: { ...old.rules, ...rules } });
      return old;
    },
    onError: (error, _rules, old) => {
      client.setQueryData(KEY, old);
      toastError(t`The rule was not changed`, error);
    },
  });
  return (
    <section aria-labelledby="notify-push" className="flex flex-col gap-4">
      <div>
        <h2 id="notify-push" className="text-title font-semibold">
          <Trans>When Parawork is closed</Trans>
        </h2>
        <p className="text-fg2">
          <Trans>
            Messages through your browsers’ push services, on desktop and phone. They are encrypted: only your browser
            can read them.
          </Trans>
        </p>
      </div>
      {settings.isPending ? (
        <Skeleton rows={4} label={t`Loading`} />
      ) : settings.isError && !settings.data ? (
        <Failure
          what={t`The rules could not be loaded.`}
          error={settings.error}
          retry={() => void settings.refetch()}
        />
      ) : (
        <>
          <Browsers settings={settings.data} />
          <ul className="divide-y divide-hairline border-y border-hairline">
            {KINDS.map(([kind, name]) => (
              <li key={kind} className="flex flex-wrap items-center gap-x-4 gap-y-2 py-2.5">
                <span className="min-w-0 flex-1 basis-56 font-medium">{name}</span>
                <Segmented<Scope>
                  label={t`Push: ${name}`}
                  value={settings.data.rules[kind] ?? "off"}
                  onChange={(scope) => change.mutate({ [kind]: scope })}
                  options={[
                    ["off", t`Off`],
                    ["mine", t`My work`],
                    ["all", "Everybody’s"],
                  ]}
                />
              </li>
            ))}
          </ul>
          <p className="text-meta text-fg3">
            <Trans>My work is what you started. These rules apply in all your browsers.</Trans>
          </p>
        </>
      )}
    </section>
  );
}

function Browsers({ settings }: { settings: Settings }) {
  const here = settings.browsers.find((b) => b.id === keptId());
  const add = useAction({
    act: () => subscribe(settings.push_key),
    done: t`This browser gets notifications`,
    refresh: [KEY],
    failed: t`This browser was not added`,
  });
  return (
    <div className="flex flex-col gap-2">
      {settings.browsers.length > 0 && (
        <ul className="divide-y divide-hairline border-y border-hairline">
          {settings.browsers.map((b) => (
            <BrowserRow key={b.id} browser={b} mine={b.id === here?.id} />
          ))}
        </ul>
      )}
      {!here &&
        (canPush() ? (
          <Button look="primary" className="self-start" busy={add.busy && t`Adding`} onClick={() => void add.run()}>
            <Trans>Notify this browser</Trans>
          </Button>
        ) : (
          <p className="text-fg2">
            <Trans>
              This browser cannot get push messages: push needs HTTPS, or Parawork on this computer. On an iPhone, add
              Parawork to the home screen first.
            </Trans>
          </p>
        ))}
    </div>
  );
}

function BrowserRow({ browser: b, mine }: { browser: Schemas["PushSubscription"]; mine: boolean }) {
  const now = useNow();
  const name = b.label || t`A browser`;
  const test = useAction({
    act: () => api.POST("/me/push-subscriptions/{id}/test", { params: { path: { id: b.id } } }),
    refresh: [KEY],
    done: () => void toast({ kind: "good", title: t`Sent`, text: t`It should appear in a moment.` }),
    failed: t`The message was not taken`,
  });
  const remove = useAction({ act: () => unsubscribe(b.id), refresh: [KEY], failed: t`${name} was not removed` });
  return (
    <li className="flex flex-wrap items-center gap-x-4 gap-y-1 py-2">
      <div className="min-w-0 flex-1 basis-48">
        <p className="truncate font-medium">
          {name}
          {mine && (
            <span className="font-normal text-fg3">
              {" "}
              <Trans>(this one)</Trans>
            </span>
          )}
        </p>
        <p className="text-meta text-fg3">
          <span title={exact(b.created_at)}>
            <Trans>added {ago(b.created_at, now)}</Trans>
          </span>
          {b.used_at ? (
            <span title={exact(b.used_at)}>
              {" "}
              <Trans>· last notified {ago(b.used_at, now)}</Trans>
            </span>
          ) : (
            t` · not notified yet`
          )}
        </p>
      </div>
      <Button busy={test.busy && t`Sending`} onClick={() => void test.run()} aria-label={t`Send a test to ${name}`}>
        <Trans>Test</Trans>
      </Button>
      <Button busy={remove.busy} onClick={() => void remove.run()} aria-label={t`Remove ${name}`}>
        <Trans>Remove</Trans>
      </Button>
    </li>
  );
}
