package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/environ"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/transcript"
	"github.com/parawork/parawork/workspaces"
)

const startTimeout = time.Minute // for the guest, once the sandbox exists

// Start starts an agent in a workspace. A program that cannot be started yields a session in state failed with the reason, not an
// error. Errors: not_found, workspace_not_ready, agent_unknown, agent_disabled, agent_not_installed, invalid_* for the request,
// existing_login_*, and those of the executors.
func (s *Service) Start(ctx context.Context, actor accounts.Actor, workspaceID string, req StartRequest) (Session, error) {
	return s.start(ctx, actor, workspaceID, req, nil)
}

func (s *Service) start(ctx context.Context, actor accounts.Actor, workspaceID string, req StartRequest, resumed *Session) (Session, error) {
	if err := req.check(); err != nil {
		return Session{}, err
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return Session{}, err
	}
	if w.DeletedAt != 0 || w.State != workspaces.Ready {
		return Session{}, fault.New(fault.Conflict, "workspace_not_ready", "The workspace is %s. A session can be started once it is ready.", w.State)
	}
	if err := s.checkAgent(ctx, req.Agent, executors.Kind(w.Executor)); err != nil {
		return Session{}, err
	}
	if m, ok := s.cfg.Workspaces.(mover); ok {
		if err := m.Moving(ctx, w.ID); err != nil {
			return Session{}, err
		}
	}
	account, err := s.account(ctx, actor, w.TeamID, req, resumed != nil || req.copied != "")
	if err != nil {
		return Session{}, err
	}
	if err := s.cfg.Places.Permit(ctx, w.ID); err != nil {
		return Session{}, err
	}
	place, err := s.cfg.Places.Ensure(executors.As(ctx, executors.ForAgent, actor.User.ID), w.ID)
	if err != nil {
		return Session{}, err
	}
	if s.cfg.Allow != nil && req.Agent == agents.Command {
		if err := s.cfg.Allow(ctx, w, place.Kind, req.Argv, req.Env); err != nil {
			return Session{}, err
		}
	}
	in, err := s.insideOf(ctx, place)
	if err = cmp.Or(err, s.relay.Room(place.SandboxID, req.Agent)); err != nil {
		return Session{}, err
	}
	permissions, dropped, err := s.permissions(req, in, resumed != nil)
	if err != nil {
		return Session{}, err
	}
	row := s.newRow(w, place, req.Agent, actor.User.ID)
	row.ID, req.light = cmp.Or(req.ID, row.ID), actor.User.LightTerminal
	row.Permissions = permissions
	row.Prompt, row.AccountID = req.Prompt, account.ID
	row.Cols, row.Rows = cmp.Or(req.Cols, row.Cols), cmp.Or(req.Rows, row.Rows)
	if account, err = s.gateway.Route(ctx, place, row.ID, row.TeamID, row.Agent, account); err != nil {
		return Session{}, err
	}
	l := agents.Launch{UserID: actor.User.ID, UserName: actor.User.Name, UserEmail: actor.User.Email, SessionID: row.ID, WorkspaceID: w.ID,
		Worktree: worktree(place, w), Light: req.light, Prompt: req.Prompt, Args: req.Argv, Account: account, Conversation: cmp.Or(req.copied, id.UUID()), Hooks: place.Hello.Hooks, Permissions: permissions, Inside: in.in(ctx, place.Guest),
		Brief: s.brief(ctx, place)}
	if l.Tools, err = s.tools(ctx, w, place); err != nil {
		s.gateway.End(ctx, row.ID, account.Gateway.Shown())
		return Session{}, err
	}
	if l.Resume = resumed != nil; l.Resume && resumed.Conversation != "" {
		l.Conversation, l.Known = resumed.Conversation, true
		if err := s.transcripts.Carry(ctx, transcriptRow(*resumed), transcript.Home{Place: place, Inside: in != nil, Own: in != nil && in.own, UserID: actor.User.ID, Worktree: l.Worktree}); err != nil {
			s.cfg.Log.Warn("the record of a conversation could not be copied to the new sandbox", "session_id", resumed.ID, "workspace_id", w.ID, "error", err)
		}
	}
	plan, err := s.cfg.Agents.Plan(req.Agent, l)
	if err != nil {
		s.gateway.End(ctx, row.ID, account.Gateway.Shown())
		return Session{}, diskFull(err)
	}
	if resumed != nil && !plan.Resumed {
		row.StateReason = "started again: the agent has no conversation to continue"
		if l.Prompt = handover(ctx, s, *resumed); l.Prompt != "" {
			if from, err := s.cfg.Agents.Plan(req.Agent, l); err == nil { // a program that takes no prompts begins without one
				plan, row.Prompt = from, l.Prompt
				row.StateReason = "started again with what its last checkpoint knows: the agent has no conversation to continue"
			}
		}
	}
	row.Conversation = plan.Conversation
	if dropped {
		row.StateReason = "asks for permissions again: nothing isolates it here"
	}
	g, err := s.Masks.Given(ctx, w, actor.User.ID, req.Agent)
	if err != nil {
		s.gateway.End(ctx, row.ID, account.Gateway.Shown())
		return Session{}, err
	}
	out, err := s.launch(ctx, row, place, in, l.Worktree, plan, req, g)
	if err != nil {
		s.gateway.End(ctx, row.ID, account.Gateway.Shown())
	}
	return out, err
}

