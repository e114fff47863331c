package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

const (
	maxBranches = 2000 // shown of one project
	maxCounted  = 60   // local branches whose distance to their upstream is counted
	maxSlug     = 50   // characters of a name's slug
)

// CheckBranch checks a branch name a person gave.
func (s *Service) CheckBranch(ctx context.Context, name string) error {
	bad := fault.New(fault.Invalid, "branch_invalid",
		"%q is not a branch name git accepts: no spaces, no \"..\", no leading dash or dot, none of ~^:?*[\\ and no \".lock\" at the end.", hostgit.Clean(name))
	if name == "" || len(name) > 200 || strings.HasPrefix(name, "-") || name == "HEAD" || strings.ContainsFunc(name, unicode.IsControl) {
		return bad
	}
	if _, err := s.git.Run(ctx, hostgit.Call{Args: []string{"check-ref-format", HeadsPrefix + name}}); err != nil {
		if hostgit.ExitCode(err) > 0 {
			return bad
		}
		return GitFault(err, fault.Unavailable, "git_failed", "Checking the branch name")
	}
	return nil
}

// slug makes a branch or folder name of a person's words: letters and digits of any script, in lower case, joined by dashes.
func slug(name string) string {
	var b strings.Builder
	n := 0
	dash := false
	for _, r := range norm.NFKD.String(name) {
		switch {
		case r == unicode.ReplacementChar, unicode.Is(unicode.Mn, r) && r < 0x370:
			continue // the accents of Latin letters go, marks of other scripts stay
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.M, r):
			if dash && n > 0 {
				b.WriteByte('-')
				n++
			}
			dash = false
			if n >= maxSlug {
				return norm.NFC.String(strings.Trim(b.String(), "-"))
			}
			b.WriteRune(unicode.ToLower(r))
			n++
		default:
			dash = true
		}
	}
	if b.Len() == 0 {
		return "work"
	}
	return norm.NFC.String(b.String())
}

// SuggestBranch returns a free branch name for a workspace name: prefix, slug, and a number when it is taken.
func (s *Service) SuggestBranch(ctx context.Context, projectID, name string) (string, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return "", err
	}
	if p.State != ProjectReady {
		return "", notReady(p)
	}
	return s.freeBranch(ctx, p, s.cfg.BranchPrefix+slug(name), "")
}

// freeBranch returns want, or want-2, want-3, ... when it is taken by a branch or by a workspace that is being made.
func (s *Service) freeBranch(ctx context.Context, p Project, want, exceptWorkspace string) (string, error) {
	taken, err := s.takenNames(ctx, p, exceptWorkspace)
	if err != nil {
		return "", err
	}
	if err := s.CheckBranch(ctx, want); err != nil {
		return "", err
	}
	for i := 1; i < 10000; i++ {
		name := want
		if i > 1 {
			name = fmt.Sprintf("%s-%d", want, i)
		}
		if _, ok := taken[name]; ok {
			continue
		}
		if block := blocking(taken, name); block != "" && !strings.HasPrefix(block, name+"/") {
			return "", nameBlocked(name, block)
		} else if block != "" {
			continue
		}
		return name, nil
	}
	return "", fault.New(fault.Conflict, "branch_exists", "No free name like %q was found. Give another name.", want)
}

// takenNames are the local branches of the repository and those that workspaces being made have reserved.
func (s *Service) takenNames(ctx context.Context, p Project, exceptWorkspace string) (map[string]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--format=%(refname) %(worktreepath)", "refs/heads"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	taken := make(map[string]string)
	for _, l := range strings.Split(out, "\n") {
		ref, at, _ := strings.Cut(l, " ")
		if name, ok := strings.CutPrefix(ref, HeadsPrefix); ok {
			taken[name] = at
		}
	}
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("listing the project's workspaces: %w", err)
	}
	for _, w := range ws {
		if _, ok := taken[w.Branch]; !ok && w.ID != exceptWorkspace && w.State != Failed && w.State != Archived {
			taken[w.Branch] = ""
		}
	}
	return taken, nil
}

// blocking returns a taken branch that cannot exist beside name, because one would be a folder where the other is a file.
func blocking(taken map[string]string, name string) string {
	for t := range taken {
		if strings.HasPrefix(t, name+"/") || strings.HasPrefix(name, t+"/") {
			return t
		}
	}
	return ""
}

