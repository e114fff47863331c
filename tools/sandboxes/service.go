// Package sandboxes gives out sandboxes without a repository: places to run commands, code and programs that callers of the API ask for,
// find again by a key and let go. Each is a workspace of the team's hidden project, so that quotas, cost, tenancy, previews and recovery
// are those of workspaces; this package keeps the row that names its key, its purpose and its end.
//
// The row is stored before the workspace is made and has its id, and says that a sandbox ended before the workspace is removed: after a
// crash, the next request or the loop of Run goes on from what the row says.
//
// Goroutines: Run's, one. Locks: one for each key while a sandbox is looked for and made, and one for what was seen of uses.
package sandboxes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/locks"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Service.
type Config struct {
	Store      Store
	Workspaces Workspaces
	Places     Places
	Sessions   Sessions
	// Actor returns a user with their memberships.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Service gives out sandboxes. Safe for concurrent use.
type Service struct {
	cfg    Config
	making locks.Keyed // by team, user, key and purpose; or by id

	mu   sync.Mutex
	seen map[string]uint64 // how often a sandbox was used when it was last looked at, by id
}

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil || cfg.Places == nil || cfg.Sessions == nil || cfg.Actor == nil {
		panic(errors.New("sandboxes: Store, Workspaces, Places, Sessions and Actor are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, seen: map[string]uint64{}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// healthFor is how long a sandbox that was found healthy is not asked again.
const healthFor = 30 * time.Second

// Obtain returns the user's live sandbox with the key and purpose of the request, or makes one. It runs when Obtain returns.
func (s *Service) Obtain(ctx context.Context, actor accounts.Actor, teamID string, r Request) (_ Sandbox, made bool, err error) {
	if err := check(&r); err != nil {
		return Sandbox{}, false, err
	}
	if r.Key == "" {
		sb, err := s.insert(ctx, actor, teamID, r)
		if err != nil {
			return Sandbox{}, false, err
		}
		return s.begin(ctx, actor, sb)
	}
	unlock, err := s.making.LockContext(ctx, strings.Join([]string{teamID, actor.User.ID, string(r.Purpose), r.Key}, "\x00"))
	if err != nil {
		return Sandbox{}, false, err
	}
	defer unlock()
	sb, err := s.cfg.Store.SandboxByKey(ctx, teamID, actor.User.ID, r.Key, r.Purpose)
	if fault.Is(err, fault.NotFound) {
		if sb, err = s.insert(ctx, actor, teamID, r); fault.Is(err, fault.Conflict) && fault.CodeOf(err) != "sandbox_limit" { // another server was faster
			sb, err = s.cfg.Store.SandboxByKey(ctx, teamID, actor.User.ID, r.Key, r.Purpose)
		} else if err == nil {
			return s.begin(ctx, actor, sb)
		}
	}
	if err != nil {
		return Sandbox{}, false, err
	}
	sb, err = s.ready(ctx, actor, sb)
	return sb, false, err
}

func check(r *Request) error {
	switch r.Purpose {
	case executors.ForApp, executors.ForExecution, executors.ForDesktop:
	default:
		return fault.New(fault.Invalid, "sandbox_purpose_invalid", "The purpose of a sandbox is app, execution or desktop.").With("field", "purpose")
	}
	if err := checkKey(r.Key); err != nil {
		return err
	}
	r.Idle = cmp.Or(r.Idle, idleOf(r.Purpose))
	if r.Idle < minIdle || r.Idle > maxIdle {
		return fault.New(fault.Invalid, "sandbox_idle_invalid", "idle_seconds may be %d to %d.", int(minIdle.Seconds()), int(maxIdle.Seconds())).With("field", "idle_seconds")
	}
	return nil
}

func checkKey(key string) error {
	if len(key) > MaxKey || !utf8.ValidString(key) || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fault.New(fault.Invalid, "sandbox_key_invalid", "A key has at most %d bytes of text without control characters.", MaxKey).With("field", "key")
	}
	return nil
}

func (s *Service) insert(ctx context.Context, actor accounts.Actor, teamID string, r Request) (Sandbox, error) {
	n, err := s.cfg.Store.CountSandboxes(ctx, teamID, actor.User.ID)
	if err != nil {
		return Sandbox{}, err
	}
	if n >= MaxOpen {
		return Sandbox{}, fault.New(fault.Conflict, "sandbox_limit", "You have %d sandboxes in this team. End one of them first.", n)
	}
	now := s.now()
	sb := Sandbox{ID: id.New("asb"), TeamID: teamID, UserID: actor.User.ID, Key: r.Key, Purpose: r.Purpose, WorkspaceID: id.New("ws"), Executor: string(r.Executor), IdleMs: r.Idle.Milliseconds(),
		SessionID: r.SessionID, CreatedAt: now, UsedAt: now, EndsAt: now + r.Idle.Milliseconds()}
	return sb, s.cfg.Store.InsertSandbox(ctx, sb)
}

// begin makes a sandbox that was stored. One that cannot be made ends.
func (s *Service) begin(ctx context.Context, actor accounts.Actor, sb Sandbox) (Sandbox, bool, error) {
	failpoint.Reach(failpoint.SandboxRowStored)
	out, err := s.ready(ctx, actor, sb)
	if err != nil {
		if eerr := s.End(context.WithoutCancel(ctx), sb.ID); eerr != nil {
			s.cfg.Log.WarnContext(ctx, "a sandbox that could not be made was not cleaned up yet", "id", sb.ID, "error", eerr)
		}
		return Sandbox{}, false, err
	}
	return out, true, nil
}

// ready returns a sandbox once it runs and was healthy lately.
func (s *Service) ready(ctx context.Context, actor accounts.Actor, sb Sandbox) (Sandbox, error) {
	w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
	switch {
	case fault.Is(err, fault.NotFound):
		var p workspaces.Project
		if p, err = s.cfg.Workspaces.Sandboxes(ctx, sb.TeamID, sb.UserID); err != nil {
			return Sandbox{}, err
		}
		w, err = s.cfg.Workspaces.Create(ctx, actor, sb.TeamID, workspaces.NewWorkspace{ID: sb.WorkspaceID, ProjectID: p.ID, Name: name(sb), Base: "refs/heads/" + p.DefaultBranch,
			Branch: "sandbox/" + sb.ID, Executor: sb.Executor, Private: true})
	case err == nil && w.State == workspaces.Failed:
		w, err = s.cfg.Workspaces.RetryCreate(ctx, w.ID)
	}
	if err != nil {
		return Sandbox{}, err
	}
	if err := s.await(ctx, w); err != nil {
		return Sandbox{}, err
	}
	if s.now()-sb.CheckedAt >= healthFor.Milliseconds() {
		if _, ok := s.cfg.Places.Live(w.ID); ok {
			if err := s.cfg.Places.Check(ctx, w.ID); err != nil { // one that is gone is replaced below
				s.cfg.Log.DebugContext(ctx, "a sandbox did not answer", "id", sb.ID, "error", err)
			}
		}
		sb.CheckedAt = s.now()
	}
	if _, err := s.cfg.Places.EnsureFor(ctx, w.ID, sb.Purpose, actor.User.ID); err != nil {
		return Sandbox{}, err
	}
	return s.touch(ctx, sb.ID, func(row *Sandbox) { row.CheckedAt = sb.CheckedAt })
}

func name(sb Sandbox) string {
	if sb.Key == "" {
		return fmt.Sprintf("Sandbox for %s", sb.Purpose)
	}
	r := []rune(sb.Key)
	return fmt.Sprintf("Sandbox %s (%s)", string(r[:min(len(r), 60)]), sb.Purpose)
}

// lookAgain is how often a workspace that is being made is looked at.
const lookAgain = 50 * time.Millisecond

// await waits until a workspace has been made.
func (s *Service) await(ctx context.Context, w workspaces.Workspace) error {
	for w.State == workspaces.Creating || w.State == workspaces.SettingUp {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lookAgain):
		}
		var err error
		if w, err = s.cfg.Workspaces.Workspace(ctx, w.ID); err != nil {
			return err
		}
	}
	if w.State == workspaces.Failed {
		return fault.New(fault.Unavailable, "sandbox_failed", "The sandbox could not be made: %s", w.StateReason)
	}
	if w.DeletedAt != 0 || w.State == workspaces.Archived {
		return errEnded()
	}
	return nil
}

// Get returns a live sandbox.
func (s *Service) Get(ctx context.Context, sandboxID string) (Sandbox, error) {
	sb, err := s.cfg.Store.Sandbox(ctx, sandboxID)
	if err == nil && sb.EndedAt != 0 || fault.Is(err, fault.NotFound) {
		return Sandbox{}, errEnded()
	}
	return sb, err
}

// List returns a page of the team's live sandboxes, the newest first; of one user unless userID is "".
func (s *Service) List(ctx context.Context, teamID, userID string, pg page.Page) ([]Sandbox, string, error) {
	return s.cfg.Store.Sandboxes(ctx, teamID, userID, pg)
}

// Use notes that a sandbox is used: it may be idle anew from now on.
func (s *Service) Use(ctx context.Context, sandboxID string) (Sandbox, error) {
	return s.touch(ctx, sandboxID, func(*Sandbox) {})
}

// Extend lets a live sandbox live at least so long from now, used or not.
func (s *Service) Extend(ctx context.Context, sandboxID string, by time.Duration) (Sandbox, error) {
	if by <= 0 || by > maxIdle {
		return Sandbox{}, fault.New(fault.Invalid, "sandbox_idle_invalid", "seconds may be 1 to %d.", int(maxIdle.Seconds())).With("field", "seconds")
	}
	return s.touch(ctx, sandboxID, func(sb *Sandbox) { sb.EndsAt = max(sb.EndsAt, s.now()+by.Milliseconds()) })
}

// SetKey gives a live sandbox another key; "" takes it away.
func (s *Service) SetKey(ctx context.Context, sandboxID, key string) (Sandbox, error) {
	if err := checkKey(key); err != nil {
		return Sandbox{}, err
	}
	sb, err := s.touch(ctx, sandboxID, func(sb *Sandbox) { sb.Key = key })
	if fault.Is(err, fault.Conflict) {
		err = fault.New(fault.Conflict, "sandbox_key_taken", "You have another sandbox with this key and purpose. End it first, or choose another key.").With("field", "key")
	}
	return sb, err
}

func (s *Service) touch(ctx context.Context, sandboxID string, fn func(*Sandbox)) (Sandbox, error) {
	return s.cfg.Store.EditSandbox(ctx, sandboxID, func(sb *Sandbox) error {
		if sb.EndedAt != 0 {
			return errEnded()
		}
		sb.UsedAt = s.now()
		sb.EndsAt = max(sb.EndsAt, sb.UsedAt+sb.IdleMs)
		fn(sb)
		return nil
	})
}

// End ends a sandbox and removes everything in it. It is idempotent. An error says that something is left, which the loop removes.
func (s *Service) End(ctx context.Context, sandboxID string) error {
	sb, err := s.cfg.Store.EditSandbox(ctx, sandboxID, func(sb *Sandbox) error {
		sb.EndedAt = cmp.Or(sb.EndedAt, s.now())
		return nil
	})
	if err != nil || sb.Cleaned {
		return err
	}
	failpoint.Reach(failpoint.SandboxRowEnded)
	return s.clean(ctx, sb)
}

// clean removes what is left of a sandbox that has ended.
func (s *Service) clean(ctx context.Context, sb Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	unlock, err := s.making.LockContext(ctx, sb.ID)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
	if err == nil && w.DeletedAt == 0 {
		actor := accounts.Actor{User: accounts.User{ID: sb.UserID}}
		_, err = s.cfg.Workspaces.Delete(executors.Discard(ctx), actor, w.ID)
	}
	if err == nil {
		err = s.cfg.Workspaces.Purge(ctx, sb.WorkspaceID)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("removing the sandbox %s: %w", sb.ID, err)
	}
	s.mu.Lock()
	delete(s.seen, sb.ID)
	s.mu.Unlock()
	_, err = s.cfg.Store.EditSandbox(ctx, sb.ID, func(sb *Sandbox) error { sb.Cleaned = true; return nil })
	return err
}

const (
	cleanTime = 5 * time.Minute
	lookEvery = 15 * time.Second
	keepRows  = 7 * 24 * time.Hour // of sandboxes that have ended
)

// Run ends expired sandboxes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "sandboxes of all teams expire")
	for {
		s.Expire(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-s.cfg.After(lookEvery):
		}
	}
}

