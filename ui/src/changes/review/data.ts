import { t } from "@lingui/core/macro";
import { queryOptions, useMutation, useQueryClient } from "@tanstack/react-query";
import { api, data, type Schemas } from "@/api/client";
import { keys } from "@/api/queries";
import { toast, toastError } from "@/state/toasts";

export type Review = Schemas["Review"];
export type Comment = Schemas["Comment"];
export type Standing = Schemas["ReviewSummary"];
export type Verdict = Schemas["Verdict"];
export type NewComment = Schemas["NewComment"];

export const reviewsQuery = (id: string) =>
  queryOptions({
    queryKey: [...keys.reviews(id), "all"],
    queryFn: () => data(api.GET("/workspaces/{id}/reviews", { params: { path: { id } } })),
  });

/** The user's unsent drafts, from all devices. */
export const draftQuery = (id: string) =>
  queryOptions({
    queryKey: [...keys.reviews(id), "draft"],
    queryFn: () => data(api.GET("/workspaces/{id}/review", { params: { path: { id } } })),
  });

const once = () => ({ "Idempotency-Key": crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}` });

/** Actions on comments. Each refetches the comments afterwards. */
export function useComments(id: string) {
  const client = useQueryClient();
  const fresh = () => client.invalidateQueries({ queryKey: keys.reviews(id) });
  const add = useMutation({
    mutationFn: (body: NewComment) =>
      data(api.POST("/workspaces/{id}/review/comments", { params: { path: { id }, header: once() }, body })),
    onSuccess: (c) => {
      // Added optimistically, before the list is refetched.
      client.setQueryData(draftQuery(id).queryKey, (d) => d && { ...d, id: c.review_id, comments: [...d.comments, c] });
      return fresh();
    },
  });
  const edit = useMutation({
    mutationFn: ({ comment, ...body }: { comment: string; body?: string; state?: "open" | "resolved" }) =>
      data(api.PATCH("/review-comments/{id}", { params: { path: { id: comment } }, body })),
    onSuccess: fresh,
    onError: (error) => toastError(t`The comment was not changed`, error),
  });
  const remove = useMutation({
    mutationFn: (c: Comment) => api.DELETE("/review-comments/{id}", { params: { path: { id: c.id } } }),
    onSuccess: (_, c) => {
      toast({
        title: t`The comment was deleted`,
        lasts: 10_000,
        actions: [
          {
            label: t`Undo`,
            run: () =>
              add.mutate(
                c.reply_to
                  ? { body: c.body, reply_to: c.reply_to }
                  : {
                      path: c.path,
                      side: c.side,
                      line: c.line,
                      end_line: c.end_line,
                      revision: c.commit,
                      body: c.body,
                    },
                { onError: (error) => toastError(t`The comment could not be restored`, error) },
              ),
          },
        ],
      });
      return fresh();
    },
    onError: (error) => toastError(t`The comment was not deleted`, error),
  });
  return { add, edit, remove, fresh };
}

/** Withdraws a review that was not delivered yet, or a verdict. */
export function useTakeBack(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (review: string) => data(api.POST("/reviews/{id}/cancel", { params: { path: { id: review } } })),
    onSettled: () => client.invalidateQueries({ queryKey: keys.reviews(id) }),
    onError: (error) => toastError(t`The review could not be taken back`, error),
  });
}

/** Sends the draft. */
export async function sendReview(id: string, body: Schemas["SendReview"]): Promise<Review> {
  return data(api.POST("/workspaces/{id}/review/send", { params: { path: { id }, header: once() }, body }));
}