// tools says how the agent reaches Parawork's tools; nil where the sandbox's guest offers none.
func (s *Service) tools(ctx context.Context, w workspaces.Workspace, place *executors.Place) (*agents.Tools, error) {
	if s.cfg.Tools == nil || !place.Hello.Tools {
		return nil, nil
	}
	t, err := s.cfg.Tools(ctx, w)
	return &t, err
}

// handover returns the first prompt of a session that replaces one whose conversation cannot be continued; "" = none.
func handover(ctx context.Context, s *Service, old Session) string {
	if s.cfg.Checkpoints == nil {
		return ""
	}
	text, err := s.cfg.Checkpoints.Handover(ctx, old)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "a session begins without what its checkpoint knows", "session_id", old.ID, "error", err)
	}
	return text
}

// diskFull gives an error its kind when the disk was full.
func diskFull(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full: the session was not started. Free some space in the data folder and try again.")
	}
	return err
}

// worktree is where the agent works, as the sandbox sees it.
func worktree(p *executors.Place, w workspaces.Workspace) string { return cmp.Or(p.Hello.Root, w.Path) }

func (s *Service) newRow(w workspaces.Workspace, p *executors.Place, agent, userID string) Session {
	now := s.now()
	return Session{ID: id.New("ses"), TeamID: w.TeamID, WorkspaceID: w.ID, SandboxID: p.SandboxID, Agent: agent, State: state.Starting, StateAt: now,
		Cols: defCols, Rows: defRows, CreatedBy: userID, StartedAt: now}
}

