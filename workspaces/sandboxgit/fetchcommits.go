package sandboxgit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// Bounds of one fetch from a sandbox.
const (
	maxSyncPack   = 2 << 30  // bytes of a pack
	maxSyncBlob   = 1 << 30  // bytes of one file
	maxSyncTotal  = 32 << 30 // bytes of all packs of one workspace, which are never given back
	maxSyncMemory = 3 << 30  // bytes git may allocate to check it
	maxSyncRefs   = 2_000    // branches, tags and stashes
	maxStashes    = 50
	MaxNegatives  = 1_000 // commits that a sandbox leaves out
	maxKept       = 100   // saved commits that the sandbox no longer names
)

// syncTime bounds a fetch.
const syncTime = 10 * time.Minute

// SandboxView is what a sandbox reports of its git dir. The names are checked, the commits not yet.
type SandboxView struct {
	branch, head string            // HEAD
	Refs         map[string]string // refs/heads/*, and refs/tags/* that the host did not advertise
	advertised   map[string]string // refs/remotes/* and advertised tags, as they are there now
	Stash        []string          // the newest first
}

// FetchCommits fetches the commits of an isolated or remote workspace into the repository, updates its branch and its own refs there, and
// advertises what is new in the repository to the sandbox. extra are further commits to fetch. For other workspaces it does nothing. It
// checks or rejects what the sandbox reports: on an error the repository is unchanged.
func (s *Store) FetchCommits(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *Sandbox, extra ...string) error {
	if !s.Separate(w.ID) {
		return nil
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(ctx, syncTime)
	defer cancel()
	for range advertiseRounds {
		stamp := s.Stamp(w.ID)
		view, err := s.Look(ctx, w, b)
		if err != nil {
			return err
		}
		if err := s.importCommits(ctx, p, w, b, view, stamp, extra); err != nil {
			return err
		}
		if b.Leave {
			return nil
		}
		// Advertising moves refs in the sandbox: another round records that these are synced, too.
		if advertised, err := s.advertise(ctx, p, w, b, view); err != nil || !advertised {
			return err
		}
	}
	return nil
}

// advertiseRounds bounds how often a changing repository is advertised in one fetch.
const advertiseRounds = 3

// Synced reports whether everything in the sandbox was fetched before. It is a hint: a sandbox that hides its work only harms itself.
func (s *Store) Synced(ctx context.Context, w workspaces.Workspace) bool {
	if s.Remote(w.ID) {
		return s.Asleep(ctx, w) // what was fetched is all there is
	}
	if !s.OwnGitDir(w.ID) {
		return true
	}
	stamp := s.Stamp(w.ID)
	return stamp != "" && stamp == s.ReadSyncState(w.ID).Stamp
}

// Look asks the sandbox for its refs and checks their names.
func (s *Store) Look(ctx context.Context, w workspaces.Workspace, b *Sandbox) (SandboxView, error) {
	v := SandboxView{Refs: make(map[string]string), advertised: make(map[string]string)}
	var err error
	if v.head, v.branch, err = b.Head(ctx); err != nil {
		return v, err
	}
	if v.branch != "" && !PlainRef(git.HeadsPrefix+v.branch) {
		return v, refused("the branch has a name git does not accept")
	}
	out, err := b.Git(ctx, nil, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags", "refs/remotes", "refs/stash")
	if err != nil {
		return v, git.SandboxFault(err, "worktree_unreadable", "Reading the sandbox's branches")
	}
	known := s.ReadAdvertised(w.ID)
	for l := range strings.SplitSeq(strings.TrimSuffix(out, "\n"), "\n") {
		id, name, ok := strings.Cut(l, " ")
		if l == "" {
			continue
		}
		if !ok || !git.IsCommitID(id) || len(id) != len(v.head) || !PlainRef(name) {
			return v, refused("a branch or tag has a name git does not accept")
		}
		switch {
		case name == "refs/stash":
		case strings.HasPrefix(name, "refs/remotes/"), strings.HasPrefix(name, "refs/tags/") && known[name] != "":
			v.advertised[name] = id
		case strings.HasPrefix(name, git.HeadsPrefix), strings.HasPrefix(name, "refs/tags/"):
			if v.Refs[name] = id; len(v.Refs) > maxSyncRefs {
				return v, refused(fmt.Sprintf("it has more than %d branches and tags of its own", maxSyncRefs))
			}
		default:
			return v, refused("it reports refs it was not asked for")
		}
	}
	// HEAD was read a moment before: its branch's current value counts.
	if tip := v.Refs[git.HeadsPrefix+v.branch]; v.branch != "" && tip != "" {
		v.head = tip
	}
	if strings.Contains(out, " refs/stash\n") {
		out, err := b.Git(ctx, nil, "log", "--walk-reflogs", "--format=%H", fmt.Sprintf("--max-count=%d", maxStashes), "refs/stash", "--")
		if err != nil {
			return v, git.SandboxFault(err, "worktree_unreadable", "Reading the sandbox's stashes")
		}
		for id := range strings.FieldsSeq(out) {
			if !git.IsCommitID(id) || len(id) != len(v.head) || len(v.Stash) == maxStashes {
				return v, refused("a stash is not a commit")
			}
			v.Stash = append(v.Stash, id)
		}
	}
	return v, nil
}

func refused(why string) error {
	return fault.New(fault.Conflict, "commits_refused", "The commits that the sandbox sent were rejected: %s. The project is unchanged.", why)
}

// syncRefs are the refs of the repository that follow the sandbox's, by their names there.
func (v SandboxView) syncRefs(w workspaces.Workspace) map[string]string {
	own := AgentRefs(w.ID)
	refs := make(map[string]string)
	for name, id := range v.Refs {
		if name != git.HeadsPrefix+w.Branch {
			refs[own+strings.TrimPrefix(name, "refs/")] = id
		}
	}
	for i, id := range v.Stash {
		refs[own+"stash/"+strconv.Itoa(i)] = id
	}
	if v.branch == "" {
		refs[own+"detached"] = v.head
	}
	return refs
}

// importCommits fetches what the repository lacks and moves its refs.
func (s *Store) importCommits(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *Sandbox, v SandboxView, stamp string, extra []string) error {
	tip := v.Refs[git.HeadsPrefix+w.Branch]
	was, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	if err != nil {
		return err
	}
	have, err := s.RefsBelow(ctx, p, AgentRefs(w.ID))
	if err != nil {
		return err
	}
	want := v.syncRefs(w)
	advertised := s.ReadAdvertised(w.ID)
	known := map[string]bool{was: true}
	for _, m := range [...]map[string]string{advertised, have} {
		for _, id := range m {
			known[id] = true
		}
	}
	for name, id := range want { // an unchanged copy of the base's branch is not work
		if head := "refs/" + strings.TrimPrefix(name, AgentRefs(w.ID)); known[id] && have[name] == "" && advertised[head] == id {
			delete(want, name)
		}
	}
	tips := make(map[string]bool) // by commit: whether it must be one
	add := func(id string, commit bool) {
		if id != "" && !known[id] {
			tips[id] = tips[id] || commit
		}
	}
	add(tip, true)
	add(v.head, true)
	for name, id := range want {
		add(id, !strings.HasPrefix(name, AgentRefs(w.ID)+"tags/"))
	}
	for _, id := range extra {
		add(id, true)
	}
	state := s.ReadSyncState(w.ID)
	if len(tips) > 0 && s.Remote(w.ID) { // with a shallow history, the sandbox lacks some of what is known here
		there, err := b.Has(ctx, FirstOf(known, MaxNegatives))
		if err != nil {
			return err
		}
		known = there
	}
	if len(tips) > 0 { // objects pruned in the repository must be sent again, though the sandbox still has them
		here, err := s.repo.Typed(ctx, p, slices.Sorted(maps.Keys(known)))
		if err != nil {
			return err
		}
		maps.DeleteFunc(known, func(id string, _ bool) bool { return here[id] == "" })
		n, err := s.TakePack(ctx, p, w, b, tips, known, state.Bytes)
		if err != nil {
			return err
		}
		if state.Bytes += n; n > 0 {
			if err := s.WriteSyncState(w.ID, state); err != nil {
				return err
			}
		}
	}
	failpoint.Reach(failpoint.HomeTaken)
	index := state.Index
	if state.Head != v.head {
		index = ""
	}
	if s.Remote(w.ID) { // if its sandbox is lost, only this says where it was
		if err := s.WriteSyncState(w.ID, SyncState{Branch: v.branch, Head: v.head, Tip: tip, Index: index, Bytes: state.Bytes}); err != nil {
			return err
		}
	}
	if err := s.moveBranches(ctx, p, w, v, was, state.Tip, have, want); err != nil {
		return err
	}
	failpoint.Reach(failpoint.HomeMoved)
	return s.WriteSyncState(w.ID, SyncState{Stamp: stamp, Branch: v.branch, Head: v.head, Tip: tip, Index: index, Bytes: state.Bytes})
}

// FirstOf returns the first n names.
func FirstOf(names map[string]bool, n int) []string {
	ids := git.Unique(slices.Sorted(maps.Keys(names)))
	return ids[:min(len(ids), n)]
}

// TakePack has the sandbox pack what is reachable from the tips beyond known, which this server knows it may read, and fetches that. The
// result must be complete with known alone: a sandbox cannot obtain an object of others by naming it. before is how many bytes were taken
// from the workspace so far; it returns how many came.
func (s *Store) TakePack(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *Sandbox, tips, known map[string]bool, before int64) (int64, error) {
	if err := s.ShareObjects(ctx, p, w, slices.Sorted(maps.Keys(known))...); err != nil {
		return 0, err
	}
	own := s.OwnStore(w.ID).Objects()
	var ask strings.Builder
	for _, id := range slices.Sorted(maps.Keys(tips)) {
		ask.WriteString(id + "\n")
	}
	ask.WriteString("--not\n")
	for i, id := range slices.Sorted(maps.Keys(known)) {
		if id != "" && i < MaxNegatives {
			ask.WriteString(id + "\n")
		}
	}
	in, err := s.git.Quarantine(ctx, s.records.TmpDir(), p.GitDir, own)
	if err != nil {
		return 0, git.DiskFault(err, "Fetching the workspace's commits")
	}
	defer func() { _ = in.Close() }()
	limits := hostgit.QuarantineLimits{Bytes: maxSyncPack, Blob: maxSyncBlob, Memory: maxSyncMemory, Time: syncTime}
	pr, pw, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	done := make(chan error, 1)
	go func() { // owned by this call: ends with the sandbox's command, which has a time limit
		err := b.pack(ctx, ask.String(), pw)
		_ = pw.Close()
		done <- err
	}()
	err = in.Take(ctx, pr, limits)
	_ = pr.Close()
	if packed := <-done; packed != nil && (err == nil || !errors.Is(packed, errPipe)) {
		return 0, packed
	}
	if err == nil {
		err = in.Check(ctx, tips, limits, git.Unique(slices.Sorted(maps.Keys(known)))...)
	}
	if err == nil {
		err = s.secretFiles.CheckCommits(ctx, w.ID, in, tips, known, limits)
	}
	if fault.CodeOf(err) == "commits_hold_secret" || fault.CodeOf(err) == "secrets_unknown" {
		return 0, err
	}
	if errors.Is(err, hostgit.ErrRefused) {
		return 0, refused(strings.TrimSuffix(strings.TrimPrefix(err.Error(), hostgit.ErrRefused.Error()+": "), "."))
	}
	if err != nil {
		return 0, git.GitFault(err, fault.Unavailable, "commit_transfer_failed", "Fetching the workspace's commits")
	}
	size := in.Size()
	if before+size > maxSyncTotal {
		return 0, refused(fmt.Sprintf("the workspace has sent more than %d GiB of commits in all", maxSyncTotal>>30))
	}
	if err := in.CopyTo(own); err != nil { // it may depend on what it has sent
		return 0, git.DiskFault(err, "Fetching the workspace's commits")
	}
	failpoint.Reach(failpoint.HomeChecked)
	if err := in.Keep(); err != nil {
		return 0, git.DiskFault(err, "Fetching the workspace's commits")
	}
	return size, s.noteReceived(ctx, p, w, slices.Sorted(maps.Keys(tips)))
}

// errPipe means that the reader stopped before the writer was done.
var errPipe = errors.New("the pack was not read to its end")

// packFault is the error of a sandbox that did not pack its commits. A cause in its git, such as a branch or a commit that refers to a
// missing object, is the same at the next try: the commits are rejected, and people are notified, not only the caller.
func packFault(e *git.CommandError) error {
	err := git.SandboxFault(e, "commit_transfer_failed", "Packing the workspace's commits")
	if git.ExitCode(e) != 128 || fault.Is(err, fault.DiskFull) || e.Words() == "" {
		return err
	}
	return refused("its git cannot pack them (" + strings.TrimSuffix(e.Words(), ".") + ")")
}

// noted records that a write failed.
type noted struct {
	w   *os.File
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	k, err := n.w.Write(p)
	if err != nil {
		n.err = err
	}
	return k, err
}

// moveBranches moves the refs of the repository to those of the sandbox, and saves what they no longer reach. was is the workspace's local
// branch, before its position in the sandbox at the last fetch.
func (s *Store) moveBranches(ctx context.Context, p workspaces.Project, w workspaces.Workspace, v SandboxView, was, before string, have, want map[string]string) error {
	tip := v.Refs[git.HeadsPrefix+w.Branch]
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return err
	}
	defer unlock()
	first, then, lost, err := s.syncBranch(ctx, p, w, tip, was, before)
	if err != nil {
		return err
	}
	for name, id := range have {
		if want[name] == id {
			continue
		}
		if !strings.Contains(name, "/stash/") || !slices.Contains(v.Stash, id) { // a stash that only changed its number is not lost
			lost = append(lost, id)
		}
		if want[name] == "" {
			first = append(first, git.RefDelete(name, id))
		}
	}
	for name, id := range want {
		if have[name] != id {
			then = append(then, git.RefSet(name, id))
		}
	}
	keep, err := s.saveLost(ctx, p, w, v, lost)
	if err != nil {
		return err
	}
	// Delete names before creating conflicting ones: a, then a/b.
	for _, edits := range [][]git.RefEdit{append(keep, first...), then} {
		if len(edits) == 0 {
			continue
		}
		if err := s.repo.UpdateRefs(ctx, p.GitDir, "from the sandbox of "+w.Key(), edits...); err != nil {
			return git.GitFault(err, fault.Conflict, "commit_transfer_failed", "Moving the workspace's branch")
		}
	}
	return nil
}

// syncBranch determines how the workspace's own branch follows the sandbox's, where the work is done. It does not move the branch if
// somebody else added commits to it in the repository meanwhile.
func (s *Store) syncBranch(ctx context.Context, p workspaces.Project, w workspaces.Workspace, tip, was, before string) (first, then []git.RefEdit, lost []string, err error) {
	ref := git.HeadsPrefix + w.Branch
	switch {
	case tip == "" || tip == was:
		return nil, nil, nil, nil
	case was == "":
		return nil, []git.RefEdit{git.RefCreate(ref, tip)}, nil, nil
	}
	forward, err := s.repo.Contains(ctx, p.GitDir, tip, was)
	if err != nil {
		return nil, nil, nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branch")
	}
	if !forward {
		behind, err := s.repo.Contains(ctx, p.GitDir, was, tip)
		if err != nil {
			return nil, nil, nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branch")
		}
		if behind && before != was && before == tip {
			return nil, nil, nil, nil // somebody else advanced it; the sandbox gets that advertised
		}
		lost = []string{was}
	}
	return nil, []git.RefEdit{git.RefUpdate(ref, tip, was)}, lost, nil
}

// saveLost makes refs for commits that no ref reaches any more, and drops the oldest ones.
func (s *Store) saveLost(ctx context.Context, p workspaces.Project, w workspaces.Workspace, v SandboxView, lost []string) ([]git.RefEdit, error) {
	var edits []git.RefEdit
	if len(lost) == 0 {
		return nil, nil
	}
	kept, err := s.RefsBelow(ctx, p, keepRefs(w.ID))
	if err != nil {
		return nil, err
	}
	next, oldest := 1, []int{}
	for name := range kept {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, keepRefs(w.ID))); err == nil {
			oldest = append(oldest, n)
			next = max(next, n+1)
		}
	}
	slices.Sort(oldest)
	tips := []string{v.head}
	for _, id := range v.Refs {
		tips = append(tips, id)
	}
	slices.Sort(lost)
	for _, id := range slices.Compact(lost) {
		reached, err := s.ReachedFrom(ctx, p, id, tips)
		if err != nil {
			return nil, err
		}
		if reached || slices.Contains(slices.Sorted(maps.Values(kept)), id) {
			continue
		}
		edits = append(edits, git.RefCreate(keepRefs(w.ID)+strconv.Itoa(next), id))
		oldest = append(oldest, next)
		next++
	}
	for len(oldest) > maxKept {
		if name := keepRefs(w.ID) + strconv.Itoa(oldest[0]); kept[name] != "" {
			edits = append(edits, git.RefDelete(name, kept[name]))
		}
		oldest = oldest[1:]
	}
	return edits, nil
}

// ReachedFrom reports whether a commit is reachable from one of tips.
func (s *Store) ReachedFrom(ctx context.Context, p workspaces.Project, id string, tips []string) (bool, error) {
	var in strings.Builder
	in.WriteString(id + "\n")
	for _, t := range tips {
		in.WriteString("^" + t + "\n")
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(in.String()), Args: []string{"rev-list", "--max-count=1", "--ignore-missing", "--stdin"}})
	if err != nil {
		return false, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branches")
	}
	return out == "", nil
}
