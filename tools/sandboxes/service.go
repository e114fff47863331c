// Package sandboxes gives out sandboxes without a repository: places to run commands, code and programs that callers of the API ask for,
// find again by a key and let go. Each is a workspace of the team's hidden project, so that quotas, cost, tenancy, previews and recovery
// are those of workspaces; this package keeps the row that names its key, its purpose and its end.
//
// The row is stored before the workspace is made and has its id, and says that a sandbox ended before the workspace is removed: after a
// crash, the next request or the loop of Run goes on from what the row says.
//
// Goroutines: Run's, a few of it that look at sandboxes, and a few for each team that remove its sandboxes. Locks: one for each key while a sandbox is looked for and made, one for each
// sandbox while its workspace is made or removed, and one for what was seen of uses.
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
	"github.com/parawork/parawork/workspaces"
)

// Config configures a Service.
type Config struct {
	Store      Store
	Workspaces Workspaces
	Places     Places
	Sessions   Sessions
	Rules      Rules
	// Actor returns a user with their memberships.
	Actor func(ctx context.Context, userID string) (accounts.Actor, error)
	Now   func() time.Time
	After func(time.Duration) <-chan time.Time
	Log   *slog.Logger
}

// Service gives out sandboxes. Safe for concurrent use.
type Service struct {
	cfg    Config
	making locks.Keyed // by team, user, key and purpose; then by id

	mu       sync.Mutex
	seen     map[string]uint64 // how often a sandbox was used when it was last looked at, by id
	held     map[string]int    // how many requests use a sandbox now, by id
	cleaning map[string]bool   // teams whose sandboxes Run removes now
}

