package running

import (
	"context"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
)

func questionOf(q question.Question) api.Question {
	return api.Question{Id: q.ID, SessionId: q.SessionID, WorkspaceId: q.WorkspaceID, Kind: api.QuestionKind(q.Kind), Title: q.Title, Detail: q.Detail,
		Options: rest.List(q.Options, optionOf), Multi: q.Multi, FreeText: q.FreeText, Source: api.QuestionSource(q.Source), AskedAt: q.AskedAt,
		State: api.QuestionState(q.State), AnsweredBy: q.AnsweredBy, AnsweredByName: q.AnsweredByName, AnsweredAt: rest.Ptr(q.AnsweredAt), Answer: q.Answer, Via: q.Via}
}

func optionOf(o agents.Option) api.QuestionOption {
	return api.QuestionOption{Id: o.ID, Label: o.Label, Description: o.Description, Role: api.QuestionOptionRole(o.Role)}
}

// AskedOf is the question of a session or an inbox item, nil without one.
func AskedOf(q *question.Question) *api.Question {
	if q == nil {
		return nil
	}
	out := questionOf(*q)
	return &out
}

func (h Questions) ListQuestions(ctx context.Context, req api.ListQuestionsRequestObject) (api.ListQuestionsResponseObject, error) {
	all, next, err := h.cfg.Questions.Questions(ctx, rest.CallOf(ctx).Session.ID, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	return api.ListQuestions200JSONResponse{Items: rest.List(all, questionOf), NextCursor: rest.Text(next)}, nil
}

func (h Questions) AnswerQuestion(ctx context.Context, req api.AnswerQuestionRequestObject) (api.AnswerQuestionResponseObject, error) {
	b := req.Body
	if !rest.PlainID(b.QuestionId) {
		return nil, fault.New(fault.NotFound, "question_not_found", "The session has asked no such question.").With("field", "question_id")
	}
	options := rest.Val(b.OptionIds)
	if b.OptionId != nil {
		if len(options) > 0 {
			return nil, fault.New(fault.Invalid, "invalid_answer", "Send option_id or option_ids, not both.").With("field", "option_id")
		}
		options = []string{*b.OptionId}
	}
	via := rest.Val(b.Via)
	switch via {
	case "", api.AnswerRequestViaApi, api.AnswerRequestViaInbox, api.AnswerRequestViaWorkspace, api.AnswerRequestViaPhone, api.AnswerRequestViaNotification:
	default:
		return nil, fault.New(fault.Invalid, "invalid_answer", "via must be api, inbox, workspace, phone or notification.").With("field", "via")
	}
	q, err := h.cfg.Questions.Answer(ctx, rest.CallOf(ctx).Actor, rest.CallOf(ctx).Session.ID,
		question.AnswerRequest{QuestionID: b.QuestionId, OptionIDs: options, Text: rest.Val(b.Text), Via: string(via)})
	if err != nil {
		return nil, err
	}
	return api.AnswerQuestion200JSONResponse(questionOf(q)), nil
}
