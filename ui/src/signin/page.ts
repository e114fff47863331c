import { t } from "@lingui/core/macro";
import { bare } from "@/api/bare";
import type { Me } from "@/api/client";
import { tell } from "@/api/problem";
import { buttonClass, FORM_ERROR, inputClass, LOGO, PLAIN_PAGE } from "@/kit/classes";
import type { CredentialJSON, RequestOptions, SecondStep, Ways } from "./calls";
import { safeNext } from "./next";
import { getPasskey, PasskeyPutOff, passkeysHere, suggestsPasskeys } from "./passkey";
import { refusal } from "./refusals";

// The first step of signing in, in plain elements: everybody loads it first, often on a phone, and it must not wait for the app.
// What follows, the second step among it, is a page of the app.

/** ms after which a waiting suggestion asks for a new challenge: the server's ends after five minutes. */
const RENEW = 4 * 60_000;

type Child = Node | string | false | undefined;

function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | boolean | undefined>,
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  for (const child of children) if (child) node.append(child);
  return node;
}

function logo(): Element {
  const template = document.createElement("template");
  template.innerHTML = `<svg aria-hidden="true" width="20" height="20" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round"><path d="${LOGO}"/></svg>`;
  return template.content.firstElementChild!;
}

/** Shows the page, and reads from the server how one may sign in. */
export function signInPage(root: HTMLElement): void {
  const title = t`Sign in`;
  document.title = `${title} · Parawork`;
  const body = el("div", {});
  root.replaceChildren(
    el(
      "main",
      { class: PLAIN_PAGE.main },
      el("p", { class: PLAIN_PAGE.name }, el("span", { class: PLAIN_PAGE.mark }, logo()), "Parawork"),
      el("h1", { class: PLAIN_PAGE.h1 }, title),
      body,
    ),
  );
  const read = async () => {
    try {
      firstStep(body, await bare<Ways>("/sign-in"));
    } catch (error) {
      const again = el("button", { type: "button", class: buttonClass() }, t`Try again`);
      again.onclick = () => void read();
      body.replaceChildren(
        el(
          "div",
          { role: "alert", class: "panel p-3" },
          el("p", { class: "font-medium" }, t`The server could not be reached.`),
          el("p", { class: "mt-1 mb-2 break-words text-fg2" }, tell(error).message),
          again,
        ),
      );
    }
  };
  void read();
}

/** An answer of the server to a first factor. */
type Entered = Me | SecondStep;

function enter(answer: Entered, next: string | undefined): void {
  const to = safeNext(next);
  location.assign("methods" in answer ? `/login?${new URLSearchParams({ step: "second", next: to })}` : to);
}

function firstStep(body: HTMLElement, ways: Ways): void {
  const search = new URLSearchParams(location.search);
  const next = search.get("next") ?? undefined;
  const refused = search.get("error");
  const passkeys = ways.passkeys && passkeysHere() === "";
  const others = passkeys || ways.providers.length > 0;
  const passkey = passkeys ? new PasskeyButton(next) : undefined;
  const named = ways.providers.find((p) => p.id === search.get("provider"))?.name;
  const help =
    ways.password && !ways.mail
      ? t`No account? A team's owner or admin can invite you, or an operator of this server can send you a password reset link.`
      : t`No account? A team's owner or admin can invite you.`;
  const form = ways.password ? passwordForm(ways.mail, next, passkey) : undefined;
  const line = () => el("span", { "aria-hidden": "true", class: "h-px flex-1 bg-hairline" });
  const children: Child[] = [
    ways.insecure &&
      el(
        "p",
        { class: "mb-4 rounded-md border border-needs px-3 py-2 text-fg2" },
        el("strong", { class: "font-medium text-needs" }, t`This connection is not encrypted.`),
        ` ${t`Others on the network can read what you type and take over your login. Ask an operator of this server for its HTTPS address.`}`,
      ),
    refused !== null &&
      el(
        "p",
        { role: "alert", class: "mb-4 rounded-md border border-failed px-3 py-2 text-failed" },
        refusal(refused, named),
      ),
    form,
    others &&
      el(
        "div",
        { class: "flex flex-col gap-2" },
        ways.password && el("p", { class: "my-3 flex items-center gap-3 text-meta text-fg3" }, line(), t`or`, line()),
        passkey?.button,
        passkey?.failure,
        ...ways.providers.map((p) =>
          el(
            "a",
            {
              href: `/api/v1/login/providers/${encodeURIComponent(p.id)}?${new URLSearchParams({ next: safeNext(next) })}`,
              class: buttonClass(),
            },
            t`Continue with ${p.name}`,
          ),
        ),
      ),
    !ways.password &&
      !others &&
      el(
        "p",
        { class: "text-fg2" },
        ways.passkeys
          ? t`This server accepts only passkeys, and this browser does not support them at this address.`
          : t`No sign-in method is enabled. An operator of this server enables one under accounts in its config.json.`,
      ),
    el("p", { class: "mt-8 text-meta text-fg3" }, help),
  ];
  body.replaceChildren(...children.filter((c): c is Node => c instanceof Node));
  form?.querySelector("input")?.focus();
  if (passkey && ways.password) void passkey.suggest();
}

