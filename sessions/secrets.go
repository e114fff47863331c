package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/workspaces"
)

// Secrets is what the room needs to know of secrets.
type Secrets interface {
	// For returns what a session is given, and every value it must not show.
	For(ctx context.Context, a secrets.Ask) (secrets.Given, error)
	// Remember notes what a workspace is about to be given, for as long as there is the workspace.
	Remember(ctx context.Context, teamID, workspaceID string, files []secrets.KnownFile, uses []secrets.Use) error
	// Pass has a workspace know what another was given.
	Pass(ctx context.Context, teamID, from, to string) error
	// Known returns what a workspace was ever given.
	Known(ctx context.Context, workspaceID string) (*secrets.Known, error)
}

// maxGivenEnv bounds, in bytes, what secrets add to a session's environment.
const maxGivenEnv = 256 << 10

// SecretUse says which value of which secret a running session was given.
type SecretUse struct {
	SecretID, SessionID, WorkspaceID, Agent string
	Version                                 int64
}

// placed is a file that was written for a session.
type placed struct {
	Home bool   `json:"home,omitempty"` // Path is below the home, else below the worktree
	Path string `json:"path"`
	Sum  string `json:"sum"` // sha256 hex of what was written

	Blob    string `json:"blob,omitempty"`    // git's name of it, in a repository of SHA-1
	Blob256 string `json:"blob256,omitempty"` // likewise, of SHA-256
}

// given returns what the secrets give a session of userID in w.
func (s *Service) given(ctx context.Context, w workspaces.Workspace, userID, agent string) (secrets.Given, error) {
	if s.cfg.Secrets == nil {
		return secrets.Given{}, nil
	}
	g, err := s.cfg.Secrets.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: userID, Agent: agent,
		WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == userID})
	if err != nil {
		return g, err
	}
	size := 0
	for name, value := range g.Env {
		size += len(name) + len(value) + 2
	}
	if size > maxGivenEnv {
		return g, fault.New(fault.TooLarge, "secrets_too_large", "The secrets given to this session as variables are longer than %d KiB together. Make the long ones files.", maxGivenEnv>>10)
	}
	return g, nil
}

// GivenEnv is the environment secrets make: their variables, and git credentials the project lets in, each for its host alone.
func GivenEnv(g secrets.Given) map[string]string {
	env := maps.Clone(g.Env)
	if env == nil {
		env = map[string]string{}
	}
	for i, c := range g.Git {
		n := strconv.Itoa(i)
		env["GIT_CONFIG_KEY_"+n] = "credential.https://" + c.Host + ".helper"
		env["GIT_CONFIG_VALUE_"+n] = `!f() { test "$1" = get && printf 'username=%s\npassword=%s\n' "$PARAWORK_GIT_USERNAME_` + n + `" "$PARAWORK_GIT_TOKEN_` + n + `"; }; f`
		username := c.Username
		if username == "" {
			username = c.Token
		}
		env["PARAWORK_GIT_USERNAME_"+n], env["PARAWORK_GIT_TOKEN_"+n] = username, c.Token
	}
	if len(g.Git) > 0 {
		env["GIT_CONFIG_COUNT"] = strconv.Itoa(len(g.Git))
	}
	return env
}

// hiding masks texts that are no part of the terminal's stream. Safe for concurrent use.
type hiding struct {
	mu     sync.Mutex
	masker *redact.Masker
	values []string
}

func newHiding(values []string) *hiding {
	return &hiding{masker: redact.New(values...), values: slices.Clone(values)}
}

func (h *hiding) add(values []string) (fresh []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range values {
		if !slices.Contains(h.values, v) {
			fresh = append(fresh, v)
		}
	}
	h.masker.Add(fresh...)
	h.values = append(h.values, fresh...)
	return fresh
}

func (h *hiding) all() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.values)
}

// text returns s with secrets masked.
func (h *hiding) text(s string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.masker.Text(s)
}

// ask masks a question.
func (h *hiding) ask(a agents.Ask) agents.Ask {
	a.Title, a.Detail, a.Options = h.text(a.Title), h.text(a.Detail), slices.Clone(a.Options)
	for i := range a.Options {
		a.Options[i].Label, a.Options[i].Description = h.text(a.Options[i].Label), h.text(a.Options[i].Description)
	}
	return a
}