// launch stores the row, then starts the process: the next start finds whatever happens in between.
func (s *Service) launch(ctx context.Context, row Session, place *executors.Place, in *inside, dir string, plan agents.Plan, req StartRequest, g secrets.Given) (Session, error) {
	row.Argv = plan.Argv
	env := masks.GivenEnv(g) // the session's own come before it
	for _, name := range plan.Drops {
		delete(env, name)
	}
	maps.Copy(env, plan.Env)
	maps.Copy(env, plan.Secrets)
	maps.Copy(env, req.Env)
	hidden := slices.Concat(slices.Collect(maps.Values(plan.Secrets)), environ.Secrets(plan.Env), environ.Secrets(req.Env), g.Masks)
	hidden = append(hidden, s.Masks.ShareMasks(row.WorkspaceID, hidden)...)
	to := s.Masks.Placement(place, in != nil, row.CreatedBy)
	files, skipped := to.Plan(g.Files)
	if err := s.Masks.Remember(ctx, row.TeamID, row.WorkspaceID, files, g.Uses); err != nil {
		return Session{}, err
	}
	if err := s.launches.Keep(row.ID, masks.Launch{Args: req.Argv, Env: req.Env, Secrets: hidden, Uses: g.Uses, Files: files, Inside: in != nil, NoWall: req.ConfirmNoBoundary,
		Token: plan.Secrets[guest.EnvGatewayToken], ByKey: plan.ByKey, Own: g.Personal}); err != nil {
		return Session{}, diskFull(err)
	}
	l, err := s.newLive(row, hidden)
	if err != nil {
		return Session{}, diskFull(err)
	}
	l.masks.Give(masks.Given{Uses: g.Uses, Files: files, Own: g.Personal})
	l.token, l.byKey = plan.Secrets[guest.EnvGatewayToken], plan.ByKey
	s.gateway.Admit(l.token, row.SandboxID)
	if g.Withheld > 0 {
		l.notice = "Your own secrets were not given to this session: others who work in this workspace could read them. Agree in the workspace's menu and start it again, or make the workspace private."
	}
	if skipped {
		l.notice = "Files of secrets that belong below the home were not written: this home is the machine owner's own."
	}
	l.guest, l.worktree, l.inside, l.search.home = place.Guest, dir, in, claimHome(place, in, row)
	l.rec.NoteSize(guest.Size{Cols: l.row.Cols, Rows: l.row.Rows})
	l.rec.SetTheme(req.light)
	if !s.add(l) {
		return Session{}, ErrRestarting
	}
	s.followRecord(ctx, l)
	// From here on the session must reach a result, even if the caller disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	if err := s.cfg.Store.InsertSession(ctx, row, l.search.home); err != nil {
		s.release(l)
		if err := os.RemoveAll(s.dir(row.ID)); err != nil {
			s.cfg.Log.Warn("folder of a session that never started could not be removed", "session_id", row.ID, "error", err)
		}
		if fault.Is(err, fault.Conflict) {
			return Session{}, err
		}
		return Session{}, fmt.Errorf("storing session %s: %w", row.ID, err)
	}
	failpoint.Reach(failpoint.SessionStored)
	s.relay.Admit(row.ID, row.TeamID, row.WorkspaceID, row.CreatedBy, row.Agent, row.SandboxID)
	if err := s.Masks.Place(ctx, to, row.WorkspaceID, g.Files, files); err != nil {
		return l.notStarted(ctx, err)
	}
	p, err := startProcess(ctx, l, guest.ProcessSpec{ID: row.ID, Argv: plan.Argv, Cwd: dir, Env: env, Tty: true, Size: guest.Size{Cols: row.Cols, Rows: row.Rows}})
	if err != nil {
		return l.notStarted(ctx, err)
	}
	failpoint.Reach(failpoint.SessionStarted)
	if plan.Prompt == agents.PromptArgument && row.Prompt != "" {
		l.mu.Lock()
		l.row.PromptSentAt = s.now()
		l.notePrompt(row.Prompt)
		l.mu.Unlock()
		l.markPrompt(row.Prompt)
	}
	if p.State == guest.Exited && strings.HasPrefix(p.Reason, "start_failed") {
		if missing := in.in(ctx, place.Guest); missing != nil && notThere(p.Reason) {
			p.Reason = "start_failed: " + s.cfg.Agents.NotFound(row.Agent, missing) + lookedFor(p.Reason)
		}
		l.finish(ctx, endingOf(p, ""))
		row = l.snapshot()
		s.release(l)
		return s.hydrate(row), nil
	}
	l.mu.Lock()
	l.judge()
	l.mu.Unlock()
	s.touch(l)
	s.publish(ctx, row)
	s.record(ctx, row)
	s.cfg.Log.Info("session started", "session_id", row.ID, "workspace_id", row.WorkspaceID, "agent", row.Agent)
	if plan.Prompt == agents.PromptPaste && row.Prompt != "" {
		s.run(func() { l.prompts.Deliver(s.hard, row.Prompt) })
	}
	if !s.run(func() { l.pump(s.hard) }) {
		s.release(l)
	}
	return s.hydrate(l.snapshot()), nil
}