// Expire ends what is due now, and removes what is left of what has ended.
func (s *Service) Expire(ctx context.Context) {
	open, err := s.cfg.Store.OpenSandboxes(ctx)
	if err == nil {
		err = s.cfg.Store.ForgetSandboxes(ctx, s.now()-keepRows.Milliseconds())
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "sandboxes could not be looked at", "error", err)
	}
	for _, sb := range open {
		if ctx.Err() != nil {
			return
		}
		if err := s.look(ctx, sb); err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "a sandbox could not be looked at or ended", "id", sb.ID, "error", err)
		}
	}
}

func (s *Service) look(ctx context.Context, sb Sandbox) error {
	if sb.EndedAt != 0 {
		return s.clean(ctx, sb)
	}
	if sb.SessionID != "" {
		if ended, err := s.cfg.Sessions.Ended(ctx, sb.TeamID, sb.SessionID); err != nil || ended {
			return errors.Join(err, s.endIf(ctx, sb, err == nil))
		}
	}
	used, err := s.used(ctx, sb)
	if err != nil {
		return err
	}
	if used {
		_, err := s.Use(ctx, sb.ID)
		return err
	}
	return s.endIf(ctx, sb, sb.EndsAt <= s.now())
}

func (s *Service) endIf(ctx context.Context, sb Sandbox, due bool) error {
	if !due {
		return nil
	}
	return s.End(ctx, sb.ID)
}

// used reports whether a sandbox was used since it was last looked at: by its user's commands, files, code and ports, or by a session.
func (s *Service) used(ctx context.Context, sb Sandbox) (bool, error) {
	if n, err := s.cfg.Sessions.Running(ctx, sb.WorkspaceID); err != nil || n > 0 {
		return n > 0, err
	}
	p, ok := s.cfg.Places.Live(sb.WorkspaceID)
	if !ok {
		return false, nil
	}
	uses, busy := p.Used()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.seen[sb.ID]
	s.seen[sb.ID] = uses
	return busy || known && before != uses, nil
}
