// @vitest-environment happy-dom
import { notifyManager, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act } from "react";
import { createRoot, type Root } from "react-dom/client";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { ApiError } from "@/api/problem";
import { type FormProps, SettingsForm } from "./form";
import type { Entry } from "./schema";
import { unsaved } from "./unsaved";

interface Server {
  name: string;
  idle: number;
  budget: number;
  key: string;
  ahead: boolean;
}

const LOADED: Server = { name: "Harbour", idle: 30, budget: 2_000_000_000, key: "", ahead: false };

const FIELDS: Entry<Server>[] = [
  { name: "name", label: "Name", type: "text" },
  { name: "idle", label: "Idle", type: "number", unit: "minutes", min: 5, max: 60 },
  {
    name: "budget",
    label: "Budget",
    type: "text",
    codec: {
      format: (nano) => String(nano / 1e9),
      parse: (text) => (/^\d+$/.test(text) ? Number(text) * 1e9 : undefined),
      message: "Dollars, such as 5.",
    },
  },
  { name: "key", label: "API key", type: "secret", set: true, last_four: "wxyz" },
  { summary: "Advanced", fields: [{ name: "ahead", label: "Made ahead of time", type: "boolean" }] },
];

notifyManager.setScheduler(queueMicrotask); // within act, not after it

let root: Root;
let box: HTMLElement;

beforeEach(() => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  box = document.body.appendChild(document.createElement("div"));
  root = createRoot(box);
});
afterEach(async () => {
  await act(async () => root.unmount());
  box.remove();
  vi.unstubAllGlobals();
});

async function show(props: Partial<FormProps<Server, unknown>> = {}) {
  const client = new QueryClient({ defaultOptions: { mutations: { networkMode: "always" } } });
  await act(async () =>
    root.render(
      <QueryClientProvider client={client}>
        <SettingsForm label="Server" loaded={LOADED} fields={FIELDS} save={async () => {}} button="Save" {...props} />
      </QueryClientProvider>,
    ),
  );
}

/** The control with a label, as a screen reader finds it. */
function control(label: string): HTMLInputElement {
  const named = [...box.querySelectorAll("label")].find((l) => l.textContent?.startsWith(label));
  const found = named?.htmlFor ? document.getElementById(named.htmlFor) : named?.querySelector("input");
  if (!found) throw new Error(`no control is labelled ${label}`);
  return found as HTMLInputElement;
}

const button = (name: string) => {
  const found = [...box.querySelectorAll("button")].find(
    (b) => (b.getAttribute("aria-label") ?? b.textContent) === name,
  );
  if (!found) throw new Error(`no button is called ${name}`);
  return found;
};