func nameBlocked(name, by string) error {
	return fault.New(fault.Conflict, "branch_blocked", "git cannot keep a branch %q beside the branch %q. Choose another name.", name, by)
}

// claimBranch checks that a branch name a person gave is free.
func (s *Service) claimBranch(ctx context.Context, p Project, name, exceptWorkspace string) error {
	if err := s.CheckBranch(ctx, name); err != nil {
		return err
	}
	taken, err := s.takenNames(ctx, p, exceptWorkspace)
	if err != nil {
		return err
	}
	if at, ok := taken[name]; ok {
		if at != "" {
			return fault.New(fault.Conflict, "branch_checked_out", "The branch %q exists and is checked out in %s. Choose another name.", name, s.placeName(ctx, p, at)).With("checked_out", s.placeName(ctx, p, at))
		}
		return fault.New(fault.Conflict, "branch_exists", "The branch %q exists already. Choose another name.", name)
	}
	if b := blocking(taken, name); b != "" {
		return nameBlocked(name, b)
	}
	return nil
}

// placeName is a workspace's key where path is one's worktree, otherwise CheckedOutElsewhere: nobody is told where the server has what.
func (s *Service) placeName(ctx context.Context, p Project, path string) string {
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return CheckedOutElsewhere
	}
	for _, w := range ws {
		if samePath(w.Path, path) {
			return w.Key()
		}
	}
	return CheckedOutElsewhere
}

// Branches lists the project's branches, the default one first, then the newest. With fetch the remote is asked first; when
// that fails FetchError says why and the branches are as of FetchedAt.
func (s *Service) Branches(ctx context.Context, projectID string, fetch bool) (Branches, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return Branches{}, err
	}
	if p.State != ProjectReady {
		return Branches{}, notReady(p)
	}
	var out Branches
	if fetch {
		if _, err := s.Fetch(ctx, &p); err != nil {
			if ctx.Err() != nil {
				return Branches{}, context.Cause(ctx)
			}
			out.FetchError = Reason(err)
		}
	}
	out.FetchedAt = p.FetchedAt
	out.Items, err = s.listBranches(ctx, p)
	return out, err
}

func (s *Service) listBranches(ctx context.Context, p Project) ([]Branch, error) {
	const format = "%(refname)%00%(objectname)%00%(committerdate:unix)%00%(symref)%00%(upstream)%00%(worktreepath)%00%(contents:subject)"
	raw, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"for-each-ref", "--sort=-committerdate",
		"--count=" + strconv.Itoa(maxBranches), "--format=" + format, "refs/heads", "refs/remotes"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the branches")
	}
	commits := make(map[string]string) // by full ref name
	var items []Branch
	for _, l := range strings.Split(raw, "\n") {
		f := strings.SplitN(l, "\x00", 7)
		if len(f) != 7 || f[3] != "" || !IsCommitID(f[1]) { // symbolic refs such as origin/HEAD are no branches
			continue
		}
		commits[f[0]] = f[1]
		at, _ := strconv.ParseInt(f[2], 10, 64)
		b := Branch{Commit: f[1], CommitAt: at * 1000, Subject: hostgit.Clean(f[6])}
		switch {
		case strings.HasPrefix(f[0], HeadsPrefix):
			b.Name, b.Upstream = strings.TrimPrefix(f[0], HeadsPrefix), f[4]
			b.Default = b.Name == p.DefaultBranch
			if f[5] != "" {
				b.CheckedOut = f[5]
			}
		default:
			b.Name, b.Remote = strings.TrimPrefix(f[0], "refs/remotes/"), true
		}
		items = append(items, b)
	}
	keys := s.keysByPath(ctx, p)
	counted := 0
	for i := range items {
		b := &items[i]
		if k, ok := keys[b.CheckedOut]; ok {
			b.CheckedOut = k
		} else if b.CheckedOut != "" { // a folder of the server's is nothing the team needs to know of
			b.CheckedOut = CheckedOutElsewhere
		}
		if b.Remote {
			continue
		}
		if b.Upstream == "" {
			b.Upstream = "refs/remotes/origin/" + b.Name
		}
		up, ok := commits[b.Upstream]
		if !ok {
			b.Upstream = ""
			continue
		}
		b.Upstream = strings.TrimPrefix(strings.TrimPrefix(b.Upstream, "refs/remotes/"), HeadsPrefix)
		if counted++; counted <= maxCounted || b.Default {
			if b.Ahead, b.Behind, err = s.aheadBehind(ctx, p.GitDir, b.Commit, up); err != nil {
				return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing branches")
			}
		}
	}
	for i := range items { // the default branch first
		if items[i].Default {
			d := items[i]
			copy(items[1:i+1], items[:i])
			items[0] = d
			break
		}
	}
	if items == nil {
		items = []Branch{}
	}
	return items, nil
}

