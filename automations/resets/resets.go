// Package resets has agents go on when the limit of their provider that stopped them is over. What it plans is a prompt that the queue of the
// session holds back until then: people see it there, send it at once, change it or delete it, and it outlasts a restart. Its ID is that of
// the limit, so that each limit leads to one prompt at most, whenever the server dies.
package resets

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// Prompts is the queue of sessions' prompts.
type Prompts interface {
	AddPrompt(ctx context.Context, actor accounts.Actor, sessionID string, n prompt.Request) (prompt.Prompt, error)
	EditPrompt(ctx context.Context, actor accounts.Actor, id string, e prompt.Edit) (prompt.Prompt, error)
	CancelPrompt(ctx context.Context, id string) (prompt.Prompt, error)
	ListPrompts(ctx context.Context, sessionID string) ([]prompt.Prompt, error)
}

// Config configures a Service. Fields without a comment are required.
type Config struct {
	// Open returns the sessions that have not ended, Get one as it is now.
	Open    func(ctx context.Context) ([]sessions.Session, error)
	Get     func(ctx context.Context, id string) (sessions.Session, error)
	Prompts Prompts
	// Answer gives an agent the answer to its question.
	Answer func(ctx context.Context, actor accounts.Actor, sessionID string, req question.AnswerRequest) (question.Question, error)
	// Actor returns a user with their memberships.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	// Admit returns why a user may not have an agent work in a workspace.
	Admit func(ctx context.Context, actor accounts.Actor, workspaceID string) error
	Now   func() time.Time // nil = time.Now
	Look  time.Duration    // between looks; default 15 s
	Log   *slog.Logger     // nil = none
}

// Service has agents go on after limits. Safe for concurrent use.
type Service struct {
	cfg     Config
	planned map[string]bool // sessions that may have a planned prompt; nil = not known yet. Only Run uses it
}

// New returns a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Open == nil || cfg.Get == nil || cfg.Prompts == nil || cfg.Answer == nil || cfg.Actor == nil || cfg.Admit == nil {
		panic(errors.New("resets: a required dependency is missing"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Look, cfg.Log = cmp.Or(cfg.Look, 15*time.Second), cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg}
}

const (
	text = "The usage limit is over. Go on where you stopped."
	// mark begins the IDs of planned prompts.
	mark = "prm_limit"
	// mostInRow is how often an agent is asked to go on without having worked for a while in between.
	mostInRow = 3
	worked    = 10 * time.Minute
	firstWait = 30 * time.Minute // for a limit whose end is unknown; doubles
	// soon and spread are how long after a limit's end agents go on: not all at once.
	soon   = 10 * time.Second
	spread = time.Minute
	// lookIn bounds a look at one session: its sandbox may be woken to answer a question.
	lookIn = time.Minute
)