// New makes a Service. It starts nothing.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Workspaces == nil || cfg.Places == nil || cfg.Sessions == nil || cfg.Rules == nil || cfg.Actor == nil {
		panic(errors.New("sandboxes: Store, Workspaces, Places, Sessions, Rules and Actor are required"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.After == nil {
		cfg.After = time.After
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, seen: map[string]uint64{}, held: map[string]int{}, cleaning: map[string]bool{}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// healthFor is how long a sandbox that was found healthy is not asked again.
const healthFor = 30 * time.Second

// Obtain returns the user's live sandbox with the key and purpose of the request, or makes one. It runs when Obtain returns.
func (s *Service) Obtain(ctx context.Context, actor accounts.Actor, teamID string, r Request) (_ Sandbox, made bool, err error) {
	if err := check(&r); err != nil {
		return Sandbox{}, false, err
	}
	p, err := s.plan(ctx, teamID, actor.User.ID, r)
	if err != nil {
		return Sandbox{}, false, err
	}
	if r.Key == "" {
		return s.make(ctx, actor, teamID, p)
	}
	unlock, err := s.making.LockContext(ctx, strings.Join([]string{teamID, actor.User.ID, string(r.Purpose), r.Key}, "\x00"))
	if err != nil {
		return Sandbox{}, false, err
	}
	defer unlock()
	sb, err := s.find(ctx, actor, teamID, p)
	if !hasEnded(err) {
		return sb, false, err
	}
	sb, made, err = s.make(ctx, actor, teamID, p)
	if errors.Is(err, errTaken) { // another server was faster
		p.Replace = false
		sb, err = s.find(ctx, actor, teamID, p)
	}
	return sb, made, err
}

// errTaken means that the user has a live sandbox with this key and purpose.
var errTaken = errors.New("the key is taken")

// find returns the user's live sandbox with the key and purpose of a request, once it runs. One that is of no use is ended; see hasEnded.
func (s *Service) find(ctx context.Context, actor accounts.Actor, teamID string, p plan) (Sandbox, error) {
	sb, err := s.cfg.Store.SandboxByKey(ctx, teamID, actor.User.ID, p.Key, p.Purpose)
	if fault.Is(err, fault.NotFound) {
		return Sandbox{}, errEnded()
	} else if err != nil {
		return Sandbox{}, err
	}
	if field := p.differs(sb); field != "" {
		if !p.Replace {
			return Sandbox{}, errDiffers(sb, field)
		}
		if _, err := s.furnished(ctx, actor, teamID, p); err != nil { // then the old one stays
			return Sandbox{}, err
		}
		s.endLeft(ctx, sb.ID)
		return Sandbox{}, errEnded()
	}
	if sb, err = s.ready(ctx, actor, sb); hasEnded(err) {
		s.endLeft(ctx, sb.ID) // it has just ended, or its workspace was deleted
	}
	return sb, err
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
	r.Image = strings.TrimSpace(r.Image)
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

// furnished returns a new sandbox as a request asks for it.
func (s *Service) furnished(ctx context.Context, actor accounts.Actor, teamID string, p plan) (Sandbox, error) {
	if p.SessionID != "" {
		if ended, err := s.cfg.Sessions.Ended(ctx, teamID, p.SessionID); err != nil {
			return Sandbox{}, err
		} else if ended {
			return Sandbox{}, fault.New(fault.Invalid, "sandbox_session_ended", "The team has no session %.100q, or it has ended. Name a session that runs.", p.SessionID).With("field", "end_with_session")
		}
	}
	now := s.now()
	sb := Sandbox{ID: id.New("asb"), TeamID: teamID, UserID: actor.User.ID, Key: p.Key, Purpose: p.Purpose, WorkspaceID: id.New("ws"), Executor: string(p.Executor), IdleMs: p.Idle.Milliseconds(),
		SessionID: p.SessionID, CreatedAt: now, UsedAt: now}
	if p.Life > 0 {
		sb.EndsBy = now + p.Life.Milliseconds()
	}
	sb.endsAt(now + sb.IdleMs)
	return sb, s.furnish(ctx, &sb, p)
}

// make makes a new sandbox.
func (s *Service) make(ctx context.Context, actor accounts.Actor, teamID string, p plan) (Sandbox, bool, error) {
	sb, err := s.furnished(ctx, actor, teamID, p)
	if err != nil {
		return Sandbox{}, false, err
	}
	if err := s.cfg.Store.InsertSandbox(ctx, sb, cmp.Or(p.Most, MaxOpen)); fault.Is(err, fault.Conflict) && fault.CodeOf(err) != "sandbox_limit" {
		return Sandbox{}, false, errTaken
	} else if err != nil {
		return Sandbox{}, false, err
	}
	return s.begin(ctx, actor, sb)
}

// begin makes a sandbox that was stored. One that cannot be made ends; one whose caller left is found again by its key.
func (s *Service) begin(ctx context.Context, actor accounts.Actor, sb Sandbox) (Sandbox, bool, error) {
	failpoint.Reach(failpoint.SandboxRowStored)
	out, err := s.ready(ctx, actor, sb)
	if err != nil {
		if sb.Key == "" || ctx.Err() == nil {
			s.endLeft(ctx, sb.ID)
		}
		return Sandbox{}, false, err
	}
	return out, true, nil
}

// endLeft ends a sandbox that is of no use. What it cannot remove, the loop removes.
func (s *Service) endLeft(ctx context.Context, sandboxID string) {
	if err := s.End(context.WithoutCancel(ctx), sandboxID); err != nil {
		s.cfg.Log.WarnContext(ctx, "a sandbox of no use was not cleaned up yet", "id", sandboxID, "error", err)
	}
}

// ready returns a sandbox once it runs and was healthy lately. With an error, the sandbox is what it was.
func (s *Service) ready(ctx context.Context, actor accounts.Actor, sb Sandbox) (Sandbox, error) {
	defer s.hold(sb.ID)()
	w, err := s.workspace(ctx, actor, sb)
	if err != nil {
		return sb, err
	}
	if err := s.await(ctx, w); err != nil {
		return sb, err
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
		return sb, err
	}
	out, err := s.touch(ctx, sb.ID, func(row *Sandbox) { row.CheckedAt = sb.CheckedAt })
	if err != nil {
		return sb, err
	}
	return out, nil
}

// workspace returns a sandbox's workspace, and begins to make it when there is none. It makes none for a sandbox that has ended meanwhile:
// nobody would remove it.
func (s *Service) workspace(ctx context.Context, actor accounts.Actor, sb Sandbox) (workspaces.Workspace, error) {
	unlock, err := s.making.LockContext(ctx, sb.ID)
	if err != nil {
		return workspaces.Workspace{}, err
	}
	defer unlock()
	if _, err := s.Get(ctx, sb.ID); err != nil {
		return workspaces.Workspace{}, err
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
	switch {
	case fault.Is(err, fault.NotFound):
		p, err := s.cfg.Workspaces.Sandboxes(ctx, sb.TeamID, sb.UserID)
		if err != nil {
			return workspaces.Workspace{}, err
		}
		return s.cfg.Workspaces.Create(ctx, actor, sb.TeamID, workspaces.NewWorkspace{ID: sb.WorkspaceID, ProjectID: p.ID, Name: name(sb), Base: "refs/heads/" + p.DefaultBranch,
			Branch: "sandbox/" + sb.ID, Executor: sb.Executor, Private: true})
	case err == nil && w.State == workspaces.Failed && w.DeletedAt == 0:
		return s.cfg.Workspaces.RetryCreate(ctx, w.ID)
	}
	return w, err
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
	if w.DeletedAt != 0 || w.State == workspaces.Archived {
		return errEnded()
	}
	if w.State == workspaces.Failed {
		return fault.New(fault.Unavailable, "sandbox_failed", "The sandbox could not be made: %s", w.StateReason)
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

// Open returns the sandboxes of ctx's teams of which something is left, ended ones too.
func (s *Service) Open(ctx context.Context) ([]Sandbox, error) { return s.cfg.Store.OpenSandboxes(ctx) }

// Use notes that a sandbox is used until ctx, which is that of a request, ends. It may be idle anew from then on.
func (s *Service) Use(ctx context.Context, sandboxID string) (Sandbox, error) {
	release := s.hold(sandboxID)
	sb, err := s.touch(ctx, sandboxID, func(*Sandbox) {})
	if err != nil {
		release()
		return sb, err
	}
	context.AfterFunc(ctx, release)
	return sb, nil
}

// Extend lets a live sandbox live at least so long from now, used or not.
func (s *Service) Extend(ctx context.Context, sandboxID string, by time.Duration) (Sandbox, error) {
	if by <= 0 || by > maxIdle {
		return Sandbox{}, fault.New(fault.Invalid, "sandbox_idle_invalid", "seconds may be 1 to %d.", int(maxIdle.Seconds())).With("field", "seconds")
	}
	return s.touch(ctx, sandboxID, func(sb *Sandbox) { sb.endsAt(s.now() + by.Milliseconds()) })
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
		sb.endsAt(sb.UsedAt + sb.IdleMs)
		fn(sb)
		return nil
	})
}
