import { api, data, type Schemas, type Session } from "@/api/client";

/** A question from an agent. All texts come from the agent: plain text, never markup. */
export type Question = Schemas["Question"];
export type QuestionOption = Schemas["QuestionOption"];
/** Something that waits for a person. */
export type InboxItem = Schemas["InboxItem"];
export type Via = Exclude<Schemas["AnswerRequest"]["via"], "api">;
export type Answer = Partial<Pick<Schemas["AnswerRequest"], "option_id" | "option_ids" | "text">>;

/** The pending question of a session; undefined if there is none. */
export const questionOf = (s: Session): Question | undefined => s.question ?? undefined;

export const answerQuestion = (q: Question, answer: Answer, via: Via): Promise<Question> =>
  data(
    api.POST("/sessions/{id}/answer", {
      params: { path: { id: q.session_id } },
      body: { question_id: q.id, ...answer, via },
    }),
  );

/** A session's questions, newest first. */
export const questionsOf = async (id: string): Promise<Question[]> =>
  (await data(api.GET("/sessions/{id}/questions", { params: { path: { id }, query: { limit: 10 } } }))).items;

export const inboxOf = async (team: string): Promise<InboxItem[]> =>
  (await data(api.GET("/teams/{team}/inbox", { params: { path: { team } } }))).items;

export async function snooze(id: string, until: number): Promise<void> {
  await api.POST("/inbox/{id}/snooze", { params: { path: { id } }, body: { until } });
}

export async function finish(id: string): Promise<void> {
  await api.POST("/inbox/{id}/done", { params: { path: { id } } });
}

/** Restores a snoozed or done item. */
export async function reopen(id: string): Promise<void> {
  await api.DELETE("/inbox/{id}/done", { params: { path: { id } } });
}

/** Types into a session; "\r" is the Enter key. */
export async function typeInto(id: string, text: string): Promise<void> {
  await api.POST("/sessions/{id}/input", { params: { path: { id } }, body: { text } });
}

/** Queues a prompt for an agent; an idle one gets it at once. */
export const promptTo = (id: string, text: string): Promise<Schemas["Prompt"]> =>
  data(api.POST("/sessions/{id}/prompts", { params: { path: { id } }, body: { text } }));
