package remote

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

type sessionArgs struct {
	Session string `json:"session"`
	What    string `json:"what"`
	Limit   int    `json:"limit"`
	Cursor  string `json:"cursor"`
}

func sessionRead(ctx context.Context, a *API, in sessionArgs) (answer, error) {
	switch in.What {
	case "conversation":
		return conversation(ctx, a, in)
	case "screen", "output":
		return screen(ctx, a, in)
	}
	var s session
	if err := a.get(ctx, path("sessions", in.Session), nil, &s); err != nil {
		return answer{}, err
	}
	s = s.bounded(longText)
	return answer{s.line(), s}, nil
}

// item is one item of a conversation.
type item struct {
	ID     string `json:"id"`
	At     int64  `json:"at"`
	Kind   string `json:"kind"`
	Text   string `json:"text,omitempty"`
	Tool   string `json:"tool,omitempty"`
	Title  string `json:"title,omitempty"`
	Input  string `json:"input,omitempty"`
	Output string `json:"output,omitempty"`
	Path   string `json:"path,omitempty"`
	Status string `json:"status,omitempty"`
}

// toolText bounds what a conversation repeats of a tool's input and output: the agent itself read all of it.
const toolText = 800

func (it item) bounded() item {
	it.Text, it.Title = cut(it.Text, longText), cut(it.Title, shortText)
	it.Input, it.Output, it.Path = cut(it.Input, toolText), cut(it.Output, toolText), cut(it.Path, shortText)
	return it
}