// Mask lets every running session a secret could reach mask what is new of it: those of its team, or those of its user and whatever runs
// in the same workspaces.
func (s *Service) Mask(k secrets.Secret, masks []string) {
	lives := s.withRef(func(*live) bool { return true })
	theirs := map[string]bool{}
	for _, l := range lives {
		if k.UserID != "" && l.creator() == k.UserID {
			theirs[l.workspaceID] = true
		}
	}
	for _, l := range lives {
		if k.TeamID != "" && l.teamID() == k.TeamID || theirs[l.workspaceID] {
			l.hide(masks)
		}
		s.release(l)
	}
}

// withRef returns the running sessions that fit, each with a reference the caller gives back.
func (s *Service) withRef(fits func(l *live) bool) []*live {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*live
	for _, l := range s.lives {
		if fits(l) {
			l.refs++
			out = append(out, l)
		}
	}
	return out
}

func (l *live) creator() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row.CreatedBy
}

func (l *live) teamID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row.TeamID
}

func (l *live) ended() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row.State.Ended()
}

// hide masks further values in what the session prints from now on, and remembers them over a restart.
func (l *live) hide(values []string) {
	if l.ended() {
		return
	}
	fresh := l.hiding.add(values)
	if len(fresh) == 0 {
		return
	}
	l.outMu.Lock()
	l.masker.Add(fresh...)
	l.outMu.Unlock()
	l.keptMu.Lock()
	defer l.keptMu.Unlock()
	if l.ended() {
		return
	}
	kept, err := l.svc.recall(l.id)
	if err == nil {
		kept.Secrets = append(kept.Secrets, fresh...)
		err = l.svc.keepLaunch(l.id, kept)
	}
	if err != nil {
		l.svc.cfg.Log.Warn("new secrets of a running session not kept", "session_id", l.id, "error", err)
	}
}

// ShareMasks lets all sessions that run in one workspace mask what something else there was given, and returns what they mask already.
func (s *Service) ShareMasks(workspaceID string, masks []string) []string {
	var theirs []string
	for _, l := range s.withRef(func(l *live) bool { return l.workspaceID == workspaceID }) {
		if !l.ended() {
			theirs = append(theirs, l.hiding.all()...)
			l.hide(masks)
		}
		s.release(l)
	}
	return theirs
}

// SecretUses returns which values of which secrets running sessions were given.
func (s *Service) SecretUses() []SecretUse {
	var out []SecretUse
	for _, l := range s.withRef(func(*live) bool { return true }) {
		if !l.ended() {
			for _, u := range l.uses {
				out = append(out, SecretUse{SecretID: u.ID, SessionID: l.id, WorkspaceID: l.workspaceID, Agent: l.row.Agent, Version: u.Version}) // Agent never changes
			}
		}
		s.release(l)
	}
	slices.SortFunc(out, func(a, b SecretUse) int { return strings.Compare(a.SessionID, b.SessionID) })
	return out
}

// placement is where files of one session go.
type placement struct {
	svc   *Service
	place *executors.Place
	in    *inside
	user  string
}

