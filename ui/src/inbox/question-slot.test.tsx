// @vitest-environment happy-dom
import { act } from "react";
import { createRoot } from "react-dom/client";
import { expect, test, vi } from "vitest";
import type { Session } from "@/api/client";
import type { Question } from "./api";
import QuestionSlot from "./question-slot";

const list = vi.hoisted(() => ({ ended: [] as unknown[] }));
vi.mock("@/state/team", () => ({ useTeam: () => ({ slug: "acme", can: () => true }) }));
vi.mock("./question-card", () => ({ QuestionCard: ({ question }: { question: Question }) => question.title }));
vi.mock("./api", async (real) => ({ ...(await real<object>()), questionsOf: async () => list.ended }));

test.each([
  ["who answered", { state: "answered", answered_by_name: "Ana", answer: "Allow", via: "inbox" }, true],
  ["not that its form changed", { state: "withdrawn", answered_by_name: "", answer: "", via: "" }, false],
])("beside the next question the page says %s", async (_, how, told) => {
  vi.stubGlobal("IS_REACT_ACT_ENVIRONMENT", true);
  const box = document.createElement("div");
  const root = createRoot(box);
  const show = (question: object) =>
    act(async () =>
      root.render(
        <QuestionSlot session={{ id: "ses_1", agent_name: "Claude", question } as Session} via="workspace" />,
      ),
    );
  const first = { id: "qst_1", session_id: "ses_1", title: "May I write?" };
  list.ended = [{ ...first, ...how }];
  await show({ ...first, state: "open" });
  await show({ id: "qst_2", session_id: "ses_1", title: "And now?", state: "open" });
  expect(box.textContent).toContain("And now?");
  expect(box.textContent?.includes("Answered by Ana: Allow")).toBe(told);
  expect(box.textContent).not.toContain("continued");
  await act(async () => root.unmount());
  vi.unstubAllGlobals();
});
