import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { sentence } from "@/format/text";
import { Button } from "@/kit/button";
import { Check, TextField } from "@/kit/field";
import { Mark } from "@/kit/mark";
import { FormError } from "@/kit/states";
import type { Place } from "@/sandboxes/remote";
import { amount, type PlaceTest, testE2B, wrongNumber } from "./instance-api";
import { errorOf, Lock, Locked, PartError, type PartProps, sent } from "./instance-parts";
import { SizeTable } from "./size-table";

/** E2B: its key, its sizes, how long a sandbox stays awake, what happens when it cannot serve. */
export function E2B({ settings, place, save }: PartProps & { place: Place | undefined }) {
  const s = settings.e2b;
  const [key, setKey] = useState("");
  const [text, setText] = useState({
    domain: s.domain.value,
    api_url: s.api_url.value,
    sandbox_url: s.sandbox_url.value,
    template: s.template.value,
    idle_minutes: amount(s.idle_minutes.value),
    max_session_minutes: amount(s.max_session_minutes.value),
  });
  const [size, setSize] = useState({ cpus: s.default_cpus.value, memory_mb: s.default_memory_mb.value });
  const [fallback, setFallback] = useState(s.fallback_to_local.value);
  const [removing, setRemoving] = useState(false);
  const mine = sent(save, "e2b");
  const test = useMutation({
    mutationFn: () =>
      testE2B({
        ...(key ? { api_key: key } : {}),
        ...(s.domain.locked ? {} : { domain: text.domain.trim() }),
        ...(s.api_url.locked ? {} : { api_url: text.api_url.trim() }),
      }),
  });
  type Name = keyof typeof text;
  const set = (name: Name, value: string) => setText({ ...text, [name]: value });
  const err = (name: Name | "api_key") => (mine ? errorOf(save, "e2b", name) : undefined);
  const minutesWrong = (name: "idle_minutes" | "max_session_minutes") =>
    s[name].locked ? undefined : wrongNumber(text[name]);
  const wrong = minutesWrong("idle_minutes") ?? minutesWrong("max_session_minutes");
  const named = [...(Object.keys(text) as Name[]), "api_key" as const].some(err);
  const address = (name: "domain" | "api_url" | "sandbox_url", label: string, hint: string, placeholder: string) => (
    <TextField
      label={label}
      mono
      spellCheck={false}
      autoCapitalize="none"
      aside={<Lock on={s[name].locked} />}
      disabled={s[name].locked}
      value={text[name]}
      placeholder={placeholder}
      hint={hint}
      error={err(name)}
      onChange={(e) => set(name, e.target.value)}
    />
  );
  const submit = () => {
    if (wrong) return;
    const word = (name: "domain" | "api_url" | "sandbox_url" | "template") =>
      s[name].locked || text[name].trim() === s[name].value ? {} : { [name]: text[name].trim() };
    const changed = (name: "idle_minutes" | "max_session_minutes") =>
      s[name].locked || Number(text[name] || 0) === s[name].value ? {} : { [name]: Number(text[name] || 0) };
    save.mutate(
      {
        e2b: {
          ...(key && !s.key.locked ? { api_key: key } : {}),
          ...word("domain"),
          ...word("api_url"),
          ...word("sandbox_url"),
          ...word("template"),
          ...changed("idle_minutes"),
          ...changed("max_session_minutes"),
          ...(s.default_cpus.locked ? {} : { default_cpus: size.cpus }),
          ...(s.default_memory_mb.locked ? {} : { default_memory_mb: size.memory_mb }),
          ...(s.fallback_to_local.locked ? {} : { fallback_to_local: fallback }),
        },
      },
      { onSuccess: () => setKey("") },
    );
  };
  const sizeLocked = s.default_cpus.locked || s.default_memory_mb.locked;
  return (
    <form
      aria-labelledby="instance-e2b"
      className="flex flex-col gap-4"
      onSubmit={(e) => {
        e.preventDefault();
        submit();
      }}
    >
      <div>
        <h3 id="instance-e2b" className="flex flex-wrap items-baseline gap-x-3 font-semibold">
          E2B
          {place && (
            <span className="font-normal">
              <Mark kind={place.available ? "done" : "failed"} word={place.available ? "Works" : "Cannot be used"} />
            </span>
          )}
        </h3>
        {place && !place.available && (
          <p className="text-fg2">{[sentence(place.reason), sentence(place.cure)].filter(Boolean).join(" ")}</p>
        )}
        <p className="text-fg2">Cloud sandboxes: agents work in virtual machines there, and their code goes there.</p>
      </div>
      <div>
        <TextField
          label="API key"
          type="password"
          autoComplete="off"
          mono
          spellCheck={false}
          aside={<Lock on={s.key.locked} />}
          disabled={s.key.locked}
          value={key}
          placeholder={s.key.set ? `kept, ends in ${s.key.last_four}` : "e2b_…"}
          hint="Kept sealed and never shown again. It is tried when it is saved."
          error={err("api_key")}
          onChange={(e) => setKey(e.target.value)}
        />
        <div className="mt-2 flex flex-wrap items-center gap-x-3 gap-y-2">
          <Button
            disabled={!key && !s.key.set}
            busy={test.isPending && "Testing"}
            title="Asks E2B who the key belongs to; nothing is started"
            onClick={() => test.mutate()}
          >
            Test
          </Button>
          {s.key.set && !s.key.locked && (
            <Button
              look="danger"
              busy={removing && save.isPending && "Removing"}
              onClick={() => {
                setRemoving(true);
                save.mutate({ e2b: { api_key: "" } }, { onSettled: () => setRemoving(false) });
              }}
            >
              Remove the key
            </Button>
          )}
          <TestResult result={test.data} />
        </div>
        <FormError error={test.error} />
      </div>
      <SizeTable
        sizes={place?.sizes ?? []}
        chosen={size}
        locked={sizeLocked}
        onChoose={(x) => setSize({ cpus: x.cpus, memory_mb: x.memory_mb })}
      />
      <TextField
        label="Template"
        mono
        spellCheck={false}
        aside={<Lock on={s.template.locked} />}
        disabled={s.template.locked}
        value={text.template}
        hint="What sandboxes are made from. Sizes have templates of their own, built from it."
        error={err("template")}
        onChange={(e) => set("template", e.target.value)}
      />
      <div className="grid gap-4 sm:grid-cols-2">
        <TextField
          label="Idle minutes"
          inputMode="numeric"
          aside={<Lock on={s.idle_minutes.locked} />}
          disabled={s.idle_minutes.locked}
          value={text.idle_minutes}
          hint="Then a sandbox falls asleep and costs nothing. Empty: never."
          error={minutesWrong("idle_minutes") ?? err("idle_minutes")}
          onChange={(e) => set("idle_minutes", e.target.value)}
        />
        <TextField
          label="Longest run in minutes"
          inputMode="numeric"
          aside={<Lock on={s.max_session_minutes.locked} />}
          disabled={s.max_session_minutes.locked}
          value={text.max_session_minutes}
          hint="Then it is saved, paused and goes on in a new run."
          error={minutesWrong("max_session_minutes") ?? err("max_session_minutes")}
          onChange={(e) => set("max_session_minutes", e.target.value)}
        />
      </div>
      <Locked on={s.fallback_to_local.locked}>
        <Check
          label="A workspace may start on this server when E2B cannot serve"
          hint="Only where whoever made the workspace agreed. It is announced, because cost, isolation and where code goes change."
          checked={fallback}
          disabled={s.fallback_to_local.locked}
          onChange={(e) => setFallback(e.target.checked)}
        />
      </Locked>
      <details>
        <summary className="w-fit cursor-pointer text-accent">Region or an E2B server of your own</summary>
        <div className="mt-3 flex flex-col gap-4">
          {address("domain", "Domain", "Empty for E2B's own.", "e2b.app")}
          {address(
            "api_url",
            "Address of the API",
            "Only where it is not api.<domain>.",
            "https://api.e2b.example.com",
          )}
          {address(
            "sandbox_url",
            "Address of sandboxes",
            "Only where all are behind one.",
            "https://sandbox.example.com",
          )}
        </div>
      </details>
      <PartError save={save} mine={mine} named={named} />
      <Button
        type="submit"
        look="primary"
        className="self-start"
        disabled={Boolean(wrong)}
        busy={mine && !removing && save.isPending && "Saving"}
      >
        Save E2B
      </Button>
    </form>
  );
}

function TestResult({ result }: { result: PlaceTest | undefined }) {
  return (
    <span role="status" className="min-w-0">
      {result &&
        (result.ok ? (
          <Mark
            kind="done"
            word={result.account ? `Works: ${result.account}` : "Works"}
            className="whitespace-normal"
          />
        ) : (
          <>
            <Mark kind="failed" word={sentence(result.reason ?? "")} className="whitespace-normal" />
            {result.cure && <span className="block text-meta text-fg2">{sentence(result.cure)}</span>}
          </>
        ))}
    </span>
  );
}
