package subagents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
)

// Threads are the conversations of Parawork's own agent. It is given the results of its subagents as messages.
type Threads interface {
	// SessionThread returns what is known of a session's; false when the session is of another agent.
	SessionThread(ctx context.Context, sessionID string) (t Thread, ok bool, err error)
	// Wake has a session's agent take what Results has for it, in a new turn. It does nothing while a turn runs, which takes results
	// itself, or while the agent rests because its last turn did not complete.
	Wake(ctx context.Context, sessionID string) error
}

// Thread is what is known of a session of Parawork's own agent.
type Thread struct {
	Model, Mode string
	Rests       bool // its last turn failed or was interrupted
}

// Result is what a subagent's caller is given when a task of the subagent has ended.
type Result struct {
	Key  string // of the task: the same whenever it is given
	Line string // begins what the tools answer about the result
	Text string
	At   int64 // ms UTC, when the task ended
}

const (
	mostGiven = 16 << 10 // bytes of a result in a message: the tool has the rest
	mostFiles = 50       // paths that a subagent has
	fileItems = 500      // of a conversation, in which they are looked for
)

// Results returns what a session's agent was not given yet, oldest first.
func (s *Service) Results(ctx context.Context, sessionID string) ([]Result, error) {
	all, err := s.cfg.Store.OpenSubagents(ctx, sessionID)
	if err != nil {
		return nil, err
	}
	var out []Result
	for _, a := range all {
		if !a.Status.Busy() {
			one := answerOf(a)
			out = append(out, Result{Key: taskKey(a), Line: one.head(), Text: one.message(), At: a.EndedAt})
		}
	}
	return out, nil
}

// taskKey names what a subagent was last asked.
func taskKey(a Subagent) string {
	if a.PromptID != "" {
		return a.PromptID
	}
	return a.ID
}

// Returned notes that a session's agent has a result.
func (s *Service) Returned(ctx context.Context, sessionID, key string) error {
	all, err := s.cfg.Store.OpenSubagents(ctx, sessionID)
	if err != nil {
		return err
	}
	for _, a := range all {
		if taskKey(a) == key {
			return s.settled(ctx, a)
		}
	}
	return nil
}

// Adopt passes on what a session's agent started to the session that goes on with its conversation, with the results that it was not given
// yet.
func (s *Service) Adopt(ctx context.Context, from, to string) error {
	return s.cfg.Store.AdoptSubagents(ctx, from, to)
}

// settled notes that the caller needs no message of what a subagent was last asked.
func (s *Service) settled(ctx context.Context, a Subagent) error {
	_, err := s.edit(ctx, a.ID, func(now *Subagent) error {
		if !now.ToReturn || taskKey(*now) != taskKey(a) {
			return errUnchanged
		}
		now.ToReturn = false
		return nil
	})
	if errors.Is(err, errUnchanged) {
		err = nil
	}
	return err
}

// giveBack has the caller be given a result. kept: the caller has ended, and the result stays until its conversation is resumed.
func (s *Service) giveBack(ctx context.Context, a Subagent) (_ Subagent, kept bool, err error) {
	caller, err := s.cfg.Sessions.Get(ctx, a.ParentSessionID)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return a, false, err
	}
	switch {
	case err != nil, s.cfg.Threads == nil, caller.State.Ended() && !a.Kept: // nobody will take it
		err = s.settled(ctx, a)
	case caller.State.Ended(): // who resumes the conversation is given it
		return a, true, nil
	default:
		err = s.cfg.Threads.Wake(ctx, a.ParentSessionID)
	}
	if err != nil {
		return a, false, err
	}
	a, err = s.cfg.Store.Subagent(ctx, a.ID)
	return a, false, err
}

// InterruptFor interrupts the subagents that work for a session, and those below them, because the session's agent was interrupted. Kept
// ones go on.
func (s *Service) InterruptFor(ctx context.Context, sessionID string) error {
	root, err := s.rootOf(ctx, sessionID)
	if err != nil {
		return err
	}
	tree, err := s.cfg.Store.SubagentsOfRoot(ctx, root)
	if err != nil {
		return err
	}
	errs := make([]error, len(tree))
	var all sync.WaitGroup
	for i, a := range tree {
		if a.Kept || !a.Status.Busy() || !below(tree, a, sessionID) {
			continue
		}
		all.Go(func() {
			if errs[i] = s.settled(ctx, a); errs[i] == nil {
				_, errs[i] = s.Interrupt(ctx, Caller{TeamID: a.TeamID, WorkspaceID: a.FromWorkspaceID, UserID: a.CreatedBy}, a.ID, false)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// waitsBelow reports whether an agent that is idle goes on by itself: it is given the results of its own subagents.
func (s *Service) waitsBelow(ctx context.Context, a Subagent) (bool, error) {
	if a.Agent != agents.Parawork {
		return false, nil
	}
	tree, err := s.cfg.Store.SubagentsOfRoot(ctx, a.Root)
	if err != nil || !slices.ContainsFunc(tree, func(b Subagent) bool {
		return b.ParentSessionID == a.SessionID && b.ToReturn && (!b.Kept || !b.Status.Busy())
	}) {
		return false, err
	}
	t, ok, err := s.threadOf(ctx, a.SessionID)
	return ok && !t.Rests, err
}

// filesOf are the paths that a subagent's agent changed by its own account, sorted.
func (s *Service) filesOf(ctx context.Context, a Subagent) (files []string, more int) {
	page, err := s.cfg.Sessions.Conversation(ctx, a.SessionID, conversation.Query{Limit: fileItems, Kinds: []conversation.Kind{conversation.Edit}})
	if err != nil {
		return nil, 0
	}
	for _, it := range page.Items {
		if it.Kind == conversation.Edit && it.Path != "" && it.Status == conversation.OK {
			files = append(files, it.Path)
		}
	}
	slices.Sort(files)
	files = slices.Compact(files)
	if more = len(files) - mostFiles; more > 0 {
		files = files[:mostFiles]
	}
	for i, path := range files {
		files[i] = s.masked(ctx, a.TeamID, path)
	}
	return files, max(more, 0)
}

// head begins what is said of a subagent.
func (a answer) head() string {
	return fmt.Sprintf("%s (%s, %s) is %s.", a.ID, a.Name, a.Agent, a.Status)
}

// changed says which files a subagent changed.
func (a answer) changed() string {
	if len(a.Files) == 0 {
		return ""
	}
	text := "Files it changed: " + strings.Join(a.Files, ", ")
	if a.MoreFiles > 0 {
		text += fmt.Sprintf(" and %d more", a.MoreFiles)
	}
	return text + "."
}

// message says to the caller how a task has ended.
func (a answer) message() string {
	var b strings.Builder
	fmt.Fprintf(&b, "The subagent %s (%s) has finished: it is %s.", a.Name, a.ID, a.Status)
	if a.Error != "" {
		b.WriteString(" " + a.Error)
	}
	if a.Where == Sibling && a.Branch != "" {
		fmt.Fprintf(&b, " Its work is on the branch %s; subagent_merge brings it to you.", a.Branch)
	}
	if files := a.changed(); files != "" {
		b.WriteString("\n" + files)
	}
	if a.Result != "" {
		text := a.Result
		if len(text) > mostGiven {
			text = "[The beginning is left out: subagent_result has it.]\n" + ending(text, mostGiven)
		}
		b.WriteString("\nIts result:\n\n" + text)
	}
	return b.String()
}