// notStarted ends a session that could not be started. Only the fault of a sandbox that said nothing is also an error of the request.
func (l *live) notStarted(ctx context.Context, err error) (Session, error) {
	s := l.svc
	l.finish(ctx, ending{state: state.Failed, reason: "could not start: " + fault.Words(err, "its sandbox did not answer")})
	defer s.release(l)
	if _, reported := errors.AsType[*fault.Error](err); reported {
		return s.hydrate(l.snapshot()), nil
	}
	return s.hydrate(l.snapshot()), fault.Wrap(err, fault.Unavailable, "session_not_started", "The session could not be started: its sandbox did not answer.")
}

// startProcess starts the process. The guest starts the same ID only once, so a lost answer is requested again.
func startProcess(ctx context.Context, l *live, spec guest.ProcessSpec) (p guest.Process, err error) {
	for try := range 3 {
		if try > 0 && !tasks.Sleep(ctx, 200*time.Millisecond<<try) {
			return p, err
		}
		if p, err = l.guest.Start(ctx, spec); err == nil {
			return p, nil
		}
		if _, reported := errors.AsType[*fault.Error](err); reported {
			return p, err
		}
	}
	return p, err
}

// StartSetup starts a project's setup script in a workspace that is being created, as a session people can watch. Env values
// whose names sound secret are masked in its output.
func (s *Service) StartSetup(ctx context.Context, w workspaces.Workspace, script string, env map[string]string) (string, error) {
	req := StartRequest{Agent: agents.Setup, Env: env}
	if err := req.check(); err != nil {
		return "", err
	}
	if strings.ContainsRune(script, 0) || len(script) > 100<<10 {
		return "", fault.New(fault.Invalid, "invalid_setup_script", "The setup script must be text of at most 100 KiB. Put a longer one into the repository and call it.")
	}
	if err := s.cfg.Places.Permit(ctx, w.ID); err != nil {
		return "", err
	}
	place, err := s.cfg.Places.Ensure(executors.As(ctx, executors.ForAgent, w.CreatedBy), w.ID)
	if err != nil {
		return "", err
	}
	row := s.newRow(w, place, agents.Setup, w.CreatedBy)
	in, err := s.insideOf(ctx, place)
	if err != nil {
		return "", err
	}
	l := agents.Launch{Inside: in.in(ctx, place.Guest), UserID: w.CreatedBy, SessionID: row.ID, WorkspaceID: w.ID, Worktree: worktree(place, w)}
	if who, err := s.cfg.Accounts.Actor(ctx, w.CreatedBy); err == nil {
		l.UserName, l.UserEmail = who.User.Name, who.User.Email
	}
	plan, err := s.cfg.Agents.SetupPlan(script, l)
	if err != nil {
		return "", diskFull(err)
	}
	g, err := s.Masks.Given(ctx, w, w.CreatedBy, agents.Setup)
	if err != nil {
		return "", err
	}
	row, err = s.launch(ctx, row, place, in, l.Worktree, plan, req, g)
	return row.ID, err
}

func (r StartRequest) check() error {
	bad := func(format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_session", format, args...)
	}
	if r.Agent == "" {
		return bad("The request names no agent. Choose which agent to start.")
	}
	if len(r.Prompt) > prompt.MaxBytes {
		return bad("The prompt is longer than 1 MiB.")
	}
	if strings.ContainsRune(r.Prompt, 0) || !utf8.ValidString(r.Prompt) {
		return bad("The prompt must be UTF-8 text without NUL characters.")
	}
	if r.Cols > maxCols || r.Rows > maxRows {
		return bad("A terminal has at most %d columns and %d rows.", maxCols, maxRows)
	}
	return environ.Check(r.Argv, r.Env)
}