// planFiles says what is going to be written, before it is.
func planFiles(files []secrets.PlacedFile, p placement) (out []placed, skipped bool) {
	for _, f := range files {
		if f.Home && p.place.SharedHome { // somebody's own home: nothing of theirs is replaced
			skipped = true
			continue
		}
		one := placed{Home: f.Home, Path: f.Path, Sum: sumOf([]byte(f.Value))}
		if f.Value != "" { // every empty file is as that one
			one.Blob, one.Blob256 = workspaces.BlobNames([]byte(f.Value))
		}
		out = append(out, one)
	}
	return out, skipped
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// filesHome opens the home files are written to.
func (p placement) filesHome(ctx context.Context) (agents.Files, func(), error) {
	if p.in != nil {
		return p.place.Guest.Home(ctx), func() {}, nil
	}
	dir, ok := p.svc.cfg.Agents.HomeHere(p.user)
	if !ok {
		return nil, nil, fault.New(fault.Unavailable, "home_missing", "There is no home to put the files of secrets into.")
	}
	d, err := homedir.Open(filepath.Clean(dir))
	if err != nil {
		return nil, nil, err
	}
	return d, func() { d.Close() }, nil
}

// key names a placed file among all there are.
func (p placement) key(f placed) string {
	where := p.place.SandboxID
	if f.Home && p.in == nil {
		where = "home of " + p.user
	}
	return where + "\x00" + strconv.FormatBool(f.Home) + "\x00" + f.Path
}

// put writes the files of secrets. Those in the worktree are kept out of git first.
func (p placement) put(ctx context.Context, workspaceID string, files []secrets.PlacedFile, plan []placed) error {
	var inTree []string
	for _, f := range plan {
		if !f.Home {
			inTree = append(inTree, f.Path)
		}
	}
	if len(inTree) > 0 {
		if p.svc.cfg.Exclude != nil {
			if err := p.svc.cfg.Exclude(ctx, workspaceID, inTree); err != nil {
				return err
			}
		}
		for _, name := range inTree {
			if err := p.keepOut(ctx, name); err != nil {
				return err
			}
		}
	}
	for _, f := range files {
		if f.Home && p.place.SharedHome {
			continue
		}
		if err := p.write(ctx, f); err != nil {
			return fault.Wrap(err, fault.Conflict, "secret_file_not_placed", "The file %s of a secret could not be written: %s", path.Base(f.Path), words(err)).With("path", f.Path)
		}
	}
	return nil
}

func (p placement) write(ctx context.Context, f secrets.PlacedFile) error {
	if !f.Home {
		if there, err := p.place.Guest.Stat(ctx, f.Path); err == nil && there.Type == "symlink" {
			// It would be followed, perhaps to a file that is part of the repository, and everybody would read the value in its changes.
			return fault.New(fault.Conflict, "secret_file_not_placed", "A link lies there. Remove it, or choose another path for the secret.")
		}
		_, err := p.place.Guest.WriteFile(ctx, f.Path, strings.NewReader(f.Value), client.WriteOptions{Mode: 0o600})
		return err
	}
	home, done, err := p.filesHome(ctx)
	if err != nil {
		return err
	}
	defer done()
	if dir := path.Dir(f.Path); dir != "." {
		if err := home.Mkdir(dir); err != nil {
			return err
		}
	}
	return home.WriteFile(f.Path, []byte(f.Value))
}

// keepOutScript keeps a file out of git where git knows nothing of it yet: 10 = it is part of the repository, 11 = git does not obey.
const keepOutScript = `command -v git >/dev/null 2>&1 && git rev-parse --git-dir >/dev/null 2>&1 || exit 0
if git ls-files --error-unmatch -- ":(top,literal)$1" >/dev/null 2>&1; then exit 10; fi
git check-ignore -q -- "$1" && exit 0
e=$(git rev-parse --git-path info/exclude) && mkdir -p "$(dirname "$e")" && printf '\n%s\n' "$2" >>"$e"
git check-ignore -q -- "$1" || exit 11`

// keepOut keeps a file of the worktree out of what git sees there.
func (p placement) keepOut(ctx context.Context, name string) error {
	res, err := p.place.Run(ctx, executors.BoxCommand{Argv: []string{"/bin/sh", "-c", keepOutScript, "sh", name, workspaces.ExcludePattern(name)},
		Env: map[string]string{"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": "false",
			"GIT_CONFIG_KEY_1": "core.hooksPath", "GIT_CONFIG_VALUE_1": "/dev/null"}})
	switch {
	case err != nil:
		return fmt.Errorf("keeping a file out of git: %w", err)
	case res.ExitCode == 10:
		return fault.New(fault.Conflict, "secret_file_tracked",
			"The file %s of a secret is part of the repository on this branch, and would be committed. Choose another path for it, or take the file out of git.", name).With("path", name)
	case res.ExitCode != 0:
		return fault.New(fault.Conflict, "secret_file_not_ignored", "The file %s of a secret was not written: git there does not ignore it. Add it to .gitignore, or choose another path.", name).With("path", name)
	}
	return nil
}

// count notes that a session uses files, or does not any more; it returns those nobody uses now.
func (s *Service) count(p placement, files []placed, by int) (free []placed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range files {
		k := p.key(f)
		if s.placed[k] += by; s.placed[k] <= 0 {
			delete(s.placed, k)
			free = append(free, f)
		}
	}
	return free
}

// lockKey is what the files of one session are written and removed under.
func (p placement) lockKey() string {
	if p.in == nil {
		return "home of " + p.user
	}
	return p.place.SandboxID
}

// place writes the files of secrets for a session that is about to start.
func (s *Service) place(ctx context.Context, to placement, workspaceID string, files []secrets.PlacedFile, plan []placed) error {
	if len(plan) == 0 {
		return nil
	}
	for _, key := range []string{to.lockKey(), treeKey(workspaceID)} {
		defer s.placers.Lock(key)()
	}
	s.count(to, plan, 1)
	return to.put(ctx, workspaceID, files, plan)
}

// treeKey is what the files of a workspace are written under, and removed where its place is gone.
func treeKey(workspaceID string) string { return "files of " + workspaceID }

// placementOf is where the files of a session were written, as far as it can be reached now.
func (l *live) placementOf() (placement, bool) {
	l.mu.Lock()
	workspaceID, sandboxID, user, in := l.row.WorkspaceID, l.row.SandboxID, l.row.CreatedBy, l.inside
	l.mu.Unlock()
	p, ok := l.svc.cfg.Places.Live(workspaceID)
	if !ok || p.SandboxID != sandboxID {
		p, ok = &executors.Place{}, false
		p.WorkspaceID, p.SandboxID = workspaceID, sandboxID
	}
	return placement{svc: l.svc, place: p, in: in, user: user}, ok
}

// remember notes what a session is about to be given: its files and values are known for as long as there is the workspace.
func (s *Service) remember(ctx context.Context, teamID, workspaceID string, files []placed, uses []secrets.Use) error {
	if s.cfg.Secrets == nil {
		return nil
	}
	known := make([]secrets.KnownFile, 0, len(files))
	for _, f := range files {
		k := secrets.KnownFile{Path: f.Path, Sum: f.Sum, Blob: f.Blob, Blob256: f.Blob256}
		if f.Home {
			k.Path = ""
		}
		known = append(known, k)
	}
	return s.cfg.Secrets.Remember(ctx, teamID, workspaceID, known, uses)
}

// recount notes at the start which files a session that ran uses, and what its agent shows to the model gateway.
func (s *Service) recount(ctx context.Context, row Session) {
	kept, err := s.recall(row.ID)
	s.gateway.Admit(kept.Token, row.SandboxID)
	if err != nil { // told where its secrets are recalled
		return
	}
	if err := s.remember(ctx, row.TeamID, row.WorkspaceID, kept.Files, kept.Uses); err != nil { // of an earlier version, which did not
		s.cfg.Log.Error("what a running session was given of secrets could not be noted", "session_id", row.ID, "workspace_id", row.WorkspaceID, "error", err)
	}
	if len(kept.Files) == 0 {
		return
	}
	p := placement{svc: s, place: &executors.Place{}, user: row.CreatedBy}
	p.place.SandboxID = row.SandboxID
	if kept.Inside {
		p.in = &inside{}
	}
	s.count(p, kept.Files, 1)
}

// clearFiles removes what was written for a session that has ended.
func (l *live) clearFiles() {
	if len(l.files) == 0 {
		return
	}
	p, live := l.placementOf()
	l.svc.run(func() {
		ctx, cancel := context.WithTimeout(l.svc.hard, clearTime)
		defer cancel()
		if live {
			l.svc.clear(ctx, p, l.files)
			return
		}
		own := func(f placed) bool { return f.Home && p.in == nil } // below the home of the user
		l.svc.clear(ctx, p, slices.DeleteFunc(slices.Clone(l.files), func(f placed) bool { return !own(f) }))
		l.svc.clearHere(ctx, p, l.svc.count(p, slices.DeleteFunc(slices.Clone(l.files), own), -1))
	})
}

// clearTime bounds how long the files of an ended session are tried to be removed.
const clearTime = 30 * time.Second

// clear removes the files of an ended session that no other session in the same place uses, unless somebody changed them.
func (s *Service) clear(ctx context.Context, p placement, files []placed) {
	defer s.placers.Lock(p.lockKey())()
	var left []placed
	for _, f := range s.count(p, files, -1) {
		err := p.remove(ctx, f)
		if err == nil || fault.Is(err, fault.NotFound) {
			continue
		}
		s.cfg.Log.Warn("a file of a secret was not removed", "workspace_id", p.place.WorkspaceID, "error", err)
		if !f.Home || p.in != nil { // its place may be dying
			left = append(left, f)
		}
	}
	s.clearHere(ctx, p, left)
}

func (p placement) remove(ctx context.Context, f placed) error {
	if !f.Home {
		body, info, err := p.place.Guest.ReadFile(ctx, f.Path)
		if err != nil {
			return err
		}
		defer body.Close()
		if info.Hash != f.Sum {
			return nil
		}
		return p.place.Guest.RemoveFile(ctx, f.Path)
	}
	home, done, err := p.filesHome(ctx)
	if err != nil {
		return err
	}
	defer done()
	b, err := home.ReadFile(f.Path)
	if err != nil {
		if isNotThere(err) {
			return nil
		}
		return err
	}
	if sumOf(b) != f.Sum {
		return nil
	}
	return home.Remove(f.Path)
}

func isNotThere(err error) bool {
	return fault.Is(err, fault.NotFound) || errors.Is(err, fs.ErrNotExist)
}
