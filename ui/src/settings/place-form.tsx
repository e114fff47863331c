import { t } from "@lingui/core/macro";
import { Trans } from "@lingui/react/macro";
import { useState } from "react";
import { keys } from "@/api/queries";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Mark } from "@/kit/mark";
import { SettingsForm } from "@/kit/settings/form";
import type { Entry } from "@/kit/settings/schema";
import { FormError } from "@/kit/states";
import { useAction } from "@/kit/use-action";
import { placeKeys } from "@/sandboxes/queries";
import { type Place, remoteKeys } from "@/sandboxes/remote";
import { useTeam } from "@/state/team";
import { toast } from "@/state/toasts";
import {
  fieldsOf,
  type PlaceSettings,
  type PlaceTest,
  SIZE,
  savePlace,
  sizeOf,
  testPlace,
  type Values,
  valuesOf,
} from "./instance-api";
import { SizeTable } from "./size-table";

/** The settings of one kind of place, as the server describes them, below its name; `executor` is how it does for the team. */
export function PlaceForm({ place: p, executor: x }: { place: PlaceSettings; executor: Place | undefined }) {
  const team = useTeam();
  const [test, setTest] = useState<PlaceTest | undefined>();
  const { loaded, fields } = partsOf(p, x);
  const secret = p.settings.find((s) => s.type === "secret");
  return (
    <SettingsForm
      labelledBy={`instance-${p.kind}`}
      loaded={loaded}
      fields={fields}
      save={(changed) => savePlace(p.kind, changed)}
      onSaved={(now) => {
        setTest(now.test);
        if (now.test && !now.test.ok)
          toast({ kind: "bad", title: t`Saved, but the test failed`, text: testWords(now.test).join(" ") });
      }}
      refresh={[remoteKeys.instance, keys.executors(team.slug), placeKeys.policy(team.slug)]}
      button={t`Save ${p.label}`}
      below={(name, form) =>
        p.testable &&
        name === (secret ?? p.settings[0])?.name && (
          <Try
            place={p}
            values={form.changed}
            disabled={Boolean(secret && !secret.optional && !secret.set && !form.changed[secret.name]) || form.wrong}
            result={test}
            onResult={setTest}
          />
        )
      }
    >
      <p className="text-meta text-fg3">
        {x?.not_set_up && `${testWords(x).join(" ")} `}
        <Trans>
          More about it in <code>{p.docs}</code>.
        </Trans>
      </p>
    </SettingsForm>
  );
}

/** Why something does not work, and what to do about it. */
const testWords = (t: { reason?: string; hint?: string }): string[] =>
  [sentence(t.reason ?? ""), sentence(t.hint ?? "")].filter(Boolean);

/** The values and the fields of a kind; where it says its sizes, the default one is chosen among them. */
function partsOf({ settings }: PlaceSettings, x: Place | undefined): { loaded: Values; fields: Entry<Values>[] } {
  const size = x && x.sizes.length > 0 && sizeOf(settings);
  if (!size) return { loaded: valuesOf(settings), fields: fieldsOf(settings) };
  return {
    loaded: { ...valuesOf(settings), [SIZE]: size.size },
    fields: fieldsOf(settings, {
      name: SIZE,
      label: t`Sizes`,
      type: "custom",
      locked: size.locked,
      errors: ["default_cpus", "default_memory_mb"],
      render: ({ value, set, locked }) => (
        <SizeTable sizes={x.sizes} chosen={String(value)} locked={locked} onChoose={set} />
      ),
    }),
  };
}

interface TryProps {
  place: PlaceSettings;
  values: Partial<Values>;
  disabled: boolean;
  result: PlaceTest | undefined;
  onResult: (result: PlaceTest | undefined) => void;
}

/** Tries the settings as they are typed. */
function Try({ place: p, values, disabled, result, onResult }: TryProps) {
  const test = useAction({ act: () => testPlace(p.kind, values), done: onResult });
  return (
    <div className="mt-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
        <Button
          disabled={disabled}
          busy={test.busy && t`Testing`}
          title={t`Checks the settings with ${p.label}. Starts nothing`}
          onClick={() => void test.run()}
        >
          <Trans>Test</Trans>
        </Button>
        <span role="status" className="min-w-0">
          {result && <Result of={result} />}
        </span>
      </div>
      <FormError error={test.error} />
    </div>
  );
}

function Result({ of: r }: { of: PlaceTest }) {
  if (r.ok)
    return <Mark kind="done" word={r.account ? t`Works: ${r.account}` : t`Works`} className="whitespace-normal" />;
  const [reason = "", cure] = testWords(r);
  return (
    <>
      <Mark kind="failed" word={reason} className="whitespace-normal" />
      {cure && <span className="block text-meta text-fg2">{cure}</span>}
    </>
  );
}