func (it item) line() string {
	parts := []string{"[" + it.Kind + "]"}
	for _, s := range []string{it.Tool, it.Title, it.Path, it.Text, it.Status} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

func conversation(ctx context.Context, a *API, in sessionArgs) (answer, error) {
	var out struct {
		page[item]
		Record string `json:"record"`
		Total  int    `json:"total"`
	}
	if err := a.get(ctx, path("sessions", in.Session, "conversation"), paged(cmp.Or(in.Limit, defaultPage), in.Cursor), &out); err != nil {
		return answer{}, err
	}
	for i := range out.Items {
		out.Items[i] = out.Items[i].bounded()
	}
	none := "Nothing was said yet."
	if out.Record == "none" {
		none = "This agent keeps no record of its conversation. Read its screen or output."
	}
	return answer{lines(out.Items, none, item.line, out.NextCursor), out}, nil
}

func screen(ctx context.Context, a *API, in sessionArgs) (answer, error) {
	var s struct {
		Cols  int      `json:"cols"`
		Rows  int      `json:"rows"`
		Title string   `json:"title"`
		Lines []string `json:"lines"`
		Tail  []string `json:"tail,omitempty"`
	}
	var q url.Values
	if in.What == "output" {
		q = url.Values{"tail": {fmt.Sprint(cmp.Or(in.Limit, 100))}}
	}
	if err := a.get(ctx, path("sessions", in.Session, "screen"), q, &s); err != nil {
		return answer{}, err
	}
	shown := s.Lines
	if in.What == "output" {
		shown = s.Tail
	}
	for i, l := range shown {
		shown[i] = strings.TrimRight(cut(l, 1000), " ")
	}
	for len(shown) > 0 && shown[len(shown)-1] == "" {
		shown = shown[:len(shown)-1]
	}
	return answer{strings.Join(shown, "\n"), map[string]any{"title": cut(s.Title, shortText), "cols": s.Cols, "rows": s.Rows, "lines": shown}}, nil
}

type stopArgs struct {
	Session   string `json:"session"`
	Interrupt bool   `json:"interrupt"`
}

func sessionStop(ctx context.Context, a *API, in stopArgs) (answer, error) {
	if !in.Interrupt {
		var s session
		if err := a.do(ctx, http.MethodPost, path("sessions", in.Session, "stop"), nil, map[string]any{}, &s); err != nil {
			return answer{}, err
		}
		s = s.bounded(shortText)
		return answer{"Stopped: " + s.line(), s}, nil
	}
	var out struct {
		Outcome string `json:"outcome"`
		Held    int    `json:"held"`
	}
	if err := a.do(ctx, http.MethodPost, path("sessions", in.Session, "interrupt"), nil, map[string]any{}, &out); err != nil {
		return answer{}, err
	}
	return answer{fmt.Sprintf("Interrupted: %s. Prompts that wait until a person releases the queue: %d.", out.Outcome, out.Held), out}, nil
}

type answerArgs struct {
	Session  string   `json:"session"`
	Question string   `json:"question"`
	Options  []string `json:"options"`
	Text     string   `json:"text"`
}

func questionAnswer(ctx context.Context, a *API, in answerArgs) (answer, error) {
	q, err := a.question(ctx, in)
	if err != nil {
		return answer{}, err
	}
	body := filled(map[string]string{"question_id": q.ID, "text": in.Text})
	if len(in.Options) > 0 {
		ids := make([]string, len(in.Options))
		for i, given := range in.Options {
			at := slices.IndexFunc(q.Options, func(o option) bool { return o.ID == given || strings.EqualFold(o.Label, given) })
			if at < 0 {
				return answer{}, fault.New(fault.Invalid, "option_not_found", "The question has no option %q.\n%s", cut(given, 100), q.text())
			}
			ids[i] = q.Options[at].ID
		}
		body["option_ids"] = ids
		if len(ids) == 1 {
			delete(body, "option_ids")
			body["option_id"] = ids[0]
		}
	}
	var done question
	if err := a.do(ctx, http.MethodPost, path("sessions", in.Session, "answer"), nil, body, &done); err != nil {
		return answer{}, err
	}
	done = done.bounded()
	return answer{fmt.Sprintf("Question %s is %s: %s", done.ID, done.State, done.Answer), done}, nil
}

// question is the one a call means: the named one, else what the session's agent asks now.
func (a *API) question(ctx context.Context, in answerArgs) (question, error) {
	if in.Question != "" {
		cursor := ""
		for range 5 {
			var list page[question]
			if err := a.get(ctx, path("sessions", in.Session, "questions"), paged(100, cursor), &list); err != nil {
				return question{}, err
			}
			if at := slices.IndexFunc(list.Items, func(q question) bool { return q.ID == in.Question }); at >= 0 {
				return list.Items[at], nil
			}
			if cursor = list.NextCursor; cursor == "" {
				break
			}
		}
		return question{}, fault.New(fault.NotFound, "question_not_found", "The session asked no such question. session_read shows what it asks now.")
	}
	var s session
	if err := a.get(ctx, path("sessions", in.Session), nil, &s); err != nil {
		return question{}, err
	}
	if s.Question == nil {
		return question{}, fault.New(fault.Conflict, "question_gone", "The agent asks nothing now: it is %s.", s.State)
	}
	return *s.Question, nil
}

type promptArgs struct {
	Session string `json:"session"`
	Text    string `json:"text"`
	Now     bool   `json:"now"`
	Resume  bool   `json:"resume"`
}

func promptQueue(ctx context.Context, a *API, in promptArgs) (answer, error) {
	var p struct {
		ID        string `json:"id"`
		SessionID string `json:"session_id"`
		State     string `json:"state"`
		Reason    string `json:"reason,omitempty"`
		Waits     string `json:"waits,omitempty"`
		Held      bool   `json:"held"`
	}
	body := map[string]any{"text": in.Text, "now": in.Now, "resume": in.Resume}
	if err := a.do(ctx, http.MethodPost, path("sessions", in.Session, "prompts"), nil, body, &p); err != nil {
		return answer{}, err
	}
	text := fmt.Sprintf("Prompt %s of session %s: %s", p.ID, p.SessionID, p.State)
	if p.Waits != "" {
		text += " (" + cut(p.Waits, shortText) + ")"
	}
	return answer{text, p}, nil
}