// Run has agents go on until ctx ends. The next server continues.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "agents of all teams go on")
	tick := time.NewTicker(s.cfg.Look)
	defer tick.Stop()
	for {
		if err := s.Step(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "sessions that wait for a limit could not be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Step looks once at every session.
func (s *Service) Step(ctx context.Context) error {
	rows, err := s.cfg.Open(ctx)
	if err != nil {
		return err
	}
	first := s.planned == nil
	before := s.planned
	s.planned = map[string]bool{}
	for _, row := range rows {
		if row.Basis.Limit == nil && !first && !before[row.ID] {
			continue
		}
		within, cancel := context.WithTimeout(tenant.In(ctx, row.TeamID), lookIn)
		err := s.look(within, row.ID)
		cancel()
		if err != nil && ctx.Err() == nil {
			s.planned[row.ID] = true
			s.cfg.Log.WarnContext(ctx, "an agent that waits for a limit could not be asked to go on", "session_id", row.ID, "error", err)
		}
	}
	return nil
}

func (s *Service) look(ctx context.Context, id string) error {
	row, err := s.cfg.Get(ctx, id)
	if err != nil || row.State.Ended() {
		return err
	}
	all, err := s.cfg.Prompts.ListPrompts(ctx, id)
	if err != nil {
		return err
	}
	l := row.Basis.Limit
	this := ""
	if l != nil {
		this = promptID(id, l.At)
	}
	known := false
	for _, p := range all {
		switch {
		case p.ID == this:
			known = true
			if p.State != prompt.Queued || p.Held == "" {
				continue
			}
			s.planned[id] = true
			if at := due(id, *l, inRow(all, this, l.At)); at != 0 && at <= s.cfg.Now().UnixMilli() {
				return s.resume(ctx, row, p)
			}
		case strings.HasPrefix(p.ID, mark) && p.State == prompt.Queued && p.Held != "": // somebody had it go on
			if _, err := s.cfg.Prompts.CancelPrompt(ctx, p.ID); err != nil {
				return err
			}
		}
	}
	if l == nil || row.State != state.Idle && row.State != state.Waiting || known && row.Question == nil {
		return nil
	}
	actor, err := s.starter(ctx, row)
	if refused(err) { // a person decides
		return nil
	}
	if err != nil {
		return err
	}
	s.planned[id] = true
	var unanswered error
	if q := row.Question; q != nil { // of Claude Code: stop and wait, upgrade, ...
		for _, o := range q.Options {
			if strings.HasPrefix(o.Label, "Stop and wait for limit to reset") {
				_, unanswered = s.cfg.Answer(ctx, actor, id, question.AnswerRequest{QuestionID: q.ID, OptionIDs: []string{o.ID}})
				break
			}
		}
	}
	if known {
		return unanswered
	}
	_, err = s.cfg.Prompts.AddPrompt(ctx, actor, id, prompt.Request{ID: this, Text: text, Held: held(*l, due(id, *l, inRow(all, this, l.At)))})
	return errors.Join(unanswered, err)
}

// starter returns the user who started a session, as long as they may have an agent work there.
func (s *Service) starter(ctx context.Context, row sessions.Session) (accounts.Actor, error) {
	actor, err := s.cfg.Actor(ctx, row.CreatedBy)
	if err == nil {
		err = s.cfg.Admit(ctx, actor, row.WorkspaceID)
	}
	return actor, err
}

// refused reports whether an agent may not go on: asking again changes nothing.
func refused(err error) bool { return fault.Is(err, fault.Forbidden) || fault.Is(err, fault.NotFound) }

// resume sends a planned prompt, as the user who started the session and with the rights they have now.
func (s *Service) resume(ctx context.Context, row sessions.Session, p prompt.Prompt) error {
	actor, err := s.starter(ctx, row)
	if err == nil {
		_, err = s.cfg.Prompts.EditPrompt(ctx, actor, p.ID, prompt.Edit{Now: true})
	}
	if refused(err) {
		_, cancelled := s.cfg.Prompts.CancelPrompt(ctx, p.ID) // looked at once, not again and again
		return errors.Join(err, cancelled)
	}
	return err
}

// promptID is that of the prompt for one limit of one session.
func promptID(sessionID string, at int64) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d", sessionID, at))
	return mark + hex.EncodeToString(sum[:10])
}

// inRow counts the planned prompts that were sent right before this limit, without other prompts or much work in between.
func inRow(all []prompt.Prompt, this string, at int64) (n int) {
	for i := len(all) - 1; i >= 0; i-- {
		switch p := all[i]; {
		case p.ID == this || p.State == prompt.Cancelled || p.State == prompt.Queued:
		case p.State != prompt.Sent || !strings.HasPrefix(p.ID, mark) || at-p.SentAt > worked.Milliseconds():
			return n
		default:
			n, at = n+1, p.CreatedAt
		}
	}
	return n
}

// due is when an agent goes on that was asked to so often already, ms UTC; 0: a person decides.
func due(sessionID string, l usagelimit.Limit, asked int) int64 {
	if asked >= mostInRow || !l.Passes() {
		return 0
	}
	if l.Until == 0 {
		return l.At + (firstWait << asked).Milliseconds()
	}
	sum := sha256.Sum256([]byte(sessionID))
	return l.Until + soon.Milliseconds() + int64(sum[0])*spread.Milliseconds()/256
}

// held says in the queue what a planned prompt waits for.
func held(l usagelimit.Limit, at int64) string {
	when := time.UnixMilli(at).UTC().Format("2006-01-02 15:04") + " UTC"
	switch {
	case at == 0:
		return "the limit of its provider does not end by itself, or stopped the agent again and again: send this when it may go on"
	case l.Until == 0:
		return "its provider did not say when the limit ends: it is tried again at " + when
	}
	return "waits for the limit of its provider until " + when
}
