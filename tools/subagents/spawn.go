package subagents

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/workspaces"
)

// Caller is who uses subagents: the agent of a session, or a person in a workspace.
type Caller struct {
	TeamID, WorkspaceID string
	SessionID           string // "" = a person
	UserID              string
}

// Request requests a subagent.
type Request struct {
	Name, Task  string
	Agent       string   // "" = the caller's
	Model       string   // "" = the agent's default
	Mode        string   // of Parawork's own agent; "" = its caller's, or else its default
	Tools       []string // groups and tools; nil = all that the caller has
	Where       string   // "" = Same
	Kept        bool
	MaxCostNano int64
	TimeoutMs   int64 // 0 = DefTimeout
}

var modelName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+\[\]-]{0,127}$`)

// takeModel are the agents whose command line has --model.
var takeModel = []string{agents.ClaudeCode, agents.Codex, agents.Gemini, agents.OpenCode, agents.Parawork}

func bad(field, format string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_subagent", format, args...).With("field", field)
}

func (r Request) check() error {
	switch {
	case r.Name == "" || strings.TrimSpace(r.Name) != r.Name || utf8.RuneCountInString(r.Name) > MaxName || safetext.Line(r.Name) != r.Name:
		return bad("name", "The name must have 1 to %d characters on one line.", MaxName)
	case strings.TrimSpace(r.Task) == "":
		return bad("task", "The task is empty. Write what the subagent should do.")
	case len(r.Task) > MaxTask || !utf8.ValidString(r.Task) || strings.ContainsRune(r.Task, 0):
		return bad("task", "The task must be UTF-8 text of at most %d KiB, without NUL characters. Put long material into a file and name the file.", MaxTask>>10)
	case r.Where != "" && r.Where != Same && r.Where != Sibling:
		return bad("where", "where must be same or sibling.")
	case r.Model != "" && !modelName.MatchString(r.Model):
		return bad("model", "This is not the name of a model.")
	case r.TimeoutMs < 0 || r.TimeoutMs > MaxTimeout:
		return bad("timeout_ms", "timeout_ms must be from 1 to %d (24 hours).", MaxTimeout)
	case r.MaxCostNano < 0:
		return bad("max_cost_nano", "max_cost_nano must not be negative.")
	}
	return nil
}

// Spawn stores a subagent, which starts soon, and returns it with warnings. Errors: invalid_subagent, subagent_depth,
// subagent_mode, subagents_at_once, subagents_total, subagent_caller_ended, workspace_not_ready, and those of CheckAgent.
func (s *Service) Spawn(ctx context.Context, c Caller, r Request) (a Subagent, warnings []string, err error) {
	if err := r.check(); err != nil {
		return a, nil, err
	}
	if err := s.checkTools(r.Tools); err != nil {
		return a, nil, err
	}
	w, err := s.workspace(ctx, c)
	if err != nil {
		return a, nil, err
	}
	if w.DeletedAt != 0 || w.State != workspaces.Ready {
		return a, nil, fault.New(fault.Conflict, "workspace_not_ready", "The workspace is %s. A subagent can be started once it is ready.", w.State)
	}
	if _, err = s.actorFor(ctx, c.UserID, w); err != nil {
		return a, nil, err
	}
	now := s.now()
	a = Subagent{ID: id.New("sub"), TeamID: w.TeamID, ProjectID: w.ProjectID, FromWorkspaceID: w.ID, ParentSessionID: c.SessionID, Root: w.ID, Depth: 1,
		Name: r.Name, Task: r.Task, Agent: r.Agent, Model: r.Model, Mode: r.Mode, Tools: r.Tools, Where: r.Where, WorkspaceID: w.ID, Branch: w.Branch, SessionID: id.New("ses"),
		Status: Spawned, Live: true, Kept: r.Kept, MaxCostNano: r.MaxCostNano, TimeoutMs: r.TimeoutMs, CreatedBy: c.UserID, CreatedAt: now, UpdatedAt: now}
	if a.TimeoutMs == 0 {
		a.TimeoutMs = DefTimeout
	}
	a.DeadlineAt = now + a.TimeoutMs
	if a.Where == "" {
		a.Where = Same
	}
	if a.Where == Sibling {
		a.WorkspaceID, a.Branch = id.New("ws"), ""
	}
	if c.SessionID != "" {
		if err = s.below(ctx, c, &a); err != nil {
			return a, nil, err
		}
	}
	if err = s.checkAgent(ctx, a); err != nil {
		return a, nil, err
	}
	if err = s.moded(ctx, c, &a); err != nil {
		return a, nil, err
	}
	if a.Where == Same {
		warnings = s.overlaps(ctx, a)
	}
	if err = s.cfg.Store.InsertSubagent(ctx, a, MaxAtOnce, MaxTotal); err != nil {
		return a, nil, err
	}
	failpoint.Reach(failpoint.SubagentStored)
	s.notify(ctx, a)
	s.follow(a)
	return a, warnings, nil
}

// workspace returns the caller's workspace; not_found where it is not of the caller's team.
func (s *Service) workspace(ctx context.Context, c Caller) (workspaces.Workspace, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return w, err
	}
	if w.TeamID != c.TeamID {
		return w, fault.New(fault.NotFound, "workspace_not_found", "The team has no such workspace.")
	}
	return w, nil
}

// below puts a subagent under the session that asks for it.
func (s *Service) below(ctx context.Context, c Caller, a *Subagent) error {
	caller, err := s.cfg.Sessions.Get(ctx, c.SessionID)
	switch {
	case err != nil:
		return err
	case caller.WorkspaceID != c.WorkspaceID:
		return fault.New(fault.NotFound, "session_not_found", "The workspace has no such session.")
	case caller.State.Ended():
		return fault.New(fault.Conflict, "subagent_caller_ended", "The session that asks for a subagent has ended.")
	}
	if a.Agent == "" && caller.Agent != agents.Command && caller.Agent != agents.Shell {
		a.Agent = caller.Agent
	}
	a.Root = c.SessionID
	above, err := s.cfg.Store.SubagentOfSession(ctx, c.SessionID)
	if err != nil {
		if fault.Is(err, fault.NotFound) { // it is no subagent
			return nil
		}
		return err
	}
	a.Root, a.Depth = above.Root, above.Depth+1
	if a.Depth > MaxDepth {
		return fault.New(fault.Conflict, "subagent_depth", "A subagent of a subagent cannot start further subagents: trees are at most %d deep. Do this part yourself.", MaxDepth).With("max_depth", MaxDepth)
	}
	if above.Stop {
		return fault.New(fault.Conflict, "subagent_caller_ended", "The session that asks for a subagent is being stopped.")
	}
	if above.Status.Busy() {
		a.DeadlineAt = min(a.DeadlineAt, above.DeadlineAt)
	}
	a.Kept = a.Kept && above.Kept
	a.Tools = s.narrowed(above.Tools, a.Tools) // never more than the caller itself may use
	return nil
}

func (s *Service) checkAgent(ctx context.Context, a Subagent) error {
	switch a.Agent {
	case "":
		return bad("agent", "Name the agent that is to do the task: the caller is not an agent that can be started again.")
	case agents.Shell, agents.Setup:
		return bad("agent", "%s is not an agent that can do a task. To run a shell command line, use the agent %s with the line as the task.", a.Agent, agents.Command)
	}
	if a.Model != "" && !slices.Contains(takeModel, a.Agent) {
		return bad("model", "Parawork does not know how to choose the model of %s. Leave it out.", a.Agent)
	}
	if a.MaxCostNano > 0 && s.cfg.Spent == nil {
		return bad("max_cost_nano", "This server does not know what agents spend on models, so it cannot limit that.")
	}
	return s.cfg.Sessions.CheckAgent(ctx, a.Agent)
}

// overlaps warns of the other agents that work on the same files.
func (s *Service) overlaps(ctx context.Context, a Subagent) []string {
	there, err := s.cfg.Sessions.List(ctx, a.WorkspaceID)
	if err != nil {
		return nil
	}
	var names []string
	for _, one := range there {
		if one.State.Ended() || one.Agent == agents.Setup || one.ID == a.SessionID {
			continue
		}
		name := one.AgentName
		if one.ID == a.ParentSessionID {
			name += " (the caller)"
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	const most = 8
	if len(names) > most {
		names = append(names[:most], "others")
	}
	return []string{"It shares all files with " + strings.Join(names, ", ") + ". Give each other files to work on, or use where: sibling."}
}

// request is how a subagent's session is started.
func (a Subagent) request(caller *sessions.Session) sessions.StartRequest {
	req := sessions.StartRequest{ID: a.SessionID, Agent: a.Agent, Prompt: a.Task}
	if a.Model != "" {
		req.Argv = []string{"--model", a.Model}
	}
	if a.Mode != "" {
		req.Argv = append(req.Argv, "--mode", a.Mode)
	}
	if a.Agent == agents.Command {
		req.Argv, req.Prompt = []string{"/bin/sh", "-c", a.Task}, ""
	}
	if caller != nil {
		req.Permissions = agents.AskPermissions // never more than the caller has
		if caller.Permissions == agents.AllPermissions {
			req.Permissions = agents.AllPermissions
		}
		if caller.Agent == a.Agent {
			req.AccountID = caller.AccountID
		}
		if i := slices.Index(caller.Argv, "--api"); a.Agent == agents.Parawork && caller.Agent == a.Agent && i >= 0 && i+1 < len(caller.Argv) {
			req.Argv = append(req.Argv, "--api", caller.Argv[i+1])
		}
	}
	return req
}