/** Shows what went wrong in a form, or clears it. */
function showFailure(into: HTMLElement, error?: unknown): void {
  into.replaceChildren();
  if (error === undefined) return;
  const told = tell(error);
  into.append(
    el(
      "div",
      { role: "alert", class: FORM_ERROR },
      el("p", { class: "break-words text-failed" }, told.message),
      told.requestId !== "" &&
        el("p", { class: "mt-1 font-mono text-micro text-fg3 select-all" }, t`request ${told.requestId}`),
    ),
  );
}

function setBusy(button: HTMLButtonElement, words: string, busy: boolean): void {
  button.textContent = words;
  button.disabled = busy;
  button.setAttribute("aria-busy", String(busy));
}

function field(label: string, input: HTMLInputElement, aside?: Node): HTMLElement {
  return el(
    "div",
    {},
    el(
      "div",
      { class: "mb-1 flex items-baseline justify-between gap-2" },
      el("label", { for: input.id, class: "font-medium" }, label),
      aside,
    ),
    input,
  );
}

function passwordForm(mail: boolean, next: string | undefined, passkey: PasskeyButton | undefined): HTMLFormElement {
  const input = (id: string, attributes: Record<string, string>) =>
    el("input", { id, name: id, class: inputClass, required: true, ...attributes });
  const email = input("email", { type: "email", autocomplete: passkey ? "username webauthn" : "username" });
  const password = input("password", { type: "password", autocomplete: "current-password" });
  const failure = el("div", { class: "empty:hidden" });
  const button = el("button", { type: "submit", class: buttonClass("primary", "justify-center") }, t`Sign in`);
  const forgot = mail && el("a", { href: "/reset", class: "text-meta text-accent underline" }, t`Forgot password?`);
  const form = el(
    "form",
    { class: "flex flex-col gap-3.5" },
    field(t`E-mail`, email),
    field(t`Password`, password, forgot || undefined),
    failure,
    button,
  );
  form.onsubmit = async (e) => {
    e.preventDefault();
    if (button.disabled) return;
    showFailure(failure);
    setBusy(button, t`Signing in`, true);
    try {
      await passkey?.settled();
      enter(await bare<Entered>("/login", { email: email.value, password: password.value }), next);
    } catch (error) {
      password.value = "";
      showFailure(failure, error);
      setBusy(button, t`Sign in`, false);
    }
  };
  return form;
}

/**
 * Signing in with a passkey: by a button, and by the browser's suggestions in the field for the e-mail address. A browser waits for one
 * passkey at a time, so that the button ends the suggestion.
 */
class PasskeyButton {
  readonly button = el("button", { type: "button", class: buttonClass() }, t`Use a passkey`);
  readonly failure = el("div", { class: "empty:hidden" });
  private readonly quiet = new AbortController();
  private options: Promise<unknown> = Promise.resolve();

  constructor(private readonly next: string | undefined) {
    this.button.onclick = () =>
      void this.send(async () => {
        this.quiet.abort();
        return getPasskey(await this.ask());
      });
  }

  /** Resolves when no challenge is under way: its cookie must not come after, and in place of, that of another sign-in. */
  settled(): Promise<unknown> {
    return this.options;
  }

  /** Waits in the browser's suggestions. Nobody requested it, so it shows no error: the button and the password remain. */
  async suggest(): Promise<void> {
    if (!(await suggestsPasskeys())) return;
    while (!this.quiet.signal.aborted) {
      const renew = AbortSignal.timeout(RENEW);
      try {
        const chosen = await getPasskey(await this.ask(), AbortSignal.any([this.quiet.signal, renew]), true);
        return await this.send(async () => chosen);
      } catch (error) {
        if (!(error instanceof PasskeyPutOff) || !renew.aborted) return;
      }
    }
  }

  private async ask(): Promise<RequestOptions> {
    const asked = bare<{ options: RequestOptions }>("/login/passkey/options", {});
    this.options = asked.catch(() => {});
    return (await asked).options;
  }

  private async send(choose: () => Promise<CredentialJSON>): Promise<void> {
    showFailure(this.failure);
    setBusy(this.button, t`Waiting for your passkey`, true);
    try {
      enter(await bare<Entered>("/login/passkey", { credential: await choose() }), this.next);
    } catch (error) {
      showFailure(this.failure, error);
      setBusy(this.button, t`Use a passkey`, false);
    }
  }
}