func (s *Service) keysByPath(ctx context.Context, p Project) map[string]string {
	keys := make(map[string]string)
	ws, err := s.store.WorkspacesOf(ctx, p.ID)
	if err != nil {
		return keys
	}
	for _, w := range ws {
		keys[w.Path] = w.Key()
	}
	return keys
}

// fetchFresh is how old a fetch may be to stand for one asked for meanwhile by somebody else.
const fetchFresh = 2 * time.Second

// Fetch asks the project's remote for its branches and notes when. did is false when there is no remote to ask.
func (s *Service) Fetch(ctx context.Context, p *Project) (did bool, err error) {
	const doing = "Fetching"
	asked := s.Millis()
	ctx, end, err := s.BeginWork(ctx, *p, "", "", WorkFetch)
	if err != nil {
		return false, err
	}
	defer end()
	if now, err := s.store.Project(ctx, p.ID); err == nil && now.FetchedAt >= asked {
		p.FetchedAt = now.FetchedAt // somebody else fetched while this call waited
		return true, nil
	}
	if err := s.askRemote(ctx, *p, doing); errors.Is(err, errNoRemote) {
		return false, nil
	} else if err != nil {
		return false, endedBy(ctx, err)
	}
	at := s.Millis()
	stored, err := s.store.EditProject(context.WithoutCancel(ctx), p.ID, func(p *Project) error {
		p.FetchedAt = max(p.FetchedAt, at)
		return nil
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		return true, fmt.Errorf("noting the fetch: %w", err)
	}
	p.FetchedAt = stored.FetchedAt
	s.PublishProject(ctx, stored)
	s.ProjectMoved(ctx, stored)
	return true, nil
}

// errNoRemote says that a repository comes from nowhere.
var errNoRemote = errors.New("the repository has no remote")

// askRemote asks whatever the project comes from for its branches.
func (s *Service) askRemote(ctx context.Context, p Project, doing string) error {
	if p.SourceKind == SourceRunner {
		return s.fetchBundle(ctx, p)
	}
	if p.SourceKind == SourceURL {
		cred, err := s.credential(ctx, p, p.Source)
		if err != nil {
			return err
		}
		return GitFault(s.fetchApart(ctx, p, p.Source, hostgit.Call{Credential: cred}), fault.Unavailable, "fetch_failed", doing)
	}
	from, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get", "remote.origin.url"}})
	if hostgit.ExitCode(err) == 1 || err == nil && from == "" {
		return errNoRemote
	}
	if err != nil {
		return GitFault(err, fault.Unavailable, "fetch_failed", doing)
	}
	// It is asked apart from the repository's config, which may be an agent's and could lead around every rule of ours, or name a program.
	elsewhere := slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" })
	call := hostgit.Call{Folders: true, Also: s.localProtocol(p, from)}
	if r, err := ParseRemote(from, elsewhere); err == nil {
		cred, err := s.credential(ctx, p, r.URL)
		if err != nil {
			return err
		}
		if cred == nil {
			cred = r.Credential()
		}
		from, call = r.URL, hostgit.Call{Credential: cred}
	}
	return GitFault(s.fetchApart(ctx, p, from, call), fault.Unavailable, "fetch_failed", doing)
}

// localProtocol allows file for a folder whose origin is another folder people may choose.
func (s *Service) localProtocol(p Project, from string) []string {
	path, isURL := strings.CutPrefix(from, "file://")
	if !isURL && !strings.HasPrefix(path, "/") {
		return nil
	}
	if _, err := s.allowed(path); err != nil {
		return nil
	}
	return []string{"file"}
}

func notReady(p Project) error {
	if p.State == Cloning {
		return fault.New(fault.Conflict, "project_cloning", "The project %q is still being cloned. Wait until it is ready.", p.Name)
	}
	return fault.New(fault.Conflict, "project_failed", "The project %q could not be set up: %s", p.Name, p.StateReason)
}