async function type(label: string, text: string) {
  const input = control(label);
  await act(async () => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value")?.set?.call(input, text);
    input.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

const send = () =>
  act(async () => {
    box.querySelector("form")?.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
  });

/** What is said below a control. */
function below(label: string): string {
  const input = control(label);
  const id = input.getAttribute("aria-describedby");
  return (id && document.getElementById(id)?.textContent) || "";
}

const refused = (field?: string) =>
  new ApiError(400, {
    code: "invalid_setting",
    message: "That is not taken.",
    details: field ? { field } : {},
    request_id: "req_1",
  });

describe("a form of settings", () => {
  test("is saved with what was changed alone, and shows that it was", async () => {
    const save = vi.fn(async () => {});
    await show({ save });
    expect(button("Save").disabled).toBe(true);
    await type("Idle", "45");
    expect(button("Save").disabled).toBe(false);
    await send();
    expect(save).toHaveBeenCalledExactlyOnceWith({ idle: 45 }, { ...LOADED, idle: 45 });
    expect(box.querySelector("[role=status]")?.textContent).toBe("Saved");
    await type("Idle", "31");
    expect(box.querySelector("[role=status]")?.textContent).toBe("");
  });

  test("knows when a change was taken back", async () => {
    await show();
    await type("Name", "Harbour 2");
    expect(unsaved.get().size).toBe(1);
    await type("Name", "Harbour");
    expect(button("Save").disabled).toBe(true);
    expect(unsaved.get().size).toBe(0);
  });

  test("asks nobody to stay for what a new thing would be made of", async () => {
    await show({ create: true });
    await type("Name", "Harbour 2");
    expect(unsaved.get().size).toBe(0);
  });

  test("shows what others changed meanwhile beside what is typed", async () => {
    await show();
    await type("Name", "Mine");
    await show({ loaded: { ...LOADED, name: "Theirs", idle: 50 } });
    expect(control("Name").value).toBe("Mine");
    expect(control("Idle").value).toBe("50");
  });

  test("marks what config.json says, and never sends it", async () => {
    const save = vi.fn(async () => {});
    await show({
      save,
      fields: [
        { name: "name", label: "Name", type: "text", locked: true },
        { name: "idle", label: "Idle", type: "number" },
      ],
    });
    expect(control("Name").disabled).toBe(true);
    expect(box.textContent).toContain("set in config.json");
    await type("Name", "Other");
    await type("Idle", "10");
    await send();
    expect(save).toHaveBeenCalledExactlyOnceWith({ idle: 10 }, expect.anything());
  });

  test.each([
    ["soon", "Enter a whole number."],
    ["1.5", "Enter a whole number."],
    ["4", "At least 5."],
    ["61", "At most 60."],
    ["", "Enter a whole number."],
  ])("takes no number that is out of bounds: %j", async (text, why) => {
    const save = vi.fn(async () => {});
    await show({ save });
    await type("Idle", text);
    expect(below("Idle")).toBe(why);
    expect(control("Idle").getAttribute("aria-invalid")).toBe("true");
    await send();
    expect(save).not.toHaveBeenCalled();
  });

  test("reads and shows values by their codec", async () => {
    const save = vi.fn(async () => {});
    await show({ save });
    expect(control("Budget").value).toBe("2");
    await type("Budget", "much");
    expect(below("Budget")).toBe("Dollars, such as 5.");
    await type("Budget", "7");
    await send();
    expect(save).toHaveBeenCalledExactlyOnceWith({ budget: 7e9 }, expect.anything());
  });

  test("tells a refusal at its field, and keeps what was typed", async () => {
    await show({ save: () => Promise.reject(refused("name")) });
    await type("Name", "Taken");
    await type("Idle", "45");
    await send();
    expect(below("Name")).toBe("That is not taken.");
    expect(box.querySelector("form > [role=alert]")).toBeNull();
    expect(control("Name").value).toBe("Taken");
    expect(control("Idle").value).toBe("45");
    expect(unsaved.get().size).toBe(1);
    expect(button("Save").disabled).toBe(false);
  });

  test("tells a refusal that names no field of the form above its button", async () => {
    await show({ save: () => Promise.reject(refused("unknown_code")) });
    await type("Name", "Taken");
    await send();
    expect(box.querySelector("[role=alert]")?.textContent).toContain("That is not taken.");
  });

  test("never shows a secret again, and takes it away by itself", async () => {
    const save = vi.fn(async () => {});
    await show({ save });
    const key = control("API key");
    expect(key.type).toBe("password");
    expect(key.value).toBe("");
    expect(key.placeholder).toBe("stored, ends in wxyz");
    await type("API key", "sk_1234");
    await send();
    expect(save).toHaveBeenLastCalledWith({ key: "sk_1234" }, expect.anything());
    expect(control("API key").value).toBe("");
    expect(box.innerHTML).not.toContain("sk_1234");
    await type("Name", "Half typed");
    await act(async () => button("Remove the API key").click());
    expect(save).toHaveBeenLastCalledWith({ key: "" }, expect.anything());
    expect(control("Name").value).toBe("Half typed");
  });

  test("keeps what is typed while it is saved", async () => {
    let finish = () => {};
    await show({ save: () => new Promise<void>((done) => (finish = done)) });
    await type("Name", "First");
    await send();
    expect(button("Saving").disabled).toBe(true);
    await type("Idle", "45");
    await act(async () => finish());
    expect(control("Idle").value).toBe("45");
    expect(control("Name").value).toBe("Harbour"); // as the server says it
  });

  test("folds what few need", async () => {
    await show();
    const details = box.querySelector("details");
    expect(details?.open).toBe(false);
    expect(details?.querySelector("summary")?.textContent).toBe("Advanced");
    expect(details?.contains(control("Made ahead of time"))).toBe(true);
  });
});
